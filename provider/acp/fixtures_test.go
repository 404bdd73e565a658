package acp

import (
	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/translate"
)

// fixture is a conversation to record.
type fixture struct {
	name   string
	prose  string
	play   func(r *rig)
	cannot map[string]string // by agent, why it cannot be recorded
}

// usages sets the token usage and the chunk size of steps that have none, to
// the same values in every recording.
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

// plays begins a turn with steps that usages has completed.
func (r *rig) plays(steps ...fakemodel.Step) { r.T.Helper(); r.Play(usages(steps...)...) }

// risky returns a call of a command for which every agent asks permission.
func (r *rig) risky() fakemodel.Block { return r.words().Ask("touch asked") }

const once, no, noStop = string(event.ChoiceAllowOnce), string(event.ChoiceDeny), string(event.ChoiceDenyStop)

// Reasons why several agents cannot be recorded.
const (
	namesTools    = "the report of the agent itself names the tools of MCP servers"
	replaysNoCopy = "the agent does not replay the messages of a copied conversation"
	makesNoCopies = "the agent cannot copy a conversation"
)

func fixtures() []fixture {
	return []fixture{
		{name: "text", prose: "Reasoning and text, in two turns.", play: func(r *rig) {
			r.plays(fakemodel.Step{Blocks: []fakemodel.Block{
				{Type: "thinking", Text: "Let me think about this for a moment."}, {Type: "text", Text: "Grüße, 世界 🙂, and a good day to you."},
			}})
			r.Finish("")
			r.plays(says("Second turn."))
			r.Finish("")
		}},
		{name: "tool", prose: "A command that prints, and one that fails.", play: func(r *rig) {
			w := r.words()
			first := calls(w.Shell("echo hi"))
			first.Text = "Running it."
			r.plays(first, calls(w.Shell("echo out; exit 3")), said)
			r.Finish(once)
		}},
		{name: "parallel", prose: "Two commands side by side.", play: func(r *rig) {
			w := r.words()
			// Only make record and make agents-newest run these commands. The
			// pauses let the first command end first, also if an agent runs one
			// command after the other, which a gate for both would block.
			r.plays(calls(w.Shell("sleep 0.5; echo one"), w.Shell("sleep 1; echo two")), said)
			r.Finish(once)
		}},
		{name: "edit", prose: "A file is created, and another one edited.", play: func(r *rig) {
			r.Write("b.txt", "one\ntwo\nthree\n")
			w := r.words()
			if r.Agent.Name == "claude-agent-acp" || r.Agent.Name == "copilot" || r.Agent.Name == "qwen" || r.Agent.Name == "gemini" { // these agents cannot edit a file that they have not read
				r.plays(calls(w.Write(r.File("made.txt"), "made\n")), calls(w.Shell("cat b.txt")), said)
			} else {
				r.plays(calls(w.Write(r.File("made.txt"), "made\n")), calls(w.Edit(r.File("b.txt"), "two", "TWO")), said)
			}
			r.Finish(once)
		}},
		{name: "approval-allowed", prose: "A command is asked for and allowed.", play: func(r *rig) {
			r.plays(calls(r.risky()), said)
			r.Decide(r.Asked(), runnel.Decision{Choice: once})
			r.Finish("")
		}},
		{name: "approval-denied", prose: "A command is asked for and denied; the agent goes on.", play: func(r *rig) {
			r.plays(calls(r.risky()), says("Then not."))
			r.Decide(r.Asked(), runnel.Decision{Choice: no})
			r.Finish(no)
		}, cannot: map[string]string{"codex-acp": "its denial ends the turn", "qwen": "its denial ends the turn"}},
		{name: "denied-stop", prose: "A command is asked for and denied, and the turn ended with it.", play: func(r *rig) {
			r.plays(calls(r.risky()), says("Never said."))
			r.Decide(r.Asked(), runnel.Decision{Choice: noStop})
			r.Finish("")
			r.plays(said)
			r.Finish("")
		}},
		{name: "interrupt-text", prose: "The user interrupts while the model speaks.", play: func(r *rig) {
			st := says("These words are said, and these are not, since nobody waits for them.")
			st.Chunk, st.Faults = 8, []fakemodel.Fault{{Kind: fakemodel.Stall, After: 3, Gate: "never"}}
			r.plays(st)
			r.Until(func(ev event.Event) bool { _, ok := ev.Body.(event.ItemDelta); return ok })
			r.Interrupt()
			r.Finish("")
			r.plays(said)
			r.Finish("")
		}},
		{name: "interrupt-tool", prose: "The user interrupts while a command runs.", play: func(r *rig) {
			r.plays(calls(r.words().Shell("echo begun; touch started; sleep 600")), said)
			stop := make(chan struct{})
			started := make(chan bool, 1)
			go func() { // this goroutine waits, while the test answers approvals
				is := agentrig.AwaitOr(r.File("started"), stop)
				if is {
					_ = r.Conn.Interrupt(r.T.Context())
				}
				started <- is
			}()
			r.Finish(once)
			close(stop)
			if !<-started {
				r.T.Errorf("the command did not start, so nothing was interrupted")
			}
			r.plays(said)
			r.Finish("")
		}},
		{name: "interrupt-approval", prose: "The user interrupts while a question is open.", play: func(r *rig) {
			r.plays(calls(r.risky()), said)
			r.Asked()
			r.Interrupt()
			r.Finish("")
			r.plays(said)
			r.Finish("")
		}},
		{name: "interrupt-early", prose: "The user interrupts at once.", play: func(r *rig) {
			st := says("Never said.")
			st.Hold = "never"
			r.plays(st)
			r.Interrupt()
			r.Finish("")
			r.plays(said)
			r.Finish("")
		}},
		{name: "failure", prose: "The model API fails.", play: func(r *rig) {
			r.plays(fakemodel.Step{Fail: &fakemodel.Failure{Status: 400, Message: "the scripted failure"}})
			r.Finish("")
			r.plays(said)
			r.Finish("")
		}},
		{name: "image", prose: "A prompt with an image and a text.", play: func(r *rig) {
			r.Input(runnel.Input{Text: scenario(usages(said)...), Attachments: []runnel.Attachment{
				{Name: "red.png", MediaType: "image/png", Data: agentrig.RedPixel(r.T)}, {Name: "a.txt", MediaType: "text/plain", Text: "alpha\n"},
			}})
			r.Finish("")
		}},
		{name: "plan", prose: "The agent keeps a list of what it means to do.", play: func(r *rig) {
			r.plays(calls(r.words().Plan("Look", "Leap")), said)
			r.Finish(once)
		}, cannot: map[string]string{
			"codex-acp": "it offers this model no tool for it", "gemini": "it offers the model no tool for it", "copilot": "it has no tool for it",
		}},
		{name: "subagent", prose: "A subagent runs a command and speaks.", play: func(r *rig) {
			inner := fakemodel.Scenario{Steps: usages(calls(r.words().Shell("echo found")), says("Found."))}.Prompt("look")
			if r.Agent.Name == "codex-acp" {
				r.Opt.Model = "gpt-6.1-sol" // codex-acp offers other models no tool for subagents
				r.plays(calls(fakemodel.Call("spawn_agent", args{"task_name": "look", "message": inner, "fork_turns": "none"})), calls(fakemodel.Call("wait_agent", args{"timeout_ms": 60000})), said)
			} else {
				tool := "Agent"
				if r.Agent.Name == "qwen" {
					tool = "agent"
				}
				r.plays(calls(fakemodel.Call(tool, args{"description": "Look", "prompt": inner, "subagent_type": "general-purpose", "run_in_background": false})), said)
			}
			r.Finish(once)
		}, cannot: map[string]string{
			"opencode": "the approvals of its subagents reach no client", "gemini": "it reports nothing of the work of its subagents", "copilot": "it does not report which messages are the subagent's",
		}},
		{name: "mcp", prose: "A tool of an MCP server is called. In the mode that asks, this agent refuses its own question.", play: func(r *rig) {
			r.MCP()
			r.Opt.PermissionMode, r.Opt.AllowBypass = runnel.ModeBypass, true
			r.Opt.Model = "gpt-6.1-sol" // other models have to search for the server's tools
			r.plays(calls(fakemodel.Call("exec", `text(await tools.mcp__t__add({a: 1}))`)), said)
			r.Finish("")
		}, cannot: map[string]string{
			"claude-agent-acp": namesTools, "opencode": namesTools, "gemini": namesTools, "copilot": namesTools, "qwen": namesTools,
		}},
		{name: "fork", prose: "A copy of the conversation goes on.", play: func(r *rig) {
			r.plays(says("Before."))
			r.Finish("")
			r.Opt.Resume = r.Conn.(*conn).tr.session.id
			r.Close()
			r.Cut()
			c, err := r.Provider.(runnel.Forker).Fork(r.T.Context(), r.Opt)
			if err != nil {
				r.T.Fatal(err)
			}
			r.Takes(c)
			r.plays(says("Apart."))
			r.Finish("")
		}, cannot: map[string]string{
			"codex-acp": replaysNoCopy, "claude-agent-acp": replaysNoCopy, "gemini": makesNoCopies, "copilot": makesNoCopies, "qwen": makesNoCopies,
		}},
		{name: "question", prose: "The agent asks the user a question.", play: func(r *rig) {
			ask, options := "AskUserQuestion", []args{{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}}
			switch r.Agent.Name {
			case "qwen":
				ask = "ask_user_question"
			case "codex-acp":
				ask, r.Opt.PermissionMode = "request_user_input", runnel.ModePlan // the model may ask only in this mode
			}
			r.plays(calls(fakemodel.Call(ask, args{"questions": []args{{
				"id": "colour", "header": "Colour", "question": "Which colour?", "multiSelect": false, "options": options,
			}}})), said)
			r.Decide(r.Asked(), runnel.Decision{Choice: translate.AllowOnce})
			r.Finish("")
		}, cannot: map[string]string{
			"opencode": "the agent offers the model no tool for this", "gemini": "the agent offers the model no tool for this", "copilot": "the agent offers the model no tool for this",
		}},
		{name: "settings", prose: "The mode is changed between two turns.", play: func(r *rig) {
			r.plays(says("One."))
			r.Finish("")
			if err := r.Conn.(*conn).SetPermissionMode(r.T.Context(), runnel.ModePlan); err != nil {
				r.T.Fatal(err)
			}
			r.Until(func(ev event.Event) bool {
				b, ok := ev.Body.(event.SessionUpdated)
				return ok && b.PermissionMode == string(runnel.ModePlan)
			})
			r.plays(says("Two."))
			r.Finish("")
		}},
		{name: "resume", prose: "Another process goes on with a conversation.", play: func(r *rig) {
			r.plays(says("One."))
			r.Finish("")
			r.Opt.Resume = r.Conn.(*conn).tr.session.id
			r.Close()
			r.Cut()
			r.Conn = nil
			r.plays(says("Two."))
			r.Finish("")
		}},
	}
}
