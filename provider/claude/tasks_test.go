package claude

import (
	"context"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// A subagent that continues after the turn can request approvals, and its
// output is emitted.
func TestSubagentOutputAfterTheResultIsKept(t *testing.T) {
	tests := []struct {
		name   string
		answer func(t *testing.T, s *runnel.Session, a event.Approval)
		ran    bool
		output string
	}{
		{"allowed", func(t *testing.T, s *runnel.Session, a event.Approval) {
			decideSession(t, s, a, runnel.Decision{Choice: allowOnce})
		}, true, "(Bash completed with no output)"},
		{"denied", func(t *testing.T, s *runnel.Session, a event.Approval) {
			decideSession(t, s, a, runnel.Decision{Choice: deny, Reason: "not in the background"})
		}, false, "not in the background"},
		{"cancelled", func(t *testing.T, s *runnel.Session, _ event.Approval) {
			if err := s.Cancel(t.Context()); err != nil {
				t.Fatal(err)
			}
		}, false, ""}, // both versions stop their tasks when the turn is cancelled
	}
	eachAgent(t, func(t *testing.T, r *rig) {
		log := new(runnel.Memory)
		s := r.session(runnel.Config{Log: log})
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				name := "asked-" + tt.name
				emptied(t, r.Home.Project)
				from := s.Status().Head
				steps := costing(
					calls(agent("Later", true, calls(bash(waits("go", "went"), "Wait")), calls(bash("touch "+name, "Ask")), says("Later is done."))),
					says("It runs."), says("It has ended."))
				turn, err := s.Send(t.Context(), runnel.Text(scenario(steps...)))
				if err != nil {
					t.Fatal(err)
				}
				if res, err := turn.Wait(t.Context()); err != nil || res.Status != event.StatusCompleted {
					t.Fatalf("%+v, %v", res, err)
				}
				r.Write("go", "")
				ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
				defer cancel()
				var evs []event.Event
				done, spoke := false, ""
				for ev, err := range runnel.Follow(ctx, log, "s", from) {
					if err != nil {
						t.Fatalf("%v\n%s", err, dump(evs))
					}
					evs = append(evs, ev)
					switch b := ev.Body.(type) {
					case event.ApprovalRequested:
						if exists(r.File(name)) {
							t.Error("the command ran before the approval")
						}
						tt.answer(t, s, b.Approval)
					case event.ItemDone:
						if out, ok := b.FinalItem.(event.FunctionCallOutput); ok && tt.output != "" && strings.Contains(out.Output, tt.output) {
							done = true
						}
						if m, ok := b.FinalItem.(event.Message); ok && m.Content == "It has ended." {
							spoke = ev.Turn
						}
					}
					if done && spoke != "" && event.Ends(ev.Body) && ev.Turn == spoke {
						break
					}
					if b, ok := ev.Body.(event.ResponseError); ok && tt.output == "" && strings.Contains(b.Error.Message, "stopped") {
						break
					}
				}
				if exists(r.File(name)) != tt.ran {
					t.Errorf("the command ran: %v", !tt.ran)
				}
				if n := len(bodies[event.ApprovalRequested](evs)); n != 1 {
					t.Errorf("%d approvals, want 1", n)
				}
				if !s.Status().AgentAlive {
					t.Error("the agent was stopped")
				}
			})
		}
	})
}

// A background task can ask a question during a prompt's turn. The question
// stays open after that turn, and blocks the conversation only until it is
// answered.
func TestQuestionsOfBackgroundTasksOutliveTheTurn(t *testing.T) {
	eachAgent(t, func(t *testing.T, r *rig) {
		log := new(runnel.Memory)
		s := r.session(runnel.Config{Log: log})
		if _, err := turnIn(t, s, costing(calls(agent("Later", true,
			calls(bash(waits("go", "went"), "Wait")), calls(bash("touch asked; "+waits("stop", "stopped"), "Ask")), says("Later."))),
			says("It runs."), says("Over."))...); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
		defer cancel()
		second, err := s.Send(ctx, runnel.Text(scenario(costing(calls(bash(waits("second", "second"), "Second")), says("Second."))...)))
		if err != nil {
			t.Fatal(err)
		}
		r.Write("go", "")
		seen := s.Status().Head
		until := func(stop func(event.Event) bool) event.Event {
			for ev, err := range runnel.Follow(ctx, log, "s", seen) {
				if err != nil {
					t.Fatalf("%v", err)
				}
				seen = ev.Seq
				if stop(ev) {
					return ev
				}
			}
			return event.Event{}
		}
		asked := until(func(ev event.Event) bool { _, ok := ev.Body.(event.ApprovalRequested); return ok })
		if asked.Turn == second.ID {
			t.Error("the question is part of the prompt's turn")
		}
		r.Write("second", "")
		if res, err := second.Wait(ctx); err != nil || res.FinalText != "Second." {
			t.Fatalf("%+v, %v", res, err)
		}
		decideSession(t, s, asked.Body.(event.ApprovalRequested).Approval, runnel.Decision{Choice: allowOnce})
		await(t, r.File("asked"))
		until(func(ev event.Event) bool { return event.Ends(ev.Body) && ev.Turn == asked.Turn })
		if res, err := turnIn(t, s, says("Third.")); err != nil || res.FinalText != "Third." {
			t.Errorf("while the tool runs: %+v, %v", res, err)
		}
		r.Write("stop", "")
	})
}

func decideSession(t *testing.T, s *runnel.Session, a event.Approval, d runnel.Decision) {
	t.Helper()
	d.ArgumentsDigest = a.ArgumentsDigest
	if err := s.Decide(t.Context(), a.ID, d); err != nil {
		t.Error(err)
	}
}

// Lines of a subagent in the background.
const (
	asyncLine = `{"type":"user","session_id":"s","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"launched"}]},"tool_use_result":{"isAsync":true}}`
	agentLine = `{"type":"assistant","session_id":"s","message":{"id":"msg_1","role":"assistant","content":[{"type":"tool_use","id":"c1","name":"Agent","input":{"description":"Look"}}]}}`
	startTask = `{"type":"system","subtype":"task_started","task_id":"a1","tool_use_id":"c1","task_type":"local_agent","description":"Look"}`
	endTask   = `{"type":"system","subtype":"task_notification","task_id":"a1","tool_use_id":"c1","status":"completed"}`
)

func subLine(id, text string) string {
	return `{"type":"assistant","session_id":"s","parent_tool_use_id":"c1","message":{"id":"` + id + `","role":"assistant","content":[{"type":"text","text":"` + text + `"}]}}`
}

func TestTasksAreHeldUntilTheyEnd(t *testing.T) {
	tr := newTranslator()
	tr.Sent([]byte(promptLine("go")), fixtureStart)
	var evs []event.Event
	printed := func(lines ...string) {
		for _, l := range lines {
			out, _ := tr.Printed([]byte(l), fixtureStart)
			evs = append(evs, out...)
		}
	}
	printed(initLine, agentLine, startTask, asyncLine, subLine("m1", "one"), resultLine)
	before := len(evs)
	printed(subLine("m2", "two"))
	if len(evs) != before {
		t.Errorf("events of the task before its end:\n%s", dump(evs[before:]))
	}
	printed(endTask)
	sound(t, evs)
	var texts []string
	for _, it := range items(evs[before:]) {
		texts = append(texts, it.Content)
		if it.Turn == testTurn || it.ParentCallID != "c1" {
			t.Errorf("item %+v", it)
		}
	}
	if strings.Join(texts, " ") != "one two" {
		t.Errorf("texts %q", texts)
	}
	printed(`{"type":"user","parent_tool_use_id":"c1","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"late"}]}}`)
	if strings.Contains(dump(evs), "late") {
		t.Error("a result after the task's end was emitted")
	}
}

func TestLateSubagentResultBeginsNoTask(t *testing.T) {
	late := `{"type":"user","session_id":"s","parent_tool_use_id":"c1","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"late"}]}}`
	tr := newTranslator()
	tr.Sent([]byte(promptLine("go")), fixtureStart)
	for _, l := range []string{initLine, agentLine, startTask, subLine("m1", "one"), resultLine, late} {
		tr.Printed([]byte(l), fixtureStart)
	}
	if evs := tr.Flush(); len(evs) != 0 || len(tr.tasks.open) != 0 {
		t.Errorf("%d tasks, got\n%s", len(tr.tasks.open), dump(evs))
	}
}

func TestTaskIsEmittedAsFailedWhenTheAgentExits(t *testing.T) {
	tr := newTranslator()
	for _, l := range []string{initLine, agentLine, startTask, asyncLine, resultLine, subLine("m1", "one")} {
		tr.Printed([]byte(l), fixtureStart)
	}
	evs := tr.Flush()
	end, ok := last(evs).(event.ResponseError)
	if !ok || end.Error.Code != string(runnel.ProcessCrash) || len(items(evs)) != 1 {
		t.Errorf("got\n%s", dump(evs))
	}
}

func TestLargeTaskIsEmittedInParts(t *testing.T) {
	tr := newTranslator()
	tr.Sent([]byte(promptLine("go")), fixtureStart)
	var evs []event.Event
	for _, l := range []string{initLine, agentLine, startTask, asyncLine, resultLine} {
		out, _ := tr.Printed([]byte(l), fixtureStart)
		evs = append(evs, out...)
	}
	big := strings.Repeat("x", 1<<20)
	for i := range 20 {
		out, _ := tr.Printed([]byte(subLine("m"+itoa(i), big)), fixtureStart)
		evs = append(evs, out...)
		if k := tr.tasks.open["c1"]; k.held.Size() > maxTaskSize+2<<20 {
			t.Fatalf("%d bytes are held", k.held.Size())
		}
	}
	out, _ := tr.Printed([]byte(endTask), fixtureStart)
	evs = append(evs, out...)
	sound(t, evs)
	n := 0
	for _, it := range items(evs) {
		n += len(it.Content) / len(big)
	}
	if n != 20 {
		t.Errorf("%d of 20 messages", n)
	}
}

// A run ends with its turn. So subagents run in the foreground, although
// 2.1.329 runs them in the background by default.
func TestRunWaitsForItsSubagents(t *testing.T) {
	eachAgent(t, func(t *testing.T, r *rig) {
		inner := scenario(costing(calls(bash("echo found", "Look")), says("Found."))...)
		input := args{"description": "Look", "prompt": inner, "subagent_type": "general-purpose"}
		run, err := runnel.Start(t.Context(), New(), r.Opt, runnel.Text(scenario(costing(calls(use("Agent", input)), says("Done."))...)))
		if err != nil {
			t.Fatal(err)
		}
		defer run.Close()
		ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
		defer cancel()
		var evs []event.Event
		for ev, err := range run.Events(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			evs = append(evs, ev)
		}
		res, err := run.Wait(ctx)
		if err != nil || res.FinalText != "Done." {
			t.Errorf("%+v, %v", res, err)
		}
		nested := 0
		for _, it := range items(evs) {
			if it.ParentCallID != "" {
				nested++
			}
		}
		if nested != 3 {
			t.Errorf("%d items of the subagent, want 3\n%s", nested, dump(evs))
		}
	})
}
