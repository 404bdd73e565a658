package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/changes"
)

// Another machine's server may send any text as the state of a worktree.
func TestWorktreeOfAServerCannotControlTheTerminal(t *testing.T) {
	const id, bad = "01a22b35-aea3-7607-9218-68d57b1ab5e6", "\x1b]0;title\x07\u202e"
	for _, st := range []changes.WorktreeStatus{
		{State: changes.WorktreeReady, Target: "main", Operation: "rebase" + bad},
		{State: "refused" + bad, Problem: "a problem"},
	} {
		text, err := json.Marshal(st)
		if err != nil {
			t.Fatal(err)
		}
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/worktree") {
				_, _ = w.Write(text)
				return
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"sessions": []map[string]string{{"sessionId": id}}})
		}))
		t.Setenv("RUNNEL_URL", srv.URL)
		t.Setenv("RUNNEL_TOKEN", "rnl_"+strings.Repeat("a", 43))
		out, errOut, code := callRunnel(nil, "sessions", "worktree", id, "--socket", "off", "--data", t.TempDir())
		srv.Close()
		if said := out + errOut; code != exitOK || strings.ContainsAny(said, "\x1b\x07\u202e") || !strings.Contains(said, "a problem") && !strings.Contains(said, "rebase") {
			t.Errorf("%q: exit code %d, %q", st.State, code, said)
		}
	}
}
