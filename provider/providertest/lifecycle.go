package providertest

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

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
	if _, ok := p.(runnel.OptionTaker); !ok {
		t.Error("it does not declare which options its agent takes")
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
	s.prompt(t, LongText)
	l := s.open(t, LongText, runnel.Config{})
	l.completes(s.play(l, Text))
	before := l.Status().AgentSessionID
	turn := s.play(l, LongText)
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
func (s Subject) resumeAfterClose(t *testing.T, c *conversation) {
	if !slices.Contains(runnel.Capabilities(c.provider), runnel.CapSessionResume) {
		s.skip(t, "the provider does not say that it can resume")
	}
	l := c.take(t)
	l.completes(s.play(l, Text))
	id, log := l.Status().AgentSessionID, l.log
	if err := l.Close(); err != nil {
		t.Fatal(detail(err))
	}
	opt := c.opt // a case after a failure starts a conversation of its own
	opt.Resume = id
	c.live = start(t, c.provider, opt, runnel.Config{Log: log})
	again := c.take(t)
	s.nextTurnWorks(t, again)
	if got := again.Status().AgentSessionID; got != id {
		t.Errorf("resumed %s and got %s", id, got)
	}
}

// stuffedPipes stops the agent so that it reads nothing: handing over must not
// block, and ending it must work all the same.
func (s Subject) stuffedPipes(t *testing.T) {
	s.needProcesses(t)
	l := s.open(t, Text, runnel.Config{InterruptGrace: 100 * time.Millisecond})
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
func (s Subject) nothingIsLeft(t *testing.T, c *conversation) {
	s.needProcesses(t)
	l, turn := s.begin(t, c, LongTool)
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

func (s Subject) needProcesses(t *testing.T) {
	t.Helper()
	if !s.Processes {
		s.skip(t, "the provider runs no process")
	}
}
