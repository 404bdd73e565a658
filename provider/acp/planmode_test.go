package acp

import (
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/translate"
)

// The model enters the plan mode without a question. There, a model of the API
// would decide about each call instead of a person.
func TestNoModelDecidesAboutCallsInPlanMode(t *testing.T) {
	eachOf(t, []string{"claude-agent-acp"}, func(t *testing.T, r *rig) {
		r.Open()
		r.Play(calls(fakemodel.Call("EnterPlanMode", args{})), said)
		r.DenyAll()
		r.Play(calls(r.words().Shell("touch made")), said)
		if evs, asked := r.DenyAll(); asked != 1 || agentrig.Exists(r.File("made")) {
			t.Errorf("the agent asked %d times: %s", asked, agentrig.Dump(evs))
		}
	})
}

// Qwen Code starts in a mode in which a model decides about calls. It offers to
// restore that mode once a plan is approved, and a plain approval would do so.
func TestApprovedPlanOfQwenDoesNotRestoreTheModeInWhichItStarts(t *testing.T) {
	eachOf(t, []string{"qwen"}, func(t *testing.T, r *rig) {
		r.Opt.PermissionMode = runnel.ModePlan
		r.Open()
		r.Play(calls(fakemodel.Call("exit_plan_mode", args{"plan": "Make a file."})), calls(r.words().Shell("touch made")), said)
		plan := r.Asked()
		for _, c := range plan.Choices {
			if strings.Contains(c.Label, "(auto)") {
				t.Errorf("offered: %+v", c)
			}
		}
		r.Decide(plan, runnel.Decision{Choice: translate.AllowOnce})
		if evs, asked := r.DenyAll(); asked != 1 || agentrig.Exists(r.File("made")) {
			t.Errorf("the agent asked %d times: %s", asked, agentrig.Dump(evs))
		}
	})
}

// Gemini CLI does not report that it changes its mode when a plan is approved, when
// the model may make one, or when an edit is allowed for the session.
func TestReportedModeOfGeminiIsInForce(t *testing.T) {
	eachOf(t, []string{"gemini"}, func(t *testing.T, r *rig) {
		r.Open()
		modes := func(choice string, steps ...fakemodel.Step) (out []string) {
			t.Helper()
			r.Play(append(steps, said)...)
			evs := r.FinishTurn(choice)
			for _, b := range bodies[event.SessionUpdated](evs) {
				if b.PermissionMode != "" {
					out = append(out, b.PermissionMode)
				}
			}
			return out
		}
		modes("") // the first turn reports the mode of the start
		enters := calls(fakemodel.Call("enter_plan_mode", args{"reason": "Think first"}))
		exits := calls(fakemodel.Call("exit_plan_mode", args{"plan_filename": "plan.md"}))
		writes := calls(r.words().Write("plan.md", "# Plan\nMake a file.\n"))
		for _, turn := range []struct {
			choice string
			steps  []fakemodel.Step
			want   string
		}{
			{translate.Deny, []fakemodel.Step{enters}, ""},
			{translate.AllowOnce, []fakemodel.Step{enters}, "plan"},
			{translate.Deny, []fakemodel.Step{writes, exits}, ""},
			{translate.AllowOnce, []fakemodel.Step{exits}, "default"},
			{translate.AllowSession, []fakemodel.Step{writes}, "acceptEdits"},
		} {
			if got := strings.Join(modes(turn.choice, turn.steps...), " "); got != turn.want {
				t.Errorf("%s, %d calls: the mode becomes %q, want %q", turn.choice, len(turn.steps), got, turn.want)
			}
		}
		if err := r.Conn.(runnel.ModeSetter).SetPermissionMode(t.Context(), runnel.ModeDefault); err != nil {
			t.Fatal(err)
		}
		r.Play(calls(r.words().Write("other.md", "x\n")), said)
		if evs, asked := r.DenyAll(); asked != 1 || agentrig.Exists(r.File("other.md")) {
			t.Errorf("the agent asked %d times: %s", asked, agentrig.Dump(evs))
		}
	})
}

// A client can end plan mode by changing only an option of the agent. The settings then
// belong to no permission mode, and the session must not be reported as in plan mode.
func TestOptionOfTheAgentEndsPlanMode(t *testing.T) {
	eachOf(t, []string{"codex-acp"}, func(t *testing.T, r *rig) {
		r.Opt.PermissionMode = runnel.ModePlan
		r.Play(said)
		r.FinishTurn("")
		if err := r.Conn.(runnel.ConfigSetter).SetConfig(t.Context(), "mode", "workspace-write"); err != nil {
			t.Fatal(err)
		}
		r.Play(said)
		var modes []string
		for _, b := range bodies[event.SessionUpdated](r.FinishTurn("")) {
			if b.PermissionMode != "" {
				modes = append(modes, b.PermissionMode)
			}
		}
		if got := strings.Join(modes, " "); got != "default" {
			t.Errorf("the mode becomes %q, want default", got)
		}
	})
}
