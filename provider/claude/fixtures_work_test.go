package claude

import (
	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
)

// costing sets the same usage for each step that has none.
func costing(steps ...fakemodel.Step) []fakemodel.Step {
	for i := range steps {
		if steps[i].Usage == nil {
			steps[i].Usage = map[string]int64{"input_tokens": 1000, "output_tokens": 20}
		}
	}
	return steps
}

func says(text string) fakemodel.Step { return fakemodel.Step{Text: text, Chunk: 24} }

func calls(blocks ...fakemodel.Block) fakemodel.Step {
	return fakemodel.Step{Chunk: 200, Blocks: blocks}
}

// agent returns a call that starts a subagent, which plays steps.
func agent(what string, background bool, steps ...fakemodel.Step) fakemodel.Block {
	inner := fakemodel.Scenario{Steps: costing(steps...)}
	return use("Agent", args{"description": what, "prompt": inner.Prompt(what), "subagent_type": "general-purpose", "run_in_background": background})
}

func bash(command, what string) fakemodel.Block {
	return use("Bash", args{"command": command, "description": what})
}

// waits returns a command that runs until the test creates a file.
func waits(file, then string) string {
	return "until [ -e " + file + " ]; do sleep 0.05; done; echo " + then
}

// ended waits for the end of n turns and answers approvals with choice.
func (r *rig) ended(n int, choice string) []event.Event {
	r.T.Helper()
	var evs []event.Event
	for range n {
		evs = append(evs, r.Finish(choice)...)
	}
	return evs
}

// workFixtures are recordings with subagents and background tasks.
func workFixtures() []fixture {
	play := func(r *rig, steps ...fakemodel.Step) { r.Play(costing(steps...)...) }
	return []fixture{
		{name: "subagents", prose: "Two parallel subagents think, write text, use tools and start another subagent.", play: func(r *rig) {
			r.Write("a.txt", "alpha\n")
			play(r, calls(
				agent("First", false, fakemodel.Step{Blocks: []fakemodel.Block{
					{Type: "thinking", Text: "How to begin?"}, {Type: "text", Text: "Reading it."}, use("Read", args{"file_path": r.File("a.txt")}),
				}}, says("First has read it.")),
				agent("Second", false, calls(bash("echo second", "Speak"), bash("echo again", "Speak again")), calls(
					agent("Third", false, calls(bash("echo third", "Deep")), says("Third is done.")),
				), says("Second is done.")),
			), says("Both are done."))
			r.Finish(allowOnce)
		}},
		{name: "background-agent", prose: "A subagent continues after the turn and requests an approval; its end starts a turn without a prompt.", play: func(r *rig) {
			play(r, calls(agent("Later", true,
				fakemodel.Step{Text: "Waiting.", Blocks: []fakemodel.Block{bash(waits("go", "went"), "Wait")}},
				calls(bash("touch asked", "Ask")),
				says("Later is done."),
			)), says("It runs."), says("It has ended."))
			asked := r.Turn
			r.Until(func(ev event.Event) bool { return event.Ends(ev.Body) && ev.Turn == asked })
			r.Write("go", "")
			r.background(asked)
		}},
		{name: "background-meanwhile", prose: "A subagent runs in the background during two turns and ends within the second.", play: func(r *rig) {
			play(r, calls(agent("Beside", true, calls(bash(waits("go", "went"), "Wait")), says("Beside is done."))), says("It runs."))
			r.Finish(allowOnce)
			play(r, calls(bash(waits("stop", "stopped"), "Wait, too")), says("The second turn has it."), says("Not said."))
			r.Until(func(ev event.Event) bool {
				b, ok := ev.Body.(event.ItemDone)
				f, is := b.FinalItem.(event.FunctionCall)
				return ok && is && f.Name == "Bash" && ev.Turn == r.Turn
			})
			r.Write("go", "")
			r.Until(func(ev event.Event) bool { return event.Ends(ev.Body) && ev.Turn != r.Turn })
			r.Write("stop", "")
			r.Until(func(ev event.Event) bool { return event.Ends(ev.Body) && ev.Turn == r.Turn })
		}},
		{name: "background-left", prose: "The conversation is closed while a subagent runs.", play: func(r *rig) {
			play(r, calls(agent("Left", true, fakemodel.Step{Text: "Waiting.", Blocks: []fakemodel.Block{bash("touch started; sleep 600", "Wait")}})), says("It runs."))
			r.ended(2, allowOnce) // the prompt's turn and the question's turn
			await(r.T, r.File("started"))
		}},
	}
}

// background answers approvals until a turn without a prompt has streamed text
// and ended. asked is the id of the prompt's turn.
func (r *rig) background(asked string) []event.Event {
	r.T.Helper()
	spoke := map[string]bool{}
	return r.Until(func(ev event.Event) bool {
		switch b := ev.Body.(type) {
		case event.ApprovalRequested:
			r.Decide(b.Approval, runnel.Decision{Choice: allowOnce})
		case event.ItemDelta:
			spoke[ev.Turn] = true
		}
		return event.Ends(ev.Body) && spoke[ev.Turn] && ev.Turn != asked
	})
}
