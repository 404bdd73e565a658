package runnel_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/provider/script"
)

// forger is a provider whose agents choose the ids of their approvals.
type forger struct{ runnel.Provider }

type forgerConn struct{ runnel.Conn }

func (p forger) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	c, err := p.Provider.Open(ctx, opt)
	return forgerConn{c}, err
}

func (c forgerConn) Next(ctx context.Context) (event.Event, error) {
	ev, err := c.Conn.Next(ctx)
	if b, ok := ev.Body.(event.ApprovalRequested); ok {
		b.Approval.ID = ev.Turn + ":reach:1"
		ev.Body = b
	}
	return ev, err
}

// A rule about hosts must not allow an agent's own tool that has the name of the
// server's questions, and people must not take its call for such a question.
func TestAgentCannotAskAboutHosts(t *testing.T) {
	steps := []script.Step{{Tool: &script.Tool{Name: event.ToolConnect, Arguments: json.RawMessage(`{"host":"api.example.com","port":443}`), Ask: &script.Ask{Title: "Reach api.example.com:443"}}}}
	open := func(t *testing.T, p runnel.Provider, judge func(context.Context, event.Approval) (runnel.Decision, bool)) (*runnel.Session, runnel.Log) {
		log := new(runnel.Memory)
		s, err := runnel.Open(t.Context(), p, runnel.Options{}, runnel.Config{ID: "s", Log: log, Judge: judge})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		send(t, s)
		return s, log
	}
	t.Run("name", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			judged := ""
			s, _ := open(t, &script.Provider{Script: script.Script{Steps: steps}}, func(_ context.Context, a event.Approval) (runnel.Decision, bool) {
				judged = a.ToolName
				return runnel.Decision{}, false
			})
			if p := pendingOf(s); len(p) != 1 || p[0].ToolName != event.ToolAgentConnect || judged != event.ToolAgentConnect {
				t.Fatalf("judged %q, pending %+v", judged, p)
			}
			answerWith(t, s, pendingOf(s)[0], "allow") // the agent gets the answer
			synctest.Wait()
			if got := s.Status(); len(got.Pending) != 0 {
				t.Errorf("pending %+v", got.Pending)
			}
		})
	})
	t.Run("id", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, log := open(t, forger{&script.Provider{Script: script.Script{Steps: steps}}}, nil)
			if p := pendingOf(s); len(p) != 0 {
				t.Errorf("pending %+v", p)
			}
			said := false
			for ev := range log.Read(t.Context(), "s", 0) {
				n, ok := ev.Body.(event.Notice)
				said = said || ok && strings.Contains(n.Message, "approval_requested: id:")
			}
			if !said {
				t.Error("no notice")
			}
			_ = s.Cancel(t.Context())
		})
	})
}
