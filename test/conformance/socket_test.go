//go:build unix

package conformance

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/coder/websocket"
)

// A socket is a WebSocket connection to the server.
type socket struct {
	conn *websocket.Conn
}

// dial opens a WebSocket. It is closed when t ends.
func (c client) dial(t *testing.T) *socket {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	conn, res, err := websocket.Dial(ctx, c.base+"/api/ws", &websocket.DialOptions{
		HTTPClient: c.http, HTTPHeader: c.header, Subprotocols: []string{"runnel.v1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %d", res.StatusCode)
	}
	conn.SetReadLimit(-1)
	t.Cleanup(func() { _ = conn.CloseNow() })
	return &socket{conn}
}

// hello opens a WebSocket and selects the family.
func (c client) hello(t *testing.T, family string) *socket {
	t.Helper()
	k := c.dial(t)
	k.write(t, object{"type": "session:hello", "streamProtocol": family})
	equal(t, "answer to hello", k.read(t), object{"type": "session:hello:ack", "selectedFamily": family, "protocols": families})
	return k
}

// families are the message families of a WebSocket.
var families = []string{"upsert-v1", "events-v1"}

// write sends a message. A string is sent unchanged, other values as JSON.
func (k *socket) write(t *testing.T, message any) {
	t.Helper()
	data, ok := message.(string)
	if !ok {
		b, err := json.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		data = string(b)
	}
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	if err := k.conn.Write(ctx, websocket.MessageText, []byte(data)); err != nil {
		t.Fatal(err)
	}
}

// read returns the next message.
func (k *socket) read(t *testing.T) object {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	_, data, err := k.conn.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var m object
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// until returns the messages up to the first one that wanted accepts.
func (k *socket) until(t *testing.T, wanted func(object) bool) []object {
	t.Helper()
	var all []object
	for {
		m := k.read(t)
		if all = append(all, m); wanted(m) {
			return all
		}
	}
}

// await skips messages until one has one of the types, and returns it.
func (k *socket) await(t *testing.T, types ...string) object {
	t.Helper()
	all := k.until(t, func(m object) bool { return slices.Contains(types, m["type"].(string)) })
	return all[len(all)-1]
}

// ask sends a message with a request id and returns the response.
func (k *socket) ask(t *testing.T, message object) object {
	t.Helper()
	message["requestId"] = "r1"
	k.write(t, message)
	all := k.until(t, func(m object) bool { return m["requestId"] == "r1" })
	return all[len(all)-1]
}

// result sends a message, checks the form of the response and returns its
// result.
func (k *socket) result(t *testing.T, message object) object {
	t.Helper()
	m := k.ask(t, message)
	if m["type"] != "response" {
		t.Fatalf("%v: got %v", message["type"], m)
	}
	result, ok := m["result"].(object)
	if !ok {
		t.Fatalf("%v: the result is %v", message["type"], m["result"])
	}
	return result
}

// refused sends a message and ends the test unless the response is an error of
// the type. It returns the error.
func (k *socket) refused(t *testing.T, message object, typ string) object {
	t.Helper()
	m := k.ask(t, message)
	if m["type"] != "error" || at(m, "error", "type") != typ || at(m, "error", "message") == "" {
		t.Fatalf("%v: got %v, want the error %s", message["type"], m, typ)
	}
	return m["error"].(object)
}

// subscribe subscribes to a session and returns the messages up to the end of
// the history.
func (k *socket) subscribe(t *testing.T, session string, after any) []object {
	t.Helper()
	m := object{"type": "session:subscribe", "sessionId": session}
	if after != nil {
		m["after"] = after
	}
	k.write(t, m)
	return k.until(t, func(m object) bool { return m["type"] == "session:history" && m["done"] == true })
}

// turn returns the messages up to the end of a turn, for either family.
func (k *socket) turn(t *testing.T, turn string) []object {
	t.Helper()
	return k.until(t, func(m object) bool {
		p, _ := m["payload"].(object)
		switch m["type"] {
		case "session:turn":
			return p["turnId"] == turn && p["type"] != "turn_started"
		case "session:event":
			return p["turnId"] == turn && (p["type"] == "response_done" || p["type"] == "response_error")
		}
		return false
	})
}

// closed reads until the connection is closed and returns the close code.
func (k *socket) closed(t *testing.T) websocket.StatusCode {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	for {
		if _, _, err := k.conn.Read(ctx); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

// ofType returns the payloads of the messages of a type.
func ofType(messages []object, typ string) []object {
	var found []object
	for _, m := range messages {
		if p, ok := m["payload"].(object); ok && m["type"] == typ {
			found = append(found, p)
		}
	}
	return found
}
