package claude

import (
	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
)

// costing gives steps the usage that every recording has.
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

// agent is a call that hands steps to a subagent.
func agent(what string, background bool, steps ...fakemodel.Step) fakemodel.Block {
	inner := fakemodel.Scenario{Steps: costing(steps...)}
	return use("Agent", args{"description": what, "prompt": inner.Prompt(what), "subagent_type": "general-purpose", "run_in_background": background})
}

func bash(command, what string) fakemodel.Block {
	return use("Bash", args{"command": command, "description": what})
}

// waits is a command that goes on until the test makes a file.
func waits(file, then string) string {
	return "until [ -e " + file + " ]; do sleep 0.05; done; echo " + then
}

// ended waits for the end of n turns, with approvals answered on the way.
func (r *rig) ended(n int, choice string) []event.Event {
	r.T.Helper()
	var evs []event.Event
	for range n {
		evs = append(evs, r.Finish(choice)...)
	}
	return evs
}

// workFixtures are about what goes on beside the main thread.
func workFixtures() []fixture {
	play := func(r *rig, steps ...fakemodel.Step) { r.Play(costing(steps...)...) }
	return []fixture{
		{name: "subagents", prose: "Two subagents side by side think, speak, use tools and hand work on.", play: func(r *rig) {
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
		{name: "background-agent", prose: "A subagent goes on after the turn and asks; its end starts a turn that nobody asked for.", play: func(r *rig) {
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
		{name: "background-meanwhile", prose: "A subagent works beside two turns and ends within the second.", play: func(r *rig) {
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
		{name: "background-left", prose: "The conversation is closed while a subagent works.", play: func(r *rig) {
			play(r, calls(agent("Left", true, fakemodel.Step{Text: "Waiting.", Blocks: []fakemodel.Block{bash("touch started; sleep 600", "Wait")}})), says("It runs."))
			r.ended(2, allowOnce) // of the prompt's turn and of the question's
			await(r.T, r.File("started"))
		}},
	}
}

// background answers what is asked between turns until a turn has spoken that
// nobody asked for.
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
