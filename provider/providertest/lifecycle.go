package providertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// contract holds a Conn to what its methods promise, without a session.
func (s Subject) contract(t *testing.T) {
	p, opt := s.New(t)
	if p.Name() == "" || strings.ToLower(p.Name()) != p.Name() || strings.ContainsAny(p.Name(), " _") {
		t.Errorf("name %q", p.Name())
	}
	if caps := runnel.Capabilities(p); !slices.Contains(caps, runnel.CapRun) {
		t.Errorf("capabilities %v", caps)
	}
	if proto, ok := p.(runnel.ConnPrototype); ok && proto.Prototype() == nil {
		t.Error("no prototype")
	}
	conn, err := p.Open(t.Context(), opt)
	if err != nil {
		t.Fatal(detail(err))
	}
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := conn.Next(context.Background()); err != nil {
				ended <- err
				return
			}
		}
	}()
	if err := conn.Interrupt(t.Context()); err != nil {
		t.Errorf("an interrupt while nothing runs: %v", detail(err))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 3 {
			if err := conn.Close(); err != nil {
				t.Errorf("close: %v", detail(err))
			}
		}
	}()
	within(t, done, "Close does not return")
	select {
	case err := <-ended:
		if _, coded := errors.AsType[*runnel.Error](err); !coded && !errors.Is(err, io.EOF) {
			t.Errorf("Next ended with %v, want io.EOF or an *Error", err)
		}
	case <-time.After(patience):
		t.Fatal("Close does not unblock Next")
	}
}

func within(t *testing.T, done <-chan struct{}, why string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal(why)
	}
}

// resumeAfterKill kills the agent in the middle of a turn: the turn fails once,
// and the next prompt starts the agent again in the same conversation.
func (s Subject) resumeAfterKill(t *testing.T) {
	s.needProcesses(t)
	l := s.open(t)
	l.completes(l.send(s.prompt(t, Text)))
	before := l.Status().AgentSessionID
	turn := l.send(s.prompt(t, LongText))
	l.watch(turn, func(ev event.Event) bool { _, ok := ev.Body.(event.ItemDelta); return ok })
	killDescendants(t)
	if _, err := l.wait(turn); runnel.CodeOf(err) != runnel.ProcessCrash {
		t.Fatalf("%v\n%s", detail(err), l.dump())
	}
	s.nextTurnWorks(t, l)
	if after := l.Status().AgentSessionID; after != before {
		t.Errorf("the conversation changed from %s to %s", before, after)
	}
}

// resumeAfterClose continues a conversation in another session.
func (s Subject) resumeAfterClose(t *testing.T) {
	l := s.open(t)
	if !slices.Contains(runnel.Capabilities(l.provider), runnel.CapSessionResume) {
		s.skip(t, "the provider does not say that it can resume")
	}
	l.completes(l.send(s.prompt(t, Text)))
	id := l.Status().AgentSessionID
	if err := l.Close(); err != nil {
		t.Fatal(detail(err))
	}
	opt := l.opt
	opt.Resume = id
	again := s.openWith(t, l.provider, opt, l.log)
	s.nextTurnWorks(t, again)
	if got := again.Status().AgentSessionID; got != id {
		t.Errorf("resumed %s and got %s", id, got)
	}
}

// stuffedPipes stops the agent so that it reads nothing: handing over must not
// block, and ending it must work all the same.
func (s Subject) stuffedPipes(t *testing.T) {
	s.needProcesses(t)
	l := s.open(t)
	freezeDescendants(t)
	big := strings.Repeat("0123456789abcdef", 512<<10) // 8 MiB, far more than a pipe holds
	done := make(chan struct{})
	var turn *runnel.Turn
	go func() {
		defer close(done)
		turn = l.send(big)
		if err := l.Cancel(context.Background()); err != nil {
			t.Errorf("cancel: %v", detail(err))
		}
		l.Status()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("an agent that does not read stops the session")
	}
	if res, err := l.wait(turn); err != nil || res.Status != event.StatusCancelled {
		t.Fatalf("%s %v\n%s", res.Status, detail(err), l.dump())
	}
	CheckLog(t, l.log, l.ID())
}

// nothingIsLeft closes a session in the middle of a tool.
func (s Subject) nothingIsLeft(t *testing.T) {
	s.needProcesses(t)
	prompt := s.prompt(t, LongTool)
	l := s.open(t)
	turn := l.send(prompt)
	l.watch(turn, func(ev event.Event) bool {
		switch b := ev.Body.(type) {
		case event.ApprovalRequested:
			l.answer(b.Approval, event.ChoiceAllowOnce)
			return true
		case event.ItemDone:
			_, isCall := b.FinalItem.(event.FunctionCall)
			return isCall
		}
		return false
	})
	if err := l.Close(); err != nil {
		t.Fatal(detail(err))
	}
	if left := descendants(); len(left) > 0 {
		t.Fatalf("still there after Close: %v", left)
	}
}

// replayEqualsLive compares what was shown live with what the agent's own
// history gives through the same translation: same items, same ids.
func (s Subject) replayEqualsLive(t *testing.T) {
	p, _ := s.New(t)
	if _, ok := p.(runnel.Historian); !ok {
		s.skip(t, "the provider is no Historian: its sessions are rebuilt from our log only")
	}
	for _, sc := range []Scenario{Text, Reasoning, Tool, Parallel, Edit, Approval, Subagent, Plan, Question, Failure} {
		t.Run(string(sc), func(t *testing.T) {
			prompt := s.prompt(t, sc)
			l := s.open(t)
			turn := l.send(prompt)
			l.answerAll(turn, event.ChoiceAllowOnce)
			_, _ = l.wait(turn)
			l.completes(l.send(s.prompt(t, Recover)))
			id := l.Status().AgentSessionID
			if err := l.Close(); err != nil {
				t.Fatal(detail(err))
			}
			replayed := new(runnel.Memory)
			history := l.provider.(runnel.Historian).History(t.Context(), runnel.Conversation{AgentSessionID: id, Dir: l.opt.Dir})
			Record(t, replayed, "s", runnel.Replay("s", l.provider.Name(), history))
			CheckLog(t, replayed, "s")
			if diff := cmp.Diff(s.comparable(Items(t, l.log, "s", "")), s.comparable(Items(t, replayed, "s", ""))); diff != "" {
				t.Errorf("live (-) and replayed (+) differ:\n%s", diff)
			}
		})
	}
}

// Record appends replayed events to a log.
func Record(t testing.TB, log runnel.Log, session string, evs func(yield func(event.Event, error) bool)) {
	t.Helper()
	for ev, err := range evs {
		if err != nil {
			t.Fatal(detail(err))
		}
		if err := log.Append(t.Context(), session, ev.Seq-1, ev); err != nil {
			t.Fatal(err)
		}
	}
}

// comparable leaves out of items what is not theirs: when they happened and
// where in the log. What else may differ is named in s.Differences.
func (s Subject) comparable(items []event.Item) []event.Item {
	var out []event.Item
	place := map[string]string{}
	for _, it := range items {
		if s.TurnsByOrder {
			if place[it.Turn] == "" {
				place[it.Turn] = fmt.Sprintf("turn-%d", len(place)+1)
			}
			it.ID = place[it.Turn] + strings.TrimPrefix(it.ID, it.Turn)
			it.Turn = place[it.Turn]
		}
		it.StartedAt, it.UpdatedAt, it.Seq, it.Native = time.Time{}, time.Time{}, 0, nil
		if s.mayDiffer(it) {
			continue
		}
		at := len(out)
		if s.OutputsWithCalls && it.Type == event.TypeFunctionCallOutput {
			isCall := func(c event.Item) bool { return c.Type == event.TypeFunctionCall && c.CallID == it.CallID }
			at = slices.IndexFunc(out, isCall) + 1
		}
		out = slices.Insert(out, at, it)
	}
	return out
}

func (s Subject) mayDiffer(it event.Item) bool {
	for _, differs := range s.Differences {
		if differs(it) {
			return true
		}
	}
	return false
}

func (s Subject) needProcesses(t *testing.T) {
	t.Helper()
	if !s.Processes {
		s.skip(t, "the provider runs no process")
	}
}
