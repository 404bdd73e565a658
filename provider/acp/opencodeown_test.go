package acp

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
)

// Permissions in the user's own settings that allow what Runnel asks about, by the
// path of the file below the folder of opencode's settings. The last key of a list of
// permissions matters most.
const (
	allowsAll = `{"bash":"allow","edit":"allow","webfetch":"allow","task":"allow","t_add":"allow","*":"allow"}`
	allowsMD  = "---\ndescription: Mine\npermission:\n  bash: allow\n  edit: allow\n  task: allow\n  \"t_*\": allow\n---\nWork.\n"
)

var ownAllowing = map[string]map[string]string{
	"for all agents": {"opencode.json": `{"permission":` + allowsAll + `}`},
	"for an agent":   {"opencode.jsonc": `{"agent":{"build":{"permission":` + allowsAll + `}, /* and */ "plan":{"permission":` + allowsAll + `},},}`},
	"for a mode":     {"opencode.json": `{"mode":{"build":{"permission":` + allowsAll + `},"plan":{"permission":` + allowsAll + `}}}`},
	"in Markdown":    {"agent/build.md": allowsMD, "mode/plan.md": allowsMD},
	"in several":     {"opencode.json": `{"tools":{"bash":true},"permission":` + allowsAll + `,"agent":{"build":{"permission":"allow"}},"mode":{"plan":{"tools":{"write":true,"bash":true}}}}`, "agents/build.md": allowsMD},
}

// Forms of settings that opencode reads, and that a simple reader does not.
var ownForms = map[string]map[string]string{
	"variable":        {"opencode.json": `{"username":{env:OWN_NAME},"agent":{"{env:OWN_AGENT}":{"mode":"primary","permission":` + allowsAll + `}}}`},
	"file":            {"opencode.json": `{"agent":{"{file:./name.txt}":{"mode":"primary","permission":` + allowsAll + `}}}`, "name.txt": "mine\n"},
	"byte order mark": {"opencode.json": "\ufeff" + `{"agent":{"mine":{"mode":"primary","permission":` + allowsAll + `}}}`},
	"invalid YAML":    {"agent/mine.md": "---\ndescription: Use this: always\nmode: primary\npermission:\n  bash: allow\n  edit: allow\n---\nWork.\n"},
	"reference":       {"agent/mine.md": "---\ndescription: Mine\nmode: primary\nx: &all\n  bash: allow\n  edit: allow\npermission: *all\n---\nWork.\n"},
	"no end":          {"agent/mine.md": "---\ndescription: Mine\nmode: primary\npermission:\n  bash: allow\n  edit: allow\n"},
	"JSON":            {"agent/mine.md": "---json\n{\"description\":\"Mine\",\"mode\":\"primary\",\"permission\":{\"bash\":\"allow\",\"edit\":\"allow\"}}\n---\nWork.\n"},
	"linked folder":   {"../elsewhere/mine.md": "---\ndescription: Mine\nmode: primary\npermission:\n  bash: allow\n  edit: allow\n---\nWork.\n"},
}

func TestPermissionsOfOpencodeInUnusualFormsDoNotReplaceThoseOfRunnel(t *testing.T) {
	t.Parallel()
	for name, files := range ownForms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "opencode")
			r.ownSettings(files)
			if name == "linked folder" {
				agents := filepath.Join(r.Home.Dir, ".config", "opencode", "agents")
				if err := errors.Join(os.MkdirAll(agents, 0o700), os.Symlink("../../elsewhere", filepath.Join(agents, "team"))); err != nil {
					t.Fatal(err)
				}
			}
			r.Opt.Env = append(r.Opt.Env, "OWN_AGENT=mine", `OWN_NAME="x"`)
			r.Opt.PermissionMode = runnel.ModeDefault
			r.Open()
			agent := "mine"
			if name == "linked folder" {
				agent = "team/mine"
			}
			if err := r.Conn.(runnel.ConfigSetter).SetConfig(t.Context(), "mode", agent); err != nil {
				t.Fatal(err)
			}
			made := r.File("made")
			for _, call := range []fakemodel.Block{r.words().Shell("touch " + made), r.words().Write(made, "made\n")} {
				r.Play(calls(call), said)
				if evs, asked := r.DenyAll(); asked != 1 || agentrig.Exists(made) {
					t.Errorf("%s: %d questions, file %v\n%s", call.Name, asked, agentrig.Exists(made), dump(evs))
				}
			}
		})
	}
}

func (r *rig) ownSettings(files map[string]string) {
	r.T.Helper()
	for path, text := range files {
		r.put(filepath.Join(r.Home.Dir, ".config", "opencode", path), text)
	}
}

// asksAbout plays one call of each kind. It fails the test if the agent does not ask
// want times about a call, or if a call that was denied has an effect.
func (r *rig) asksAbout(mode string, marks agentrig.Marks, want map[string]int) {
	r.T.Helper()
	const secret = "what-only-a-subagent-reads"
	r.Write("seen.txt", secret)
	words, made := r.words(), r.File("made")
	for _, call := range []fakemodel.Block{
		words.Shell("touch " + made), words.Write(made, "made\n"), fakemodel.Call("t_add", args{"a": 1}),
		r.delegates(scenario(calls(realagents.ToolsetOf(r.Agent.Name).Read(r.File("seen.txt"))), said))[1],
	} {
		r.Play(calls(call), said)
		if evs, asked := r.DenyAll(); asked != want[call.Name] {
			r.T.Errorf("%s: %s: %d questions, want %d\n%s", mode, call.Name, asked, want[call.Name], dump(evs))
		}
	}
	if agentrig.Exists(made) || agentrig.Exists(marks.Called) || r.ModelReceived(secret) {
		r.T.Errorf("%s: a call had an effect: file %v, MCP server %v, subagent %v", mode, agentrig.Exists(made), agentrig.Exists(marks.Called), r.ModelReceived(secret))
	}
}

// eachOwnAllowing runs a test for each form of settings in which the user allows
// what Runnel asks about. starts opens a session in a mode and waits for its MCP server.
func eachOwnAllowing(t *testing.T, test func(t *testing.T, r *rig, marks agentrig.Marks, starts func(mode runnel.PermissionMode))) {
	t.Parallel()
	for name, files := range ownAllowing {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "opencode")
			r.ownSettings(files)
			marks := r.MarkedMCP()
			test(t, r, marks, func(mode runnel.PermissionMode) {
				r.Opt.PermissionMode = mode
				r.Open()
				r.Play(said)
				r.FinishTurn("")
				agentrig.Await(t, marks.Listed)
			})
		})
	}
}

// What the user allows in opencode does not replace what Runnel asks about.
func TestOwnPermissionsOfOpencodeDoNotReplaceThoseOfRunnel(t *testing.T) {
	eachOwnAllowing(t, func(t *testing.T, r *rig, marks agentrig.Marks, starts func(runnel.PermissionMode)) {
		starts(runnel.ModeDefault)
		r.asksAbout("default", marks, map[string]int{"bash": 1, "write": 1, "t_add": 1})
		if err := r.Conn.(runnel.ModeSetter).SetPermissionMode(t.Context(), runnel.ModePlan); err != nil {
			t.Fatal(err)
		}
		r.asksAbout("plan", marks, map[string]int{"bash": 1, "t_add": 1})
	})
}

func TestOwnPermissionsOfOpencodeApplyInNoModeThatDenies(t *testing.T) {
	eachOwnAllowing(t, func(_ *testing.T, r *rig, marks agentrig.Marks, starts func(runnel.PermissionMode)) {
		r.Opt.Delegation = runnel.DelegateNever
		starts(runnel.ModeDontAsk)
		r.asksAbout("dontAsk", marks, nil)
		r.Close()
		r.Opt.PermissionMode, r.Opt.AllowBypass, r.Opt.ServerDisallowedTools = runnel.ModeBypass, true, []string{"bash", "write", "t_add"}
		r.Open()
		r.asksAbout("disallowed", marks, nil)
	})
}

// What the user denies in opencode stays denied, and exceptions are asked about.
func TestOpencodeStillDeniesWhatItsUserDenies(t *testing.T) {
	t.Parallel()
	const rules = `{"bash":{"*":"deny","touch *":"allow"},"t_*":"deny","webfetch":"allow"}`
	for name, files := range map[string]map[string]string{
		"for all agents": {"opencode.json": `{"permission":` + rules + `}`},
		"for an agent":   {"opencode.json": `{"permission":{"*":"allow"},"agent":{"build":{"permission":` + rules + `}}}`},
		"in Markdown":    {"agent/build.md": "---\npermission:\n  bash:\n    \"*\": deny\n    touch *: allow\n  \"t_*\": deny\n---\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "opencode")
			r.ownSettings(files)
			marks := r.MarkedMCP()
			r.Opt.PermissionMode = runnel.ModeDefault
			r.Open()
			for command, want := range map[string]int{"ls": 0, "touch made": 1} {
				r.Play(calls(r.words().Shell(command)), said)
				if evs, asked := r.DenyAll(); asked != want {
					t.Errorf("%s: %d questions, want %d\n%s", command, asked, want, dump(evs))
				}
			}
			agentrig.Await(t, marks.Listed)
			r.Play(calls(fakemodel.Call("t_add", args{"a": 1})), said)
			if evs, asked := r.DenyAll(); asked != 0 || agentrig.Exists(marks.Called) {
				t.Errorf("t_add: %d questions\n%s", asked, dump(evs))
			}
			if agentrig.Exists(r.File("made")) {
				t.Error("a command that was denied ran")
			}
		})
	}
}
