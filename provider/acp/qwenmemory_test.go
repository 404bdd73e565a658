package acp

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/fakemodel"
)

// remembers is in the instructions of the agent that Qwen Code starts after a turn.
const remembers = "acting as the managed memory extraction subagent"

// Nobody sees what the agent does that looks for memories after a turn.
func TestMemoryOfQwenReadsAndWritesMemoriesOnly(t *testing.T) {
	for _, mode := range []runnel.PermissionMode{runnel.ModeDefault, runnel.ModeAcceptEdits, runnel.ModePlan} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "qwen")
			outside := r.outside()
			secret, memories := filepath.Join(outside, "secret.txt"), filepath.Join(r.Home.Dir, ".qwen", "memories")
			r.put(secret, "canary-outside\n")
			r.put(filepath.Join(memories, "known.md"), "canary-memory\n")
			unseen := []fakemodel.Block{
				r.words().Shell(`find . -maxdepth 0 -ex""ec touch ` + r.File("found") + ` \;`),
				r.words().Shell("cat " + secret),
				r.words().Read(secret),
				r.words().Read(filepath.Join(memories, "..", "..", "outside", "secret.txt")),
				r.words().Read(memories + "/../../outside/secret.txt"),
				fakemodel.Call("read_file", args{"a": `{"file_path":"` + memories + `/known.md"}`, "file_path": secret}),
				fakemodel.Call("grep_search", args{"pattern": "canary", "path": outside}),
				r.words().Read(filepath.Join(memories, "known.md")),
				r.words().Write(filepath.Join(memories, "new.md"), "new\n"),
			}
			r.Model.Unprompted(remembers, calls(unseen...), said) // the agent ends after five answers
			r.Opt.PermissionMode = mode
			r.Open()
			r.Play(said)
			if evs := r.FinishTurn(""); len(bodies[event.ApprovalRequested](evs)) > 0 {
				t.Errorf("asked\n%s", dump(evs))
			}
			ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
			defer cancel()
			if _, err := r.Model.Await(ctx, func(q fakemodel.Request) bool {
				return bytes.Contains(q.Body, []byte(remembers)) && bytes.Count(q.Body, []byte(`"tool_call_id"`)) >= len(unseen)
			}); err != nil {
				t.Error("the agent does not look for memories: ", err)
			}
			if agentrig.Exists(r.File("found")) {
				t.Error("a command ran")
			}
			if r.ModelReceived("canary-outside") {
				t.Error("a file was read")
			}
			if !r.ModelReceived("canary-memory") || !agentrig.Exists(filepath.Join(memories, "new.md")) {
				t.Error("a memory was not read, or not written")
			}
		})
	}
}

func TestQwenRemembersNothingByItselfWithoutHooks(t *testing.T) {
	for name, change := range map[string]func(r *rig){
		"no hooks": func(r *rig) {
			r.put(filepath.Join(r.Home.Dir, ".qwen", "settings.json"), `{"disableAllHooks":true}`)
		},
		"bypass": func(r *rig) { r.Opt.AllowBypass = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "qwen")
			change(r)
			r.Model.Unprompted(remembers, calls(r.words().Shell("find . -maxdepth 0 -ex''ec touch "+r.File("found")+` \;`)), said)
			r.Open()
			for range 2 {
				r.Play(said)
				r.FinishTurn("")
			}
			r.Close()
			if r.ModelReceived(remembers) {
				t.Error("the agent looks for memories")
			}
		})
	}
}
