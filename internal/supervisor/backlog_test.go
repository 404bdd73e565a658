package supervisor

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/internal/testload"
)

// A server that takes over holds a turn in memory, so an agent cannot make it
// hold any number of short lines, or of short messages to the agent.
func TestTurnOfTooManyShortPiecesIsNotTakenOver(t *testing.T) {
	testload.TakesLong(t)
	begin := appendNote(nil, note{what: noteBegin, at: time.Now(), p: []byte("{}")})
	for name, c := range map[string]struct {
		notes, output []byte
		want          string
	}{
		"few lines":  {begin, []byte("{}\n{}\n"), ""},
		"many lines": {begin, bytes.Repeat([]byte{'\n'}, maxPieces+1), "too many lines"},
		"many notes": {bytes.Repeat(appendNote(nil, note{what: noteTime, at: time.Now()}), maxPieces+1), nil, "too many notes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readBacklog(bytes.NewReader(c.notes), bytes.NewReader(c.output), int64(len(c.output)))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v", err)
			}
		})
	}
}
