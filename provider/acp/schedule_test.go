package acp

import (
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/translate"
)

// What the model schedules begins turns by itself, and a durable task also does so
// in later sessions.
func TestSchedulesOfTheModelAreAskedAbout(t *testing.T) {
	eachOf(t, []string{"claude-agent-acp"}, func(t *testing.T, r *rig) {
		r.Opt.Trusted = true // elsewhere there is no scheduler
		r.Open()
		r.Play(calls(fakemodel.Call("ToolSearch", args{"query": "select:CronCreate", "max_results": 1})), said)
		r.DenyAll()
		for _, call := range []fakemodel.Block{
			fakemodel.Call("CronCreate", args{"cron": "* * * * *", "prompt": "again", "recurring": true, "durable": true}),
			fakemodel.Call("ScheduleWakeup", args{"delaySeconds": 60, "reason": "Again", "prompt": "again"}),
		} {
			r.Play(calls(call), said)
			if evs, asked := r.DenyAll(); asked != 1 {
				t.Errorf("%s: %d questions\n%s", call.Name, asked, dump(evs))
			}
		}
		if agentrig.Exists(r.File(".claude/scheduled_tasks.json")) {
			t.Error("a denied task is stored")
		}
	})
}

// Once the model has set a goal, Codex begins one turn after the other without a
// prompt.
func TestModelCannotSetAGoal(t *testing.T) {
	eachOf(t, []string{"codex-acp"}, func(t *testing.T, r *rig) {
		r.Open()
		r.Play(said)
		r.Finish(translate.AllowOnce)
		for _, q := range r.Model.Requests() {
			if at := strings.Index(string(q.Body), "create_goal"); at >= 0 {
				t.Errorf("the agent offers the model a tool by which it begins turns by itself: %.300s", q.Body[max(at-100, 0):])
			}
		}
	})
}
