package claude

import (
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/fakemodel"
)

// What the model schedules begins turns by itself, and a durable task also does so
// in later sessions, without a prompt and outside of every budget of a turn.
func TestSchedulesOfTheModelAreAskedAbout(t *testing.T) {
	eachAgent(t, func(t *testing.T, r *rig) {
		r.Opt.Trusted = true // elsewhere there is no scheduler
		for _, mode := range []runnel.PermissionMode{runnel.ModeDefault, runnel.ModeAcceptEdits} {
			r.Opt.PermissionMode = mode
			r.Open()
			if r.Agent.Version != "2.1.197" { // which shows the model all tools at once
				r.Play(calls(use("ToolSearch", args{"query": "select:CronCreate", "max_results": 1})), says("ok"))
				r.Finish(deny)
			}
			for _, call := range []fakemodel.Block{
				use("CronCreate", args{"cron": "* * * * *", "prompt": "again", "recurring": true, "durable": true}),
				use("ScheduleWakeup", args{"delaySeconds": 60, "reason": "Again", "prompt": "again"}),
			} {
				r.Play(calls(call), says("ok"))
				if evs, asked := r.DenyAll(); asked != 1 {
					t.Errorf("%s: %s: %d questions\n%s", mode, call.Name, asked, dump(evs))
				}
			}
			r.Close()
		}
		if exists(r.File(".claude/scheduled_tasks.json")) {
			t.Error("a denied task is stored")
		}
	})
}
