package acp

import (
	"os"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
)

// fixture is a conversation to record.
type fixture struct {
	name    string
	prose   string
	play    func(r *rig)
	cancels bool              // something in it is cancelled
	cannot  map[string]string // by agent, why it cannot be recorded
	differs map[string]string // by agent, why it is told differently when it loads
}

// usage gives steps the usage that every recording has.
func usages(steps ...fakemodel.Step) []fakemodel.Step {
	for i := range steps {
		if steps[i].Usage == nil {
			steps[i].Usage = map[string]int64{"input_tokens": 1000, "output_tokens": 20}
		}
		if steps[i].Chunk == 0 {
			steps[i].Chunk = 24
		}
	}
	return steps
}

func says(text string) fakemodel.Step { return fakemodel.Step{Text: text} }

// plays begins a turn whose steps have the usage that every recording has.
func (r *rig) plays(steps ...fakemodel.Step) { r.t.Helper(); r.play(usages(steps...)...) }

// risky is a command that every agent asks for.
func (r *rig) risky() fakemodel.Block {
	if r.name == "codex-acp" {
		return fakemodel.Call("exec_command", args{"cmd": "touch asked", "sandbox_permissions": "require_escalated", "justification": "May I?"})
	}
	return vocabulary[r.name].shell("touch asked")
}

// asked reads to the question.
func (r *rig) asked() (a event.Approval) {
	r.t.Helper()
	r.until(func(ev event.Event) bool {
		b, ok := ev.Body.(event.ApprovalRequested)
		if ok {
			a = b.Approval
		}
		return ok
	})
	return a
}

func (r *rig) interrupt() {
	r.t.Helper()
	if err := r.conn.Interrupt(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

const once, no, noStop = event.ChoiceAllowOnce, event.ChoiceDeny, event.ChoiceDenyStop

func fixtures() []fixture {
	return []fixture{
		{name: "text", prose: "Reasoning and text, in two turns.", play: func(r *rig) {
			r.plays(fakemodel.Step{Blocks: []fakemodel.Block{
				{Type: "thinking", Text: "Let me think about this for a moment."}, {Type: "text", Text: "Grüße, 世界 🙂, and a good day to you."},
			}})
			r.finish("")
			r.plays(says("Second turn."))
			r.finish("")
		}},
		{name: "tool", prose: "A command that prints, and one that fails.", play: func(r *rig) {
			w := vocabulary[r.name]
			first := calls(w.shell("echo hi"))
			first.Text = "Running it."
			r.plays(first, calls(w.shell("echo out; exit 3")), said)
			r.finish(once)
		}},
		{name: "parallel", prose: "Two commands side by side.", play: func(r *rig) {
			w := vocabulary[r.name]
			r.plays(calls(w.shell("sleep 0.5; echo one"), w.shell("sleep 1; echo two")), said)
			r.finish(once)
		}, differs: map[string]string{"codex-acp": "it tells calls in the order in which they ended"}},
		{name: "edit", prose: "A file is created, and another one edited.", play: func(r *rig) {
			r.write("b.txt", "one\ntwo\nthree\n")
			w := vocabulary[r.name]
			if r.name == "claude-agent-acp" || r.name == "copilot" || r.name == "qwen" || r.name == "gemini" { // it must have read it
				r.plays(calls(w.write(r.file("made.txt"), "made\n")), calls(w.shell("cat b.txt")), said)
			} else {
				r.plays(calls(w.write(r.file("made.txt"), "made\n")), calls(w.edit(r.file("b.txt"), "", "two", "TWO")), said)
			}
			r.finish(once)
		}},
		{name: "approval-allowed", prose: "A command is asked for and allowed.", play: func(r *rig) {
			r.plays(calls(r.risky()), said)
			r.decide(r.asked(), once)
			r.finish("")
		}},
		{name: "approval-denied", prose: "A command is asked for and denied; the agent goes on.", play: func(r *rig) {
			r.plays(calls(r.risky()), says("Then not."))
			r.decide(r.asked(), no)
			r.finish(no)
		}, cannot: map[string]string{"codex-acp": "its denial ends the turn"}},
		{name: "denied-stop", prose: "A command is asked for and denied, and the turn ended with it.", cancels: true, play: func(r *rig) {
			r.plays(calls(r.risky()), says("Never said."))
			r.decide(r.asked(), noStop)
			r.finish("")
			r.plays(said)
			r.finish("")
		}},
		{name: "interrupt-text", prose: "The user interrupts while the model speaks.", cancels: true, play: func(r *rig) {
			st := says("These words are said, and these are not, since nobody waits for them.")
			st.Chunk, st.Faults = 8, []fakemodel.Fault{{Kind: fakemodel.Stall, After: 3, Gate: "never"}}
			r.plays(st)
			r.until(func(ev event.Event) bool { _, ok := ev.Body.(event.ItemDelta); return ok })
			r.interrupt()
			r.finish("")
			r.plays(said)
			r.finish("")
		}},
		{name: "interrupt-tool", prose: "The user interrupts while a command runs.", cancels: true, play: func(r *rig) {
			r.plays(calls(vocabulary[r.name].shell("echo begun; touch started; sleep 600")), said)
			stop := make(chan struct{})
			done := make(chan struct{})
			go func() { // approvals have to be answered meanwhile
				defer close(done)
				await(r.t, r.file("started"), stop)
				_ = r.conn.Interrupt(r.t.Context())
			}()
			r.finish(once)
			close(stop)
			<-done
			r.plays(said)
			r.finish("")
		}},
		{name: "interrupt-approval", prose: "The user interrupts while a question is open.", cancels: true, play: func(r *rig) {
			r.plays(calls(r.risky()), said)
			r.asked()
			r.interrupt()
			r.finish("")
			r.plays(said)
			r.finish("")
		}},
		{name: "interrupt-early", prose: "The user interrupts at once.", cancels: true, play: func(r *rig) {
			st := says("Never said.")
			st.Hold = "never"
			r.plays(st)
			r.interrupt()
			r.finish("")
			r.plays(said)
			r.finish("")
		}, differs: map[string]string{"copilot": "it forgets such a prompt"}},
		{name: "failure", prose: "The model API fails.", play: func(r *rig) {
			r.plays(fakemodel.Step{Fail: &fakemodel.Failure{Status: 400, Message: "the scripted failure"}})
			r.finish("")
			r.plays(said)
			r.finish("")
		}, differs: map[string]string{"copilot": "when it loads, a failure cannot be told from what the model said"}},
		{name: "image", prose: "A prompt with an image and a text.", play: func(r *rig) {
			r.send(scenario(usages(said)...), runnel.Attachment{Name: "red.png", MediaType: "image/png", Data: red(r.t)},
				runnel.Attachment{Name: "a.txt", MediaType: "text/plain", Text: "alpha\n"})
			r.finish("")
		}, differs: map[string]string{
			"codex-acp": "names and the last line break are lost", "claude-agent-acp": "names and the last line break are lost",
			"opencode": "the text has become part of the prompt", "copilot": "attachments are told differently",
		}},
		{name: "plan", prose: "The agent keeps a list of what it means to do.", play: func(r *rig) {
			r.plays(calls(vocabulary[r.name].plan("Look", "Leap")), said)
			r.finish(once)
		}, cannot: map[string]string{
			"codex-acp": "it offers this model no tool for it", "gemini": "it is not told", "copilot": "it has no tool for it",
		}},
		{name: "subagent", prose: "A subagent runs a command and speaks.", play: func(r *rig) {
			inner := fakemodel.Scenario{Steps: usages(calls(vocabulary[r.name].shell("echo found")), says("Found."))}.Prompt("look")
			if r.name == "codex-acp" {
				r.opt.Model = "gpt-6.1-sol" // others have no tool for it
				r.plays(calls(fakemodel.Call("spawn_agent", args{"task_name": "look", "message": inner, "fork_turns": "none"})), calls(fakemodel.Call("wait_agent", args{"timeout_ms": 60000})), said)
			} else {
				r.plays(calls(fakemodel.Call("Agent", args{"description": "Look", "prompt": inner, "subagent_type": "general-purpose", "run_in_background": false})), said)
			}
			r.finish(once)
		}, cannot: map[string]string{
			"opencode": "what its subagents ask, they ask nobody", "gemini": "its policy denies it", "copilot": "it does not say whose words are whose", "qwen": "not looked at",
		}, differs: map[string]string{"codex-acp": "it tells of a subagent before it tells of the wait for it", "claude-agent-acp": "it does not tell what subagents did"}},
		{name: "settings", prose: "The mode is changed between two turns.", play: func(r *rig) {
			r.plays(says("One."))
			r.finish("")
			if err := r.conn.(*conn).SetPermissionMode(r.t.Context(), runnel.ModePlan); err != nil {
				r.t.Fatal(err)
			}
			r.until(func(ev event.Event) bool {
				b, ok := ev.Body.(event.SessionUpdated)
				return ok && b.PermissionMode == string(runnel.ModePlan)
			})
			r.plays(says("Two."))
			r.finish("")
		}},
		{name: "resume", prose: "Another process goes on with a conversation.", play: func(r *rig) {
			r.plays(says("One."))
			r.finish("")
			r.opt.Resume = r.conn.(*conn).tr.session.id
			r.close()
			r.cut()
			r.conn = nil
			r.plays(says("Two."))
			r.finish("")
		}, cannot: map[string]string{"qwen": "it does not find its conversations again"}, differs: map[string]string{
			"codex-acp": "the first turn was another process's", "claude-agent-acp": "likewise", "opencode": "likewise", "copilot": "likewise",
		}},
	}
}

// await waits for a file that something outside of this process makes, or for
// stop.
func await(t testing.TB, path string, stop <-chan struct{}) {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-stop:
			return
		case <-deadline.C:
			t.Errorf("%s did not appear", path)
			return
		}
	}
}

// red is a picture of one red pixel.
func red(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile("../providertest/red.png")
	if err != nil {
		t.Fatal(err)
	}
	return data
}
