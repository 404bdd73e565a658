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

// contract checks the documented behaviour of a Conn's methods, without a
// session.
func (s Subject) contract(t *testing.T) {
	p, opt := s.New(t)
	if p.Name() == "" || strings.ToLower(p.Name()) != p.Name() || strings.ContainsAny(p.Name(), " _") {
		t.Errorf("name %q", p.Name())
	}
	caps := runnel.Capabilities(p)
	if !slices.Contains(caps, runnel.CapRun) {
		t.Errorf("capabilities %v", caps)
	}
	_, listing := runnel.ListMCP(t.Context(), p)
	removal := runnel.RemoveMCP(t.Context(), p, "no-such-server")
	for _, c := range runnel.MCPCapabilities() {
		err := listing
		if slices.Contains(runnel.MCPWriteCapabilities(), c) {
			err = removal
		}
		if has := slices.Contains(caps, c); has == (runnel.CodeOf(err) == runnel.UnsupportedCapability) {
			t.Errorf("has %s: %v, but: %v", c, has, err)
		}
	}
	if slices.Contains(caps, runnel.CapMCPList) && listing != nil {
		t.Errorf("the MCP servers cannot be listed: %v", detail(listing))
	}
	if _, ok := p.(runnel.OptionTaker); !ok {
		t.Error("the provider does not implement OptionTaker")
	}
	if proto, ok := p.(runnel.ConnPrototype); ok && proto.Prototype() == nil {
		t.Error("no prototype")
	}
	if opt.Sandbox != s.Sandbox {
		t.Fatalf("the agents run in the sandbox %q, not in %q", opt.Sandbox, s.Sandbox)
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
		t.Errorf("interrupt while no turn runs: %v", detail(err))
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
	case <-time.After(waitTimeout):
		t.Fatal("Close does not unblock Next")
	}
}

func within(t *testing.T, done <-chan struct{}, why string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(waitTimeout):
		t.Fatal(why)
	}
}

// resumeAfterKill kills the agent during a turn. The turn fails, and the next
// prompt starts the agent again and resumes the same conversation.
func (s Subject) resumeAfterKill(t *testing.T, c *conversation) {
	s.needProcesses(t)
	s.prompt(t, LongText)
	l := c.take(t)
	if l.Status().Head == 0 { // no earlier case ran (-run)
		l.completes(s.play(l, Text))
	}
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

// resumeAfterClose closes a session and resumes the conversation in a new one.
func (s Subject) resumeAfterClose(t *testing.T, c *conversation) {
	if !slices.Contains(runnel.Capabilities(c.provider), runnel.CapSessionResume) {
		s.skip(t, "the provider does not say that it can resume")
	}
	l := c.latest(t)
	if l.Status().Head == 0 { // no earlier case ran (-run)
		l.completes(s.play(l, Text))
	}
	id := l.Status().AgentSessionID
	again := c.resume(t)
	s.nextTurnWorks(t, again)
	if got := again.Status().AgentSessionID; got != id {
		t.Errorf("resumed %s and got %s", id, got)
	}
}

// agentReadsNothing suspends the agent, so that it does not read its input.
// Sending a prompt must not block, and stopping the agent must still work.
func (s Subject) agentReadsNothing(t *testing.T) {
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
	case <-time.After(waitTimeout):
		t.Fatal("the session blocks while the agent does not read its input")
	}
	if res, err := l.wait(turn); err != nil || res.Status != event.StatusCancelled {
		t.Fatalf("%s %v\n%s", res.Status, detail(err), l.dump())
	}
	CheckLog(t, l.log, l.ID())
}

// noProcessAfterClose closes a session while a tool runs. No process may
// remain.
func (s Subject) noProcessAfterClose(t *testing.T, c *conversation) {
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
		t.Fatalf("processes %v are still running after Close", left)
	}
}

func (s Subject) needProcesses(t *testing.T) {
	t.Helper()
	if !s.Processes {
		s.skip(t, "the provider runs no process")
	}
}
