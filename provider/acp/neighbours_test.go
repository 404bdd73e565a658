package acp

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
)

// Qwen Code lists the other Qwen Codes of the user to the model, which can send
// them messages. They work in other projects.
func TestQwenDoesNotSeeOtherSessions(t *testing.T) {
	eachOf(t, realagents.Usually("qwen"), func(t *testing.T, r *rig) {
		const theirs = "neighbouring"
		other := *r.Rig
		other.Opt.Dir = filepath.Join(filepath.Dir(r.Home.Project), theirs)
		if err := os.Mkdir(other.Opt.Dir, 0o700); err != nil {
			t.Fatal(err)
		}
		other.Play(said)
		other.Finish(once)
		for _, b := range []fakemodel.Block{
			fakemodel.Call("tool_search", args{"query": "select:list_agents,send_message"}),
			fakemodel.Call("list_agents", args{}),
		} {
			r.Play(calls(b), said)
			r.Finish(once)
		}
		if slices.ContainsFunc(r.Model.Requests(), func(req fakemodel.Request) bool {
			return bytes.Contains(req.Body, []byte(r.Home.Project)) && bytes.Contains(req.Body, []byte(theirs))
		}) {
			t.Error("the model was shown the session of another project")
		}
	})
}
