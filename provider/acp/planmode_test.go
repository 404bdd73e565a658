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

// In this mode, Qwen Code also changes files outside of the folder.
func TestAcceptedEditsOfQwenAreANotice(t *testing.T) {
	for box, want := range map[runnel.Sandbox]int{"": 1, runnel.SandboxProject: 0} {
		t.Run("sandbox"+string(box), func(t *testing.T) {
			if box != "" {
				agentrig.NeedSandbox(t)
			}
			r := newRig(t, "qwen")
			r.Enclose(box)
			r.Opt.PermissionMode = runnel.ModeAcceptEdits
			r.Play(said)
			notices := agentrig.Bodies[event.Notice](r.FinishTurn(""))
			if len(notices) != want || want == 1 && !strings.Contains(notices[0].Message, "outside of the folder") {
				t.Errorf("%d notices, want %d: %v", len(notices), want, notices)
			}
		})
	}
}
