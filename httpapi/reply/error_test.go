package reply

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
)

// Several requests may be answered with the same bytes at once, for instance
// when a request is repeated.
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

func TestAnswerThatCannotBeEncodedIsAnError(t *testing.T) {
	w := httptest.NewRecorder()
	if err := JSON(w, http.StatusOK, func() {}); err == nil || w.Body.Len() > 0 {
		t.Errorf("got %v and %q", err, w.Body)
	}
	failed := &runnel.Error{Code: runnel.AgentError, Message: "the message", Details: func() {}}
	writer := Writer{Redact: func(s string) string { return s }}
	writer.Error(w, httptest.NewRequest(http.MethodGet, "/", nil), failed)
	if want := `{"error":{"type":"AGENT_ERROR","message":"the message"}}`; w.Code != http.StatusBadGateway || strings.TrimSpace(w.Body.String()) != want {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}
