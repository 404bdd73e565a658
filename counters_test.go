package runnel_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
)

// The types come from an agent, so neither their number nor their text may grow
// without bound, and they may hold no text of a conversation.
func TestUnknownTypesAreBoundedAndCleaned(t *testing.T) {
	var c runnel.Counters
	for typ, want := range map[string]string{
		"turn/celebrated": "turn/celebrated", "$/x_y-z.1": "$/x_y-z.1", "": runnel.OtherType, "日本": runnel.OtherType,
		"a b\nc\"}\x1b[31m": "abc31m", strings.Repeat("x", 1<<20): strings.Repeat("x", 64),
	} {
		before := c.Unknown()[want]
		if c.CountUnknown(typ); c.Unknown()[want] != before+1 {
			t.Errorf("%.20q: %v, want %q", typ, c.Unknown(), want)
		}
	}
	for i := range 1000 {
		c.CountUnknown(fmt.Sprint("type", i))
	}
	counts, total := c.Unknown(), int64(0)
	for _, n := range counts {
		total += n
	}
	if len(counts) > 65 || total != 1006 || counts[runnel.OtherType] < 900 {
		t.Errorf("%d types, %d messages, %d other", len(counts), total, counts[runnel.OtherType])
	}
}
