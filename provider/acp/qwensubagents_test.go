package acp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/translate"
)

// delegated plays a subagent that makes one call, allows its start, and denies
// everything else. It returns the number of further questions.
func (r *rig) delegated(call fakemodel.Block, background bool) (asked int) {
	r.T.Helper()
	r.Play(calls(fakemodel.Call("agent", args{
		"description": "Look", "prompt": scenario(calls(call), said), "subagent_type": "general-purpose", "run_in_background": background,
	})), said)
	r.Until(func(ev event.Event) bool {
		if a, ok := ev.Body.(event.ApprovalRequested); ok {
			choice := translate.DenyStop
			if a.Approval.Title == "Look" {
				choice = translate.AllowOnce
			} else {
				asked++
			}
			r.Decide(a.Approval, runnel.Decision{Choice: choice})
		}
		return event.Ends(ev.Body) && ev.Turn == r.Turn
	})
	return asked
}

func TestSubagentsOfQwenAsk(t *testing.T) {
	for _, mode := range []runnel.PermissionMode{runnel.ModeDefault, runnel.ModeAcceptEdits} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "qwen")
			outside := r.outside()
			r.Write("a.txt", "alpha\n")
			r.Opt.PermissionMode = mode
			r.Open()
			for _, call := range []fakemodel.Block{
				r.words().Shell("touch " + r.File("made")),
				writes(r.File("made")),
				writes(filepath.Join(outside, "made")),
				fakemodel.Call("web_fetch", args{"url": r.Model.URL(), "prompt": `"permission_mode":"default"`}),
				fakemodel.Call("agent", args{"description": "Look again", "prompt": "Look", "subagent_type": "general-purpose"}),
			} {
				if asked := r.delegated(call, false); asked != 1 {
					t.Errorf("%s %s: %d questions", call.Name, call.Input, asked)
				}
			}
			if asked := r.delegated(r.words().Read(r.File("a.txt")), false); asked != 0 || !r.ModelReceived("alpha") {
				t.Errorf("a subagent asked %d times before it read a file of the folder", asked)
			}
			if agentrig.Exists(r.File("made")) || agentrig.Exists(filepath.Join(outside, "made")) {
				t.Error("a denied call was made")
			}
		})
	}
}

// A subagent in the background asks nobody. The model learns why its call failed.
func TestSubagentsOfQwenInTheBackgroundChangeNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, "qwen")
	r.Open()
	if asked := r.delegated(writes(r.File("made")), true); asked != 0 {
		t.Errorf("%d questions", asked)
	}
	for !r.ModelReceived("run_in_background false") && !agentrig.Exists(r.File("made")) {
		r.Play(said)
		r.FinishTurn("")
	}
	if agentrig.Exists(r.File("made")) {
		t.Error("a subagent wrote a file")
	}
}

// Without hooks, nothing makes the subagents of Qwen Code ask.
func TestQwenStartsNoSubagentsIfHooksAreOff(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"disableAllHooks":true /* mine */}`, `{"disableAllHooks":"$UNKNOWN"}`, "\ufeff" + `{"disableAllHooks":1}`} {
		r := newRig(t, "qwen")
		r.put(filepath.Join(r.Home.Dir, ".qwen", "settings.json"), text)
		r.startsNoSubagent()
		r.Close()
	}
}

// In these modes, Qwen Code would ignore the limits in its default settings.
func TestQwenKeepsItsLimitsIfFilesNameAnotherMode(t *testing.T) {
	t.Parallel()
	for path, text := range map[string]string{
		".qwen/.env":          "QWEN_CODE_SAFE_MODE=1\nQWEN_CODE_SIMPLE=1\n",
		".qwen/settings.json": `{"env":{"QWEN_CODE_SAFE_MODE":"1"}}`,
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "qwen")
			r.put(filepath.Join(r.Home.Dir, path), text)
			r.Open()
			if asked := r.delegated(writes(r.File("made")), false); asked != 1 || agentrig.Exists(r.File("made")) {
				t.Errorf("a subagent asked %d times; file %v", asked, agentrig.Exists(r.File("made")))
			}
			r.Close()
			r.Opt.Delegation = runnel.DelegateNever
			r.Open()
			r.startsNoSubagent()
		})
	}
}

// Of several hooks, Qwen Code obeys the decision of the last one.
func TestNoOtherHookOfQwenAllowsCallsOfSubagents(t *testing.T) {
	t.Parallel()
	const hooks = `{"PreToolUse":[{"hooks":[{"type":"command","command":"echo '{\"hookSpecificOutput\":{\"hookEventName\":\"PreToolUse\",\"permissionDecision\":\"allow\"}}'"}]}]}`
	for path, text := range map[string]string{
		".qwen/settings.json":                    `{"hooks":` + hooks + `}`,
		".qwen/extensions/x/qwen-extension.json": `{"name":"x","version":"1.0.0","hooks":` + hooks + `}`,
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "qwen")
			r.put(filepath.Join(r.Home.Dir, path), text)
			r.Open()
			if asked := r.delegated(writes(r.File("made")), false); agentrig.Exists(r.File("made")) {
				t.Errorf("a subagent asked %d times, and wrote a file", asked)
			}
		})
	}
}

// The hook for subagents is not for the session itself.
func TestClientCanChooseAutoEditOfQwenIfBypassIsAllowed(t *testing.T) {
	t.Parallel()
	r := newRig(t, "qwen")
	r.Opt.AllowBypass, r.Opt.Config = true, runnel.Values{"mode": "auto-edit"}
	r.Open()
	r.asks(0, writes(r.File("made")))
	if !agentrig.Exists(r.File("made")) {
		t.Error("the file was not written")
	}
	if asked := r.delegated(writes(r.File("made2")), false); asked != 1 {
		t.Errorf("a subagent asked %d times", asked)
	}
}

func TestHookOfSubagentsIsBesideThoseOfTheMachine(t *testing.T) {
	asks := func(env []string) ([]string, error) { return qwenSubagentsAsk(env, runnel.Options{}) }
	settings, err := defaultsAfter(t, `{"hooks":{"PreToolUse":[{"hooks":[]}],"Stop":[1]}}`, asks)
	if err != nil {
		t.Fatal(err)
	}
	hooks := settings["hooks"].(map[string]any)
	if len(hooks["PreToolUse"].([]any)) != 2 || len(hooks["Stop"].([]any)) != 1 {
		t.Errorf("%v", settings)
	}
	if _, err := defaultsAfter(t, `{"hooks":{"PreToolUse":{}}}`, asks); runnel.CodeOf(err) != runnel.SessionCreateFailed {
		t.Errorf("%v", err)
	}
}

func TestFoldersWithoutHooksStartNoSubagents(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".qwen"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".qwen", "settings.json"), []byte(`{"disableAllHooks":true}`), 0o600); err != nil {
		t.Fatal(err)
	}
	settings, err := defaultsAfter(t, `{}`, func(env []string) ([]string, error) { return qwenSubagentsAsk(env, runnel.Options{Dir: dir}) })
	if err != nil {
		t.Fatal(err)
	}
	if denied, _ := settings["permissions"].(map[string]any)["deny"].([]any); !slices.Contains(denied, any("agent")) {
		t.Errorf("%v", settings)
	}
}

// defaultsAfter returns the default settings that Qwen Code reads after a change
// of given.
func defaultsAfter(t *testing.T, given string, change func(env []string) ([]string, error)) (map[string]any, error) {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	path := filepath.Join(t.TempDir(), "system-defaults.json")
	if err := os.WriteFile(path, []byte(given), 0o600); err != nil {
		t.Fatal(err)
	}
	env, err := change([]string{"HOME=" + t.TempDir(), qwenDefaults.variable + "=" + path})
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(strings.TrimPrefix(env[len(env)-1], qwenDefaults.variable+"="))
	var settings map[string]any
	if err == nil {
		err = json.Unmarshal(text, &settings)
	}
	if err != nil {
		t.Fatal(err)
	}
	return settings, nil
}
