package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/provider/all"
)

// bash puts what several words have in common into the line as it is, and runs
// the substitutions that the line has then at the next completion.
func TestCompletionsHaveNoWordsThatAShellRuns(t *testing.T) {
	bad := []string{
		"$(touch ran)a", "$(touch ran)b", "`touch ran`", "a;touch ran", "a&b", "a|b", "a>b", "a<b", "a b", "'a", `"a`, `a\b`, "$HOME", "~root", "{a,b}", "*", "!!", "#a", "é", "--data=a", "",
	}
	good := []string{"01a22b87-6c4c-7964-b929-878c96b7f62b", "claude-opus-5[1m]", "openrouter/a.b:free", "gpt_5@high+x"}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var sessions, models []map[string]any
		for _, s := range append(bad, good...) {
			sessions = append(sessions, map[string]any{"sessionId": s, "cliType": "script", "title": "t", "state": "open"})
			models = append(models, map[string]any{"id": s, "name": "m"})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"sessions": sessions, "agents": []any{map[string]any{"cliType": "codex", "installed": true, "models": models}}})
	}))
	defer srv.Close()
	t.Setenv("RUNNEL_URL", srv.URL)
	t.Setenv("RUNNEL_TOKEN", "rnl_x")
	for _, line := range [][]string{{"logs", ""}, {"run", "--model", ""}} {
		var out, errs bytes.Buffer
		root := (&app{in: strings.NewReader(""), out: &out, err: &errs, providers: all.Providers()}).root()
		root.SetArgs(append([]string{"__complete"}, line...))
		if err := root.Execute(); err != nil {
			t.Fatalf("%v: %s", err, errs.String())
		}
		var got []string
		for l := range strings.Lines(out.String()) {
			if value, _, described := strings.Cut(l, "\t"); described {
				got = append(got, value)
			}
		}
		if strings.Join(got, " ") != strings.Join(good, " ") {
			t.Errorf("%q offers %q, want %q", line, got, good)
		}
	}
}
