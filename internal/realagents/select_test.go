package realagents_test

import (
	"testing"

	"github.com/runnel-dev/runnel/internal/realagents"
)

func TestFindSkipsAgentsThatAreNotSelected(t *testing.T) {
	t.Setenv("RUNNEL_SKIP_REAL_AGENTS", "")
	for _, tt := range []struct {
		names string
		agent string
		want  string // how Find ends the test; "" if it returns or ends it for another reason
	}{
		{"", "codex", ""},
		{"codex", "codex", ""},
		{"qwen,codex", "codex", ""},
		{"qwen,codex", "gemini", "skip"},
		{"codex-acp", "codex", "skip"},
		{"codx", "codex", "fatal"},
	} {
		t.Setenv("RUNNEL_AGENTS", tt.names)
		if got := realagents.Selected(tt.agent); got != (tt.want == "") {
			t.Errorf("RUNNEL_AGENTS=%s: Selected(%s) is %v", tt.names, tt.agent, got)
		}
		if tt.want == "" {
			continue
		}
		if got := outcome(t, func(t testing.TB) { realagents.Find(t, tt.agent) }); got != tt.want {
			t.Errorf("RUNNEL_AGENTS=%s: looking for %s: %s, want %s", tt.names, tt.agent, got, tt.want)
		}
	}
}

// outcome runs a helper and returns how the helper ended its test: "skip",
// "fatal", or "" if it returned.
func outcome(t *testing.T, helper func(testing.TB)) string {
	t.Helper()
	rec := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }() // recorder panics to stop the helper
		helper(rec)
	}()
	<-done
	return rec.got
}
