package reply

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
)

// Several requests may be answered with the same bytes at once: those of a
// request that was sent again.
func TestRawLeavesItsBodyAlone(t *testing.T) {
	body := make(json.RawMessage, 2, 8)
	copy(body, "{}")
	w := httptest.NewRecorder()
	Raw(w, 200, body)
	if got := w.Body.String(); got != "{}\n" || body[:3][2] != 0 {
		t.Errorf("answered %q and left %q", got, body[:3])
	}
}

func TestErrorTableIsWhole(t *testing.T) {
	src, err := os.ReadFile("../../error.go")
	if err != nil {
		t.Fatal(err)
	}
	var known []string
	for c := range statuses {
		known = append(known, string(c))
	}
	for _, line := range strings.Split(string(src), "\n") {
		_, value, ok := strings.Cut(line, `Code = "`)
		if !ok {
			continue
		}
		c := strings.TrimSuffix(value, `"`)
		if !slices.Contains(known, c) {
			t.Errorf("%s has no status", c)
		}
	}
}
