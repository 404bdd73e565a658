package claude

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
)

// This file has tests with the real agents and a scripted model.

// summary returns a short line for each item, and one for the end of the turn.
func summary(evs []event.Event) []string {
	var out []string
	for _, it := range items(evs) {
		line := string(it.Type)
		switch f := it.Final.(type) {
		case event.Message:
			line += " " + f.Content
		case event.Reasoning:
			line += " " + f.Content
		case event.FunctionCall:
			line += " " + f.Name
		case event.FunctionCallOutput:
			line += " " + f.Output
			if f.IsError {
				line += " (error)"
			}
		}
		if it.Status != event.ItemComplete {
			line += " " + string(it.Status) + " " + string(it.Reason)
		}
		out = append(out, strings.TrimSpace(line))
	}
	switch b := last(evs).(type) {
	case event.ResponseDone:
		out = append(out, string(b.Status)+" "+b.FinishReason)
	case event.ResponseError:
		out = append(out, b.Error.Code)
	}
	return out
}

func TestTextAndThinkingAreStreamed(t *testing.T) {
	onSharedAgent(t, scripted, func(t *testing.T, r *rig) {
		r.Play(fakemodel.Step{Blocks: []fakemodel.Block{
			{Type: "thinking", Text: "Let me think about it."},
			{Type: "text", Text: "Grüße, 世界 🙂, and good day."},
		}, Usage: map[string]int64{"input_tokens": 7, "output_tokens": 3, "cache_read_input_tokens": 90}})
		evs := r.Finish("")
		sound(t, evs)
		want := []string{"reasoning Let me think about it.", "message Grüße, 世界 🙂, and good day.", "completed end_turn"}
		if d := cmp.Diff(want, summary(evs)); d != "" {
			t.Error(d)
		}
		deltas := ""
		for _, b := range bodies[event.ItemDelta](evs) {
			deltas += b.DeltaContent
		}
		if deltas != "Let me think about it.Grüße, 世界 🙂, and good day." {
			t.Errorf("deltas: %q", deltas)
		}
		for _, it := range items(evs) {
			if !strings.HasPrefix(it.ID, r.Turn+":1:") {
				t.Errorf("item id %s", it.ID)
			}
		}
		use := bodies[event.UsageUpdated](evs)
		end := use[len(use)-1]
		if d := cmp.Diff(&event.Usage{InputTokens: 7, OutputTokens: 3, CacheReadInputTokens: 90}, end.Usage); d != "" {
			t.Error(d)
		}
		if end.ContextTokens != 100 || end.ContextWindow == 0 || end.CostUSD == nil || *end.CostUSD <= 0 {
			t.Errorf("usage %+v", end)
		}
		first := bodies[event.ResponseStart](evs)
		if len(first) != 1 || first[0].ModelID == "" || first[0].ProviderID != "claude-code" {
			t.Errorf("response_start %+v", first)
		}
	})
}

func TestCostIsTheCostOfOneTurn(t *testing.T) {
	eachAgent(t, func(t *testing.T, r *rig) {
		cost := func() float64 {
			r.Play(fakemodel.Step{Text: "ok", Usage: map[string]int64{"input_tokens": 1000, "output_tokens": 10}})
			use := bodies[event.UsageUpdated](r.Finish(""))
			return *use[len(use)-1].CostUSD
		}
		first, second := cost(), cost()
		if first <= 0 || first-second > 1e-9 || second-first > 1e-9 {
			t.Errorf("two equal turns cost %v and %v", first, second)
		}
		session := r.agentSession()
		r.Conn.Close()
		r.Opt.Resume, r.Conn = session, nil
		if third := cost(); first-third > 1e-9 || third-first > 1e-9 {
			t.Errorf("after a resume, the same turn costs %v instead of %v", third, first)
		}
	})
}

// agentSession returns the agent's id of the conversation.
func (r *rig) agentSession() string {
	c := r.Conn.(*conn)
	var id string
	_ = c.Do(func(func(any) error) error {
		id = c.tr.session.id
		return nil
	})
	return id
}

func TestParallelAndFailingToolsHaveTheirOutputs(t *testing.T) {
	onSharedAgent(t, scripted, func(t *testing.T, r *rig) {
		r.Write("a.txt", "alpha\nbeta\n")
		r.Write("b.txt", "other\n")
		r.Play(
			fakemodel.Step{Blocks: []fakemodel.Block{
				use("Read", args{"file_path": r.File("b.txt")}), use("Read", args{"file_path": r.File("a.txt")}),
			}},
			fakemodel.Step{Blocks: []fakemodel.Block{use("Bash", args{"command": "touch second; exit 3", "description": "Fail"})}},
			fakemodel.Step{Blocks: []fakemodel.Block{use("Edit", args{"file_path": r.File("a.txt"), "old_string": "beta", "new_string": "gamma"})}},
			fakemodel.Step{Blocks: []fakemodel.Block{use("Nonesuch", args{"x": 1})}},
			fakemodel.Step{Text: "All done."},
		)
		evs := r.Finish(allowOnce)
		sound(t, evs)
		got := summary(evs)
		for _, want := range []string{
			"function_call Bash", "function_call Read", "function_call Edit", "function_call Nonesuch",
			"function_call_output Exit code 3 (error)", "message All done.", "completed end_turn",
		} {
			if !slices.Contains(got, want) {
				t.Errorf("no %q in %q", want, got)
			}
		}
		calls, outs := map[string]string{}, map[string]event.FunctionCallOutput{}
		for _, it := range items(evs) {
			switch f := it.Final.(type) {
			case event.FunctionCall:
				calls[f.CallID] = it.ID
			case event.FunctionCallOutput:
				if it.ID != calls[f.CallID]+":output" {
					t.Errorf("output %s of call %s", it.ID, calls[f.CallID])
				}
				outs[it.ID] = f
			}
		}
		if len(calls) != 5 || len(outs) != 5 {
			t.Errorf("%d calls, %d outputs, want 5", len(calls), len(outs))
		}
		if out := outs[r.Turn+":2:0:output"]; out.ExitCode == nil || *out.ExitCode != 3 || !out.IsError {
			t.Errorf("exit code: %+v", out)
		}
		if out := outs[r.Turn+":4:0:output"]; strings.Contains(out.Output, "<tool_use_error>") || !out.IsError {
			t.Errorf("output of an unknown tool: %+v", out)
		}
	})
}

func TestFileChangesMatchTheFiles(t *testing.T) {
	onSharedAgent(t, scripted, func(t *testing.T, r *rig) {
		old := "a\nb\nc b\n"
		r.Write("f.txt", old)
		path, created := r.File("f.txt"), r.File("new.txt")
		r.Play(
			fakemodel.Step{Blocks: []fakemodel.Block{use("Read", args{"file_path": path})}},
			fakemodel.Step{Blocks: []fakemodel.Block{use("Edit", args{"file_path": path, "old_string": "b", "new_string": "B", "replace_all": true})}},
			fakemodel.Step{Blocks: []fakemodel.Block{use("Write", args{"file_path": path, "content": ""})}},
			fakemodel.Step{Blocks: []fakemodel.Block{use("Write", args{"file_path": created, "content": "x\n"})}},
			fakemodel.Step{Text: "ok"},
		)
		evs := r.Finish(allowOnce)
		sound(t, evs)
		var got [][]event.Change
		for _, b := range bodies[event.ItemDone](evs) {
			if out, ok := b.FinalItem.(event.FunctionCallOutput); ok {
				got = append(got, out.Changes)
			}
		}
		p := func(s string) *string { return &s }
		want := [][]event.Change{
			nil,
			{{Path: path, Kind: event.ChangeUpdate, OldText: p(old), NewText: p("a\nB\nc B\n"), Hunks: []event.Hunk{
				{OldStart: 1, OldLines: 3, NewStart: 1, NewLines: 3, Lines: []string{" a", "-b", "-c b", "+B", "+c B"}}}}},
			{{Path: path, Kind: event.ChangeUpdate, OldText: p("a\nB\nc B\n"), NewText: p(""), Hunks: []event.Hunk{
				{OldStart: 1, OldLines: 3, NewStart: 1, NewLines: 0, Lines: []string{"-a", "-B", "-c B"}}}}},
			{{Path: created, Kind: event.ChangeCreate, NewText: p("x\n"), Hunks: []event.Hunk{}}},
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		if r.Read("f.txt") != "" || r.Read("new.txt") != "x\n" {
			t.Error("the files do not match the changes")
		}
		asked := bodies[event.ApprovalRequested](evs)
		if len(asked) != 3 || len(asked[0].Approval.Changes) != 1 {
			t.Fatalf("approvals: %+v", asked)
		}
		if h := asked[0].Approval.Changes[0].Hunks; len(h) != 1 || !slices.Equal(h[0].Lines, []string{"-b", "+B"}) {
			t.Errorf("hunks of the approval: %+v", h)
		}
	})
}

// ask plays a Bash call that needs an approval. It returns the events up to the
// approval, and the approval.
func (r *rig) ask(command string, after ...fakemodel.Step) ([]event.Event, event.Approval) {
	r.T.Helper()
	r.Play(append([]fakemodel.Step{
		{Blocks: []fakemodel.Block{use("Bash", args{"command": command, "description": "Try"})}},
	}, after...)...)
	evs := r.Until(func(ev event.Event) bool {
		_, ok := ev.Body.(event.ApprovalRequested)
		return ok || event.Ends(ev.Body)
	})
	a, ok := last(evs).(event.ApprovalRequested)
	if !ok {
		r.T.Fatalf("no approval was requested:\n%s", dump(evs))
	}
	return evs, a.Approval
}

func choiceIDs(a event.Approval) (ids []string) {
	for _, c := range a.Choices {
		ids = append(ids, c.ID)
	}
	return ids
}

func TestDecisionOfAnApprovalIsFollowed(t *testing.T) {
	done := fakemodel.Step{Text: "Done."}
	tests := []struct {
		name     string
		decision runnel.Decision
		want     []string // items and end of the turn
		ran      string   // the file that the command created; "" if it did not run
	}{
		{"allowed", runnel.Decision{Choice: allowOnce}, []string{"message Done.", "completed end_turn"}, "asked"},
		{"denied", runnel.Decision{Choice: deny, Reason: "not today"}, []string{"function_call_output not today (error)", "message Done.", "completed end_turn"}, ""},
		{"denied and stopped", runnel.Decision{Choice: denyStop}, []string{"cancelled aborted_"}, ""}, // aborted_tools, or aborted_streaming if the message was not complete
		{"with other arguments", runnel.Decision{Choice: allowOnce, UpdatedArguments: []byte(`{"command":"touch edited","description":"Try"}`)},
			[]string{"message Done.", "completed end_turn"}, "edited"},
	}
	onSharedAgent(t, scripted, func(t *testing.T, r *rig) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				r := r.on(t)
				os.Remove(r.File("asked"))
				evs, a := r.ask("touch asked", done)
				if a.Kind != event.ApprovalTool || a.ToolName != "Bash" || a.ItemID != r.Turn+":1:0" || !slices.Contains(choiceIDs(a), deny) {
					t.Errorf("approval %+v", a)
				}
				if d := cmp.Diff(`{"command":"touch asked","description":"Try"}`, string(a.Arguments)); d != "" {
					t.Error(d)
				}
				r.Decide(a, tt.decision)
				if err := r.Conn.Decide(t.Context(), a.ID, tt.decision); runnel.CodeOf(err) != runnel.ApprovalGone {
					t.Errorf("a second decision: %v", err)
				}
				evs = append(evs, r.Finish("")...)
				sound(t, evs)
				got := summary(evs)
				for _, want := range tt.want {
					if !slices.ContainsFunc(got, func(line string) bool { return strings.HasPrefix(line, want) }) {
						t.Errorf("no %q in %q", want, got)
					}
				}
				for _, name := range []string{"asked", "edited"} {
					if ran := exists(r.File(name)); ran != (name == tt.ran) {
						t.Errorf("%s exists: %v", name, ran)
					}
				}
			})
		}
	})
}

func TestAllowForTheSessionAsksOnce(t *testing.T) {
	eachAgent(t, func(t *testing.T, r *rig) {
		done := fakemodel.Step{Text: "Done."}
		_, a := r.ask("touch same", done)
		if !slices.Contains(choiceIDs(a), allowSession) {
			t.Fatalf("choices %v", choiceIDs(a))
		}
		r.Decide(a, runnel.Decision{Choice: allowSession})
		r.Finish("")
		r.Play(fakemodel.Step{Blocks: []fakemodel.Block{use("Bash", args{"command": "touch same", "description": "Again"})}}, done)
		if again := bodies[event.ApprovalRequested](r.Finish(allowOnce)); len(again) != 0 {
			t.Error("the agent requested a second approval")
		}
		if exists(r.File(".claude")) {
			t.Error("the agent wrote the rule into the project")
		}
	})
}

func TestQuestionsAreAnswered(t *testing.T) {
	onSharedAgent(t, scripted, func(t *testing.T, r *rig) {
		question := args{"question": "Which one?", "header": "Pick", "multiSelect": false, "options": []args{
			{"label": "Red", "description": "r"}, {"label": "Blue", "description": "b"},
		}}
		r.Play(fakemodel.Step{Blocks: []fakemodel.Block{use("AskUserQuestion", args{"questions": []args{question}})}}, fakemodel.Step{Text: "ok"})
		evs := r.Until(func(ev event.Event) bool {
			_, ok := ev.Body.(event.ApprovalRequested)
			return ok || event.Ends(ev.Body)
		})
		a := last(evs).(event.ApprovalRequested).Approval
		if a.Kind != event.ApprovalQuestion || !slices.Contains(choiceIDs(a), option+"2") {
			t.Fatalf("approval %+v", a)
		}
		r.Decide(a, runnel.Decision{Choice: option + "2"})
		got := strings.Join(summary(r.Finish("")), "\n")
		if !strings.Contains(got, "Blue") || strings.Contains(got, "did not answer") {
			t.Errorf("got %s", got)
		}
	})
}

func TestInterruptEndsAStreamingTurn(t *testing.T) {
	stall := []fakemodel.Fault{{Kind: fakemodel.Stall, After: 2, Gate: "never"}}
	tests := []struct {
		name string
		step fakemodel.Step
		when func(event.Event) bool
		want []string
	}{
		{"in text", fakemodel.Step{Text: "one two three four five", Faults: stall},
			func(ev event.Event) bool { _, ok := ev.Body.(event.ItemDelta); return ok },
			[]string{"message one two three fo", "cancelled aborted_streaming"}},
		{"in arguments", fakemodel.Step{Blocks: []fakemodel.Block{use("Bash", args{"command": "echo a long command line", "description": "d"})},
			Faults: []fakemodel.Fault{{Kind: fakemodel.Stall, After: 3, Gate: "never"}}}, // the first delta is empty
			func(ev event.Event) bool { _, ok := ev.Body.(event.ItemDelta); return ok },
			[]string{"function_call cancelled user_cancel", "cancelled aborted_streaming"}},
		{"before the first byte", fakemodel.Step{Text: "never", Hold: "never"},
			func(ev event.Event) bool { _, ok := ev.Body.(event.ResponseStart); return ok },
			[]string{"cancelled aborted_streaming"}},
	}
	onSharedAgent(t, scripted, func(t *testing.T, r *rig) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				r := r.on(t)
				r.Play(tt.step)
				<-r.Model.Gate("never").Reached()
				evs := r.Until(tt.when)
				if tt.step.Hold == "" { // read the second delta too
					evs = append(evs, r.Until(tt.when)...)
				}
				r.Interrupt()
				evs = append(evs, r.Finish("")...)
				sound(t, evs)
				if d := cmp.Diff(tt.want, summary(evs)); d != "" {
					t.Error(d)
				}
				r.stillWorks()
			})
		}
	})
}

// stillWorks runs another turn and checks its result.
func (r *rig) stillWorks() {
	r.T.Helper()
	r.Send("<<play hello>>")
	if got := summary(r.Finish("")); !slices.Equal(got, []string{"message Hello from the fake model.", "completed end_turn"}) {
		r.T.Errorf("the next turn: %q", got)
	}
}

func TestInterruptEndsARunningTool(t *testing.T) {
	onSharedAgent(t, scripted, func(t *testing.T, r *rig) {
		evs, a := r.ask("touch started; sleep 600")
		r.Decide(a, runnel.Decision{Choice: allowOnce})
		await(t, r.File("started"))
		r.Interrupt()
		evs = append(evs, r.Finish("")...)
		sound(t, evs)
		got := summary(evs)
		if !strings.HasPrefix(got[len(got)-1], "cancelled aborted_") {
			t.Errorf("got %q", got)
		}
		r.stillWorks()
	})
}

func TestInterruptWithdrawsAnOpenApproval(t *testing.T) {
	onSharedAgent(t, scripted, func(t *testing.T, r *rig) {
		evs, a := r.ask("touch asked")
		r.Interrupt()
		evs = append(evs, r.Finish("")...)
		sound(t, evs)
		resolved := bodies[event.ApprovalResolved](evs)
		if d := cmp.Diff([]event.ApprovalResolved{{ApprovalID: a.ID, Choice: event.ChoiceWithdrawn, By: event.ByAgent}}, resolved); d != "" {
			t.Error(d)
		}
		if err := r.Conn.Decide(t.Context(), a.ID, runnel.Decision{Choice: allowOnce}); runnel.CodeOf(err) != runnel.ApprovalGone {
			t.Errorf("a late decision: %v", err)
		}
		got := summary(evs)
		if !strings.HasPrefix(got[len(got)-1], "cancelled aborted_") || exists(r.File("asked")) {
			t.Errorf("got %q", got)
		}
		r.stillWorks()
	})
}

func TestInterruptRightAfterThePrompt(t *testing.T) {
	eachAgent(t, func(t *testing.T, r *rig) {
		r.Play(fakemodel.Step{Text: "never", Hold: "never"})
		r.Interrupt()
		if got := summary(r.Finish("")); !slices.Equal(got, []string{"cancelled aborted_streaming"}) {
			t.Errorf("got %q", got)
		}
		r.stillWorks()
	})
}

func TestFailuresOfTheAPIHaveTheirErrorCodes(t *testing.T) {
	tests := []struct {
		status int
		want   runnel.Code
		retry  bool
	}{
		{400, runnel.AgentError, false}, {401, runnel.InvalidAPIKey, false}, {403, runnel.InvalidAPIKey, false},
		{404, runnel.AgentError, false}, {413, runnel.AgentError, false}, {429, runnel.RateLimited, true},
		{500, runnel.AgentError, true}, {529, runnel.AgentError, true},
	}
	eachAgent(t, func(t *testing.T, r *rig) {
		r.Opt.Env = append(r.Opt.Env, "CLAUDE_CODE_MAX_RETRIES=1")
		for _, tt := range tests {
			t.Run(itoa(tt.status), func(t *testing.T) {
				r := r.on(t)
				r.Play(fakemodel.Step{Fail: &fakemodel.Failure{Status: tt.status, Message: "secret-detail-of-the-api"}})
				evs := r.Finish("")
				sound(t, evs)
				if got := summary(evs); !slices.Equal(got, []string{string(tt.want)}) {
					t.Errorf("got %q", got)
				}
				retried := slices.ContainsFunc(bodies[event.Notice](evs), func(n event.Notice) bool { return n.Code == "RETRYING" })
				if retried != tt.retry {
					t.Errorf("notice RETRYING: %v, want %v", retried, tt.retry)
				}
				if strings.Contains(dump(evs), "secret-detail") {
					t.Error("an event contains the API's message")
				}
				r.stillWorks()
			})
		}
	})
}

func TestBrokenStreamsAreRetriedAndTheTurnEndsOnce(t *testing.T) {
	onSharedAgent(t, scripted, func(t *testing.T, r *rig) {
		for _, kind := range []string{fakemodel.Malformed, fakemodel.Truncate, fakemodel.ErrorEvent} {
			t.Run(kind, func(t *testing.T) {
				r := r.on(t)
				// The stream breaks once, before a block is complete. The agent
				// retries it.
				r.Play(fakemodel.Step{Text: "abcdefghijklmnopqrst", Faults: []fakemodel.Fault{{Kind: kind, After: 2, Times: 1}}})
				evs := r.Finish("")
				sound(t, evs)
				got := summary(evs)
				if !slices.Contains(got, "message abcdefghijklmnopqrst") || got[len(got)-1] != "completed end_turn" {
					t.Errorf("broken once: %q", got)
				}
				// The stream always breaks after the first block. The block is
				// kept, and the turn ends once.
				r.Play(fakemodel.Step{Blocks: []fakemodel.Block{{Type: "text", Text: "complete"}, {Type: "text", Text: "cut off in the middle"}},
					Faults: []fakemodel.Fault{{Kind: kind, After: 3}}})
				evs = r.Finish("")
				sound(t, evs)
				if got := summary(evs); !slices.Contains(got, "message complete") && !slices.Contains(got, string(runnel.AgentError)) {
					t.Errorf("always broken: %q", got)
				}
				r.stillWorks()
			})
		}
	})
}
