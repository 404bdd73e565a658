//go:build unix

package e2e

import (
	"context"
	"slices"
	"testing"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
)

// A listener is a client that receives a message after each change of the list
// of stored conversations.
type listener struct {
	s    *server
	conn *websocket.Conn
}

func (s *server) listen() listener {
	s.t.Helper()
	conn, _, err := websocket.Dial(s.t.Context(), s.url+"/api/ws", &websocket.DialOptions{
		HTTPHeader: map[string][]string{"Authorization": {"Bearer " + s.token}}, Subprotocols: []string{"runnel.v1"},
		HTTPClient: s.webSocketClient(),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.CloseNow() })
	l := listener{s, conn}
	if err := wsjson.Write(s.t.Context(), conn, map[string]any{"type": "conversations:subscribe", "requestId": "l"}); err != nil {
		s.t.Fatal(err)
	}
	l.receive("response")
	return l
}

// receive waits for a message of this type.
func (l listener) receive(typ string) {
	l.s.t.Helper()
	ctx, cancel := context.WithTimeout(l.s.t.Context(), waitTimeout)
	defer cancel()
	for {
		var m struct{ Type string }
		if err := wsjson.Read(ctx, l.conn, &m); err != nil {
			l.s.t.Fatalf("no message %s: %v", typ, err)
		}
		if m.Type == typ {
			return
		}
	}
}

// shows waits, by the messages alone, until the list has a conversation for
// which holds returns true.
func (l listener) shows(holds func(gateway.Conversation) bool) gateway.Conversation {
	l.s.t.Helper()
	for {
		l.receive("conversations:changed")
		var page gateway.ConversationPage
		l.s.call("GET", "/api/conversations", nil, &page)
		if at := slices.IndexFunc(page.Conversations, holds); at >= 0 {
			return page.Conversations[at]
		}
	}
}

// A conversation that begins in a terminal appears in the list, with its newest
// message. A client that waits for the message about changes need not poll.
func TestConversationInATerminalChangesTheListByEvents(t *testing.T) {
	for _, name := range []string{"claude-code", "codex", "opencode", "copilot"} {
		t.Run(name, func(t *testing.T) {
			if _, file := fileTerminals[name]; file {
				needsLong(t, "TestConversationInAFileIsFollowed waits for the same messages")
			}
			t.Parallel()
			agent := realagents.Find(t, name)
			term, ok := terminals[name]
			if !ok {
				term = fileTerminals[name]
			}
			s := serve(t, agent)
			l := s.listen()
			cmd := term.start(s, agent, "", play(fakemodel.Step{Text: "First, in the terminal."}))
			c := l.shows(func(c gateway.Conversation) bool { return c.LastMessage == "First, in the terminal." })
			if c.CLIType != name || c.SessionID != "" {
				t.Errorf("listed: %+v", c)
			}
			if err := cmd.Wait(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
