package providertest

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// begin starts a turn of a scenario in a conversation. It skips the test with
// the reason, before it starts an agent, if the scenario has no prompt.
func (s Subject) begin(t *testing.T, c *conversation, sc Scenario) (*live, *runnel.Turn) {
	t.Helper()
	s.prompt(t, sc)
	l := c.take(t)
	return l, s.play(l, sc)
}

func (s Subject) text(t *testing.T, c *conversation) {
	s.prompt(t, Text)
	l := c.take(t)
	for range 2 { // the second turn uses the same agent process
		turn := s.play(l, Text)
		res := l.completes(turn)
		if !strings.HasSuffix(res.FinalText, s.MessageEnd) {
			t.Errorf("final text %q", res.FinalText)
		}
		items := l.items(turn.ID)
		if len(items) < 2 || items[0].ID != runnel.UserItemID(turn.ID) || items[0].Content != s.Prompts[Text] {
			t.Errorf("the user's message is not the first item\n%s", l.dump())
		}
		if res.Usage == nil || res.Usage.OutputTokens == 0 {
			t.Errorf("no usage: %+v", res.Usage)
		}
	}
	if st := l.Status(); st.AgentSessionID == "" {
		t.Error("the agent's own session id is not known")
	}
}

func (s Subject) reasoning(t *testing.T, c *conversation) {
	l, turn := s.begin(t, c, Reasoning)
	l.completes(turn)
	it, ok := find(l.items(turn.ID), ofType(event.TypeReasoning))
	if !ok || it.Content == "" || it.Status != event.ItemComplete {
		t.Errorf("no reasoning\n%s", l.dump())
	}
}

func (s Subject) tool(t *testing.T, c *conversation) {
	l, turn := s.begin(t, c, Tool)
	l.answerAll(turn, event.ChoiceAllowOnce)
	l.completes(turn)
	items := l.items(turn.ID)
	call, ok := find(items, ofType(event.TypeFunctionCall))
	if !ok {
		t.Fatalf("no tool call\n%s", l.dump())
	}
	f := call.Final.(event.FunctionCall)
	if f.Kind == "" || string(f.Arguments) == "" || f.Name != call.Name {
		t.Errorf("%+v", f)
	}
	out, ok := find(items, func(it event.Item) bool {
		return it.Type == event.TypeFunctionCallOutput && it.CallID == call.CallID
	})
	if !ok || out.Content == "" {
		t.Errorf("no output of %s\n%s", call.CallID, l.dump())
	}
}

func (s Subject) parallel(t *testing.T, c *conversation) {
	l, turn := s.begin(t, c, Parallel)
	release := sync.OnceFunc(func() {
		if err := os.WriteFile(filepath.Join(l.opt.Dir, "both"), nil, 0o600); err != nil {
			t.Error(err)
		}
	})
	defer release() // also release the commands of a failed case
	most, called := 0, 0
	running := map[string]bool{}
	l.watch(turn, func(ev event.Event) bool {
		switch b := ev.Body.(type) {
		case event.ItemStart:
			if b.ItemType == event.TypeFunctionCall {
				running[b.CallID] = true
			}
			if b.ItemType == event.TypeFunctionCallOutput {
				delete(running, b.CallID)
			}
			most = max(most, len(running))
		case event.ItemDone:
			if _, ok := b.FinalItem.(event.FunctionCall); ok {
				called++
			}
		}
		if most >= 2 && called >= 2 {
			release()
		}
		return false
	})
	l.completes(turn)
	if most < 2 || len(running) != 0 {
		t.Errorf("%d tool calls at a time, %d without output\n%s", most, len(running), l.dump())
	}
}

func (s Subject) edit(t *testing.T, c *conversation) {
	l, turn := s.begin(t, c, Edit)
	l.answerAll(turn, event.ChoiceAllowOnce)
	l.completes(turn)
	out, ok := find(l.items(turn.ID), func(it event.Item) bool {
		f, ok := it.Final.(event.FunctionCallOutput)
		return ok && len(f.Changes) > 0
	})
	if !ok {
		t.Fatalf("no changes\n%s", l.dump())
	}
	for _, c := range out.Final.(event.FunctionCallOutput).Changes {
		if c.Path == "" || c.Kind == "" || len(c.Hunks) == 0 && c.NewText == nil {
			t.Errorf("%+v", c)
		}
	}
}

// answerAll answers every approval of a turn with the first choice of a kind.
// It returns the number of approvals.
func (l *live) answerAll(turn *runnel.Turn, kind event.ChoiceKind) (asked int) {
	l.t.Helper()
	l.watch(turn, func(ev event.Event) bool {
		b, ok := ev.Body.(event.ApprovalRequested)
		if !ok {
			return false
		}
		asked++
		l.answer(b.Approval, kind)
		return false
	})
	return asked
}

func (l *live) answer(a event.Approval, kind event.ChoiceKind) {
	l.t.Helper()
	for _, c := range a.Choices {
		if c.Kind == kind {
			if err := l.Decide(l.t.Context(), a.ID, runnel.Decision{Choice: c.ID, ArgumentsDigest: a.ArgumentsDigest}); err != nil {
				l.t.Fatal(detail(err))
			}
			return
		}
	}
	l.t.Fatalf("approval %s has no choice of kind %s: %+v", a.ID, kind, a.Choices)
}

func (s Subject) approvalAllowed(t *testing.T, c *conversation) {
	l, turn := s.begin(t, c, Approval)
	if l.answerAll(turn, event.ChoiceAllowOnce) == 0 {
		t.Fatalf("the agent did not ask\n%s", l.dump())
	}
	l.completes(turn)
	out, ok := find(l.items(turn.ID), ofType(event.TypeFunctionCallOutput))
	if f, _ := out.Final.(event.FunctionCallOutput); !ok || f.IsError {
		t.Errorf("the allowed tool failed\n%s", l.dump())
	}
}

func (s Subject) approvalDenied(t *testing.T, c *conversation) {
	s.prompt(t, Approval)
	if why := s.Cannot[Denial] + s.Lacks[Denial]; why != "" {
		s.skip(t, why)
	}
	l, turn := s.begin(t, c, Approval)
	if l.answerAll(turn, event.ChoiceDeny) == 0 {
		t.Fatalf("the agent did not ask\n%s", l.dump())
	}
	l.completes(turn)
	out, ok := find(l.items(turn.ID), ofType(event.TypeFunctionCallOutput))
	if f, _ := out.Final.(event.FunctionCallOutput); ok && !f.IsError {
		t.Errorf("the denied tool ran\n%s", l.dump())
	}
}

func (s Subject) approvalStopped(t *testing.T, c *conversation) {
	l, turn := s.begin(t, c, Approval)
	l.watch(turn, func(ev event.Event) bool {
		if b, ok := ev.Body.(event.ApprovalRequested); ok {
			l.answer(b.Approval, event.ChoiceDenyStop)
			return true
		}
		return false
	})
	if res, err := l.wait(turn); err != nil || res.Status != event.StatusCancelled {
		t.Fatalf("%s %v\n%s", res.Status, detail(err), l.dump())
	}
	s.nextTurnWorks(t, l)
}

// interrupt cancels a turn during a scenario, twice. The next turn must work.
func (s Subject) interrupt(t *testing.T, c *conversation, sc Scenario) {
	l, turn := s.begin(t, c, sc)
	l.watch(turn, func(ev event.Event) bool {
		switch b := ev.Body.(type) {
		case event.ItemDelta:
			return sc == LongText
		case event.ItemDone:
			_, isCall := b.FinalItem.(event.FunctionCall)
			return sc == LongTool && isCall
		case event.ApprovalRequested:
			if sc == LongTool {
				l.answer(b.Approval, event.ChoiceAllowOnce)
				return true
			}
			return sc == Approval
		}
		return false
	})
	for range 2 {
		if err := l.Cancel(t.Context()); err != nil {
			t.Fatal(detail(err))
		}
	}
	res, err := l.wait(turn)
	if err != nil || res.Status != event.StatusCancelled {
		t.Fatalf("%s %v\n%s", res.Status, detail(err), l.dump())
	}
	s.nextTurnWorks(t, l)
}

func (s Subject) nextTurnWorks(t *testing.T, l *live) {
	t.Helper()
	res := l.completes(s.play(l, Recover))
	if !strings.HasSuffix(res.FinalText, s.MessageEnd) {
		t.Errorf("the final text of the next turn is %q\n%s", res.FinalText, l.dump())
	}
}

func (s Subject) failure(t *testing.T, c *conversation) {
	l, turn := s.begin(t, c, Failure)
	_, err := l.wait(turn)
	if err == nil {
		t.Fatalf("the turn did not fail\n%s", l.dump())
	}
	if runnel.CodeOf(err) == runnel.Internal || !strings.Contains(err.Error(), ": ") {
		t.Errorf("an error without a reason: %v", detail(err))
	}
	CheckLog(t, l.log, l.ID())
	s.nextTurnWorks(t, l)
}
