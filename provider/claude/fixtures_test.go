package claude

import (
	"slices"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
)

// fixture is a conversation to record. prose is the description at the top of
// the recording.
type fixture struct {
	name  string
	prose string
	play  func(r *rig)
}

func fixtures() []fixture {
	text := func(s string) fakemodel.Step { return fakemodel.Step{Text: s, Chunk: 24} }
	call := func(name string, in args) fakemodel.Step {
		return fakemodel.Step{Chunk: 64, Blocks: []fakemodel.Block{use(name, in)}}
	}
	usage := func(st fakemodel.Step) fakemodel.Step {
		st.Usage = map[string]int64{"input_tokens": 1000, "output_tokens": 20}
		return st
	}
	stalled := func(st fakemodel.Step, after int) fakemodel.Step {
		st.Faults = []fakemodel.Fault{{Kind: fakemodel.Stall, After: after, Gate: "never"}}
		return usage(st)
	}
	play := func(r *rig, steps ...fakemodel.Step) {
		for i := range steps {
			if steps[i].Usage == nil {
				steps[i] = usage(steps[i])
			}
		}
		r.Play(steps...)
	}
	return slices.Concat(workFixtures(), planFixtures(), modelFixtures(), []fixture{
		{name: "text", prose: "Thinking and text, in two turns.", play: func(r *rig) {
			play(r, fakemodel.Step{Chunk: 24, Blocks: []fakemodel.Block{
				{Type: "thinking", Text: "Let me think about this for a moment."}, {Type: "redacted_thinking", Data: "eA=="},
				{Type: "text", Text: "Grüße, 世界 🙂, and a good day to you."},
			}})
			r.Finish("")
			play(r, text("Second turn."))
			r.Finish("")
		}},
		{name: "tools", prose: "Two parallel reads, a command that fails, and a call of an unknown tool.", play: func(r *rig) {
			r.Write("a.txt", "alpha\n")
			r.Write("b.txt", "beta\n")
			play(r, fakemodel.Step{Chunk: 64, Text: "Reading both.", Blocks: []fakemodel.Block{
				use("Read", args{"file_path": r.File("a.txt")}), use("Read", args{"file_path": r.File("b.txt")}),
			}}, call("Bash", args{"command": "echo out; exit 3", "description": "Fail"}), call("Nonesuch", args{"x": 1}), text("Done."))
			r.Finish(allowOnce)
		}},
		{name: "calls-overlap", prose: "The first call has its result while the arguments of the second still stream.", play: func(r *rig) {
			r.Write("a.txt", "alpha\n")
			r.Write("b.txt", "beta\n")
			play(r, fakemodel.Step{Chunk: 32, Blocks: []fakemodel.Block{
				use("Read", args{"file_path": r.File("a.txt")}), use("Read", args{"file_path": r.File("b.txt"), "limit": 1}),
			}, Faults: []fakemodel.Fault{{Kind: fakemodel.Stall, After: 4, Gate: "first is done"}}}, text("Done."))
			r.Until(func(ev event.Event) bool {
				b, ok := ev.Body.(event.ItemStart)
				return ok && b.ItemType == event.TypeFunctionCallOutput
			})
			r.Model.Gate("first is done").Open()
			r.Finish(allowOnce)
		}},
		{name: "edit", prose: "A file is created, edited and emptied; each change needs an approval.", play: func(r *rig) {
			path := r.File("f.txt")
			play(r, call("Write", args{"file_path": path, "content": "a\nb\nc b\n"}),
				call("Edit", args{"file_path": path, "old_string": "b", "new_string": "B", "replace_all": true}),
				call("Write", args{"file_path": path, "content": ""}), text("Done."))
			r.Finish(allowOnce)
		}},
		{name: "denied", prose: "An approval is denied with a reason, and the agent continues.", play: func(r *rig) {
			_, a := r.ask("touch asked", usage(text("Then not.")))
			r.Decide(a, runnel.Decision{Choice: deny, Reason: "not today"})
			r.Finish("")
		}},
		{name: "denied-stop", prose: "An approval is denied and the turn is stopped.", play: func(r *rig) {
			_, a := r.ask("touch asked", usage(text("Never said.")))
			r.Decide(a, runnel.Decision{Choice: denyStop})
			r.Finish("")
		}},
		{name: "edited-arguments", prose: "The user changes the arguments in an approval; the call's item keeps the model's arguments.", play: func(r *rig) {
			_, a := r.ask("touch asked", usage(text("Done.")))
			r.Decide(a, runnel.Decision{Choice: allowOnce, UpdatedArguments: []byte(`{"command":"touch edited","description":"Try"}`)})
			r.Finish("")
		}},
		{name: "allow-session", prose: "An approval is valid for the session: the second call needs none.", play: func(r *rig) {
			_, a := r.ask("touch same", usage(text("Once.")))
			r.Decide(a, runnel.Decision{Choice: allowSession})
			r.Finish("")
			play(r, call("Bash", args{"command": "touch same", "description": "Again"}), text("Twice."))
			r.Finish("")
		}},
		{name: "question", prose: "The agent asks the user a question.", play: func(r *rig) {
			play(r, call("AskUserQuestion", args{"questions": []args{{
				"question": "Which one?", "header": "Pick", "multiSelect": false,
				"options": []args{{"label": "Red", "description": "r"}, {"label": "Blue", "description": "b"}},
			}}}), text("Blue it is."))
			r.Finish(option + "2")
		}},
		{name: "interrupt-text", prose: "Interrupted while text streams: the text so far is kept.", play: func(r *rig) {
			r.Play(stalled(fakemodel.Step{Text: "one two three four five", Chunk: 8}, 2))
			r.stalled(2)
		}},
		{name: "interrupt-arguments", prose: "Interrupted while arguments stream: the agent does not store the call.", play: func(r *rig) {
			r.Play(stalled(fakemodel.Step{Chunk: 8, Blocks: []fakemodel.Block{
				{Type: "text", Text: "Now."}, use("Bash", args{"command": "echo a long command line", "description": "d"}),
			}}, 4))
			r.stalled(3)
		}},
		{name: "interrupt-tool", prose: "Interrupted while a command runs.", play: func(r *rig) {
			_, a := r.ask("touch started; sleep 600")
			r.Decide(a, runnel.Decision{Choice: allowOnce})
			await(r.T, r.File("started"))
			r.Interrupt()
			r.Finish("")
		}},
		{name: "interrupt-approval", prose: "Interrupted while an approval is open: the agent withdraws it.", play: func(r *rig) {
			r.ask("touch asked")
			r.Interrupt()
			r.Finish("")
		}},
		{name: "api-401", prose: "The API rejects the key. The agent would retry ten times; Runnel ends the turn and interrupts the agent.", play: func(r *rig) {
			r.Opt.Env = append(r.Opt.Env, "CLAUDE_CODE_MAX_RETRIES=10")
			r.Play(fakemodel.Step{Fail: &fakemodel.Failure{Status: 401}})
			r.Finish("")
			play(r, text("The key is good now."))
			r.Finish("")
		}},
		{name: "api-429-once", prose: "The API rejects one request because of its rate limit, and the agent retries it.", play: func(r *rig) {
			r.Play(usage(fakemodel.Step{Text: "At last.", Fail: &fakemodel.Failure{Status: 429, Times: 1}}))
			r.Finish("")
		}},
		{name: "api-500", prose: "The API fails permanently. The result still has the subtype success.", play: func(r *rig) {
			r.Opt.Env = append(r.Opt.Env, "CLAUDE_CODE_MAX_RETRIES=0")
			r.Play(fakemodel.Step{Fail: &fakemodel.Failure{Status: 500}})
			r.Finish("")
		}},
		{name: "broken-stream", prose: "A stream breaks before a block is complete; the agent repeats the request, with a new message id.", play: func(r *rig) {
			r.Play(usage(fakemodel.Step{Text: "abcdefghijklmnopqrst", Chunk: 8, Faults: []fakemodel.Fault{{Kind: fakemodel.ErrorEvent, After: 2, Times: 1}}}))
			r.Finish("")
		}},
		{name: "broken-block", prose: "A stream breaks after a complete block.", play: func(r *rig) {
			r.Play(usage(fakemodel.Step{Chunk: 8, Blocks: []fakemodel.Block{{Type: "text", Text: "complete"}, {Type: "text", Text: "cut off in the middle"}},
				Faults: []fakemodel.Fault{{Kind: fakemodel.Malformed, After: 3}}}))
			r.Finish("")
		}},
		{name: "bad-arguments", prose: "The model's arguments are not JSON.", play: func(r *rig) {
			play(r, fakemodel.Step{Chunk: 64, Blocks: []fakemodel.Block{{Type: "tool_use", Name: "Bash", RawInput: `{"command": "echo`}}}, text("Sorry."))
			r.Finish(allowOnce)
		}},
		{name: "subagent", prose: "A subagent runs a command. The agent chooses the foreground or the background.", play: func(r *rig) {
			inner := fakemodel.Scenario{Steps: []fakemodel.Step{
				usage(call("Bash", args{"command": "echo from-the-subagent", "description": "Inside"})), usage(text("Inner done.")),
			}}
			play(r, call("Agent", args{"description": "Look", "prompt": inner.Prompt("look"), "subagent_type": "general-purpose", "run_in_background": false}), text("Outer done."))
			r.Finish(allowOnce)
		}},
		{name: "background", prose: "A command continues in the background, and its end starts a turn without a prompt.", play: func(r *rig) {
			play(r, call("Bash", args{"command": "until [ -e go ]; do sleep 0.05; done; echo finished", "description": "Wait", "run_in_background": true}), text("It runs."))
			r.Finish(allowOnce)
			asked := r.Turn
			r.Write("go", "")
			r.Until(func(ev event.Event) bool { return event.Ends(ev.Body) && ev.Turn != asked })
		}},
		{name: "resume-after-kill", prose: "The agent is killed while a command runs; another agent process resumes the conversation.", play: func(r *rig) {
			_, a := r.ask("touch started; sleep 600")
			r.Decide(a, runnel.Decision{Choice: allowOnce})
			await(r.T, r.File("started"))
			r.kill()
			play(r, text("Back again."))
			r.Finish("")
		}},
		{name: "context-compact", prose: "The user runs /context and /compact. The agent prints the preserved messages again.", play: func(r *rig) {
			for _, s := range []string{"One.", "Two."} {
				play(r, text(s))
				r.Finish("")
			}
			for _, command := range []string{"/context", "/compact"} {
				r.Send(command)
				r.Finish("")
			}
			play(r, text("Three."))
			r.Finish("")
		}},
		{name: "compact", prose: "The user summarizes the conversation with /compact and continues.", play: func(r *rig) {
			for _, s := range []string{"One.", "Two.", "Three."} {
				play(r, text(s))
				r.Finish("")
			}
			r.Send("/compact")
			r.Finish("")
			play(r, text("Four."))
			r.Finish("")
		}},
	})
}

// stalled reads until the n-th delta, after which the model waits, and
// interrupts the turn.
func (r *rig) stalled(n int) {
	r.T.Helper()
	<-r.Model.Gate("never").Reached()
	r.Until(func(ev event.Event) bool {
		if _, ok := ev.Body.(event.ItemDelta); ok {
			n--
		}
		return n == 0
	})
	r.Interrupt()
	r.Finish("")
}

// kill kills the agent and prepares to resume the conversation.
func (r *rig) kill() {
	r.T.Helper()
	session := r.agentSession()
	r.Kill()
	r.Drain()
	r.Opt.Resume, r.Conn = session, nil
	if r.Cut != nil {
		r.Cut()
	}
}
