package acp

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/fakemodel"
)

// Copilot keeps what was said in the user's sessions in one database, and asks
// about no query of it. A text in one project could make it show the model the
// sessions of all others.
func TestCopilotReadsNoSessionsOfOtherProjects(t *testing.T) {
	eachOf(t, []string{"copilot"}, func(t *testing.T, r *rig) {
		terminal := exec.CommandContext(t.Context(), r.Agent.Path, "-p", "canary-of-a-terminal")
		terminal.Dir, terminal.Env = r.Home.Project, append(slices.Clone(r.Opt.Env), "PATH="+os.Getenv("PATH"))
		if out, err := terminal.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		before := len(r.Model.Requests())
		r.Opt.Dir = filepath.Join(filepath.Dir(r.Home.Project), "other")
		if err := os.MkdirAll(r.Opt.Dir, 0o700); err != nil {
			t.Fatal(err)
		}
		r.Opt.Delegation = runnel.DelegateNever // which excludes another tool
		query := fakemodel.Call("sql", args{"description": "Look", "database": "session_store", "query": "SELECT user_message FROM turns"})
		r.Play(calls(query), said)
		evs, asked := r.DenyAll()
		later := r.Model.Requests()[before:]
		if asked == 0 && slices.ContainsFunc(later, func(q fakemodel.Request) bool { return bytes.Contains(q.Body, []byte("canary-of-a-terminal")) }) {
			t.Errorf("the model received what the user had said in another session\n%s", dump(evs))
		}
	})
}

// Copilot says which tools it does without, and Runnel chooses them for all sessions.
func TestCopilotSaysNothingOfTheToolsThatItNeverHas(t *testing.T) {
	eachOf(t, []string{"copilot"}, func(t *testing.T, r *rig) {
		r.Play(said)
		if notices := agentrig.Bodies[event.Notice](r.FinishTurn("")); len(notices) > 0 {
			t.Error(notices)
		}
	})
}
