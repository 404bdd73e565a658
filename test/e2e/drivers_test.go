//go:build unix

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/upsert"
)

// moment is a kind of point in a turn to which a scenario may react.
type moment string

const (
	inText      moment = "text"      // a message gets a delta
	inArguments moment = "arguments" // a tool call's arguments get a delta
	called      moment = "called"    // a tool call's arguments are final
	asked       moment = "asked"     // an approval is pending
)

// reaction is what the user of the client does at a moment.
type reaction string

const (
	nothing reaction = ""
	allow   reaction = "allow_once"
	deny    reaction = "deny"
	stop    reaction = "deny_stop"
	cancel  reaction = "cancel"
	kill    reaction = "kill"    // kill the agent's process
	allowed reaction = "allowed" // allow, and cancel once the tool has written to the pipe
)

// outcome is what a client has seen of a turn when the turn ends.
type outcome struct {
	Status   string // completed, cancelled, or the code of the error
	Text     []string
	Thinking []string
	Tools    []tool
	Resolved []string // choice and who made it, such as "deny user"
}

type tool struct {
	Name    string
	Output  string
	Failed  bool
	Changes int
}

// A driver runs turns of one session as one kind of client.
type driver interface {
	turn(prompt string, react func(moment) reaction) outcome

	// shown returns the session's id and the text of each finished item that
	// the client was shown, by the item's id.
	shown() (session string, texts map[string]string)
}

// act carries out a reaction, in the same way for every kind of client. a is
// the approval to decide, if any.
func act(s *server, session string, r reaction, a event.Approval) {
	s.t.Helper()
	switch r {
	case nothing:
	case cancel:
		if code := s.call("POST", "/api/session/"+session+"/cancel", map[string]any{}, nil); code != 200 {
			s.t.Errorf("cancel: %d", code)
		}
	case kill:
		s.killAgents()
	case allowed:
		act(s, session, allow, a)
		if _, err := os.ReadFile(filepath.Join(s.home.Project, "running")); err != nil {
			s.t.Error(err)
		}
		act(s, session, cancel, a)
	default:
		i := slices.IndexFunc(a.Choices, func(c event.Choice) bool { return string(c.Kind) == string(r) })
		if i < 0 && r == deny { // some agents end the turn with every denial
			i = slices.IndexFunc(a.Choices, func(c event.Choice) bool { return c.Kind == event.ChoiceDenyStop })
		}
		if i < 0 {
			s.t.Errorf("there is no choice %s in %+v", r, a.Choices)
			i = 0
		}
		path := "/api/session/" + session + "/approvals/" + a.ID
		if code := s.call("POST", path, map[string]any{"choice": a.Choices[i].ID, "argumentsDigest": a.ArgumentsDigest}, nil); code != 200 {
			s.t.Errorf("decide: %d", code)
		}
		if code := s.call("POST", path, map[string]any{"choice": a.Choices[0].ID, "argumentsDigest": a.ArgumentsDigest}, nil); code != 409 {
			s.t.Errorf("a second decision: %d", code)
		}
	}
}

// sse is a client of the HTTP API: it sends with POST and reads canonical
// events.
type sse struct {
	s       *server
	session string
	after   string
	texts   map[string]string
}

func newSSE(s *server) driver { return &sse{s, s.create(), "0", make(map[string]string)} }

func (d *sse) on(t *testing.T) *sse {
	return &sse{d.s.on(t), d.session, d.after, d.texts}
}

func (d *sse) shown() (string, map[string]string) { return d.session, d.texts }

func (d *sse) turn(prompt string, react func(moment) reaction) outcome {
	t := d.s.t
	t.Helper()
	var sent struct{ TurnID string }
	if code := d.s.call("POST", "/api/session/"+d.session+"/send", map[string]any{"content": prompt}, &sent); code != 202 {
		t.Fatalf("send: %d", code)
	}
	ctx, end := context.WithTimeout(t.Context(), waitTimeout)
	defer end()
	res := d.s.do(ctx, "GET", "/api/session/"+d.session+"/events?after="+d.after, nil)
	defer res.Body.Close()
	var tr event.Transcript
	var out outcome
	lines := bufio.NewReader(res.Body)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the stream broke off: %v", err)
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			if id, ok := strings.CutPrefix(line, "id: "); ok {
				d.after = strings.TrimSpace(id)
			}
			continue
		}
		var ev event.Event
		if json.Unmarshal([]byte(data), &ev) != nil || ev.Turn != sent.TurnID {
			continue // the opening frame of the stream, or an event of another turn
		}
		tr.Apply(ev)
		if done := d.see(ev, &tr, react, &out); done {
			out.fold(tr.Items())
			for _, it := range tr.Items() {
				if it.Status == event.ItemComplete && (it.Type == event.TypeMessage || it.Type == event.TypeReasoning) {
					d.texts[it.ID] = it.Content
				}
			}
			return out
		}
	}
}

func (d *sse) see(ev event.Event, tr *event.Transcript, react func(moment) reaction, out *outcome) (done bool) {
	switch b := ev.Body.(type) {
	case event.ItemDelta:
		it, _ := tr.Item(b.ItemID)
		switch it.Type {
		case event.TypeMessage:
			act(d.s, d.session, react(inText), event.Approval{})
		case event.TypeFunctionCall:
			act(d.s, d.session, react(inArguments), event.Approval{})
		}
	case event.ItemDone:
		if _, ok := b.FinalItem.(event.FunctionCall); ok {
			act(d.s, d.session, react(called), event.Approval{})
		}
	case event.ApprovalRequested:
		act(d.s, d.session, react(asked), b.Approval)
	case event.ApprovalResolved:
		out.Resolved = append(out.Resolved, b.Choice+" "+string(b.By))
	case event.ResponseDone:
		out.Status = string(b.Status)
		return true
	case event.ResponseError:
		out.Status = b.Error.Code
		return true
	}
	return false
}

func (o *outcome) fold(items []event.Item) {
	outputs := map[string]event.FunctionCallOutput{}
	for _, it := range items {
		if f, ok := it.Final.(event.FunctionCallOutput); ok {
			outputs[it.CallID] = f
		}
	}
	for _, it := range items {
		switch f := it.Final.(type) {
		case event.Message:
			if f.Origin == event.OriginAgent {
				o.Text = append(o.Text, f.Content)
			}
		case event.Reasoning:
			o.Thinking = append(o.Thinking, f.Content)
		case event.FunctionCall:
			if r, ok := outputs[it.CallID]; ok {
				o.Tools = append(o.Tools, tool{f.Name, r.Output, r.IsError, len(r.Changes)})
			}
		}
	}
}

// ws is a client of the WebSocket. It shows upserts, as the page does.
type ws struct {
	s       *server
	session string
	conn    *websocket.Conn
	texts   map[string]string
}

func (d *ws) shown() (string, map[string]string) { return d.session, d.texts }

func newWS(s *server) driver {
	d := &ws{s: s, session: s.create(), texts: make(map[string]string)}
	conn, _, err := websocket.Dial(s.t.Context(), s.url+"/api/ws", &websocket.DialOptions{
		HTTPHeader: map[string][]string{"Authorization": {"Bearer " + s.token}}, Subprotocols: []string{"runnel.v1"},
		HTTPClient: s.webSocketClient(),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	conn.SetReadLimit(32 << 20)
	s.t.Cleanup(func() { _ = conn.CloseNow() })
	d.conn = conn
	d.write(map[string]any{"type": "session:hello", "streamProtocol": "upsert-v1"})
	d.write(map[string]any{"type": "session:subscribe", "sessionId": d.session})
	return d
}

func (d *ws) write(v any) {
	d.s.t.Helper()
	if err := wsjson.Write(d.s.t.Context(), d.conn, v); err != nil {
		d.s.t.Fatal(err)
	}
}

// textOf returns the text of an item that a user reads: a message, a thought or
// the output of a tool.
func textOf(u upsert.Upsert) string {
	switch {
	case u.Message != nil:
		return u.Message.Content
	case u.Thinking != nil:
		return u.Thinking.Content
	case u.ToolCall != nil && u.ToolCall.ToolOutput != nil:
		return *u.ToolCall.ToolOutput
	}
	return ""
}

// frame is a message from the server.
type frame struct {
	Type    string
	Payload json.RawMessage
	Entries []frame
	Result  struct{ TurnID string }
	Error   *struct{ Type, Message string }
}

// screen is what a client of upserts shows of a turn.
type screen struct {
	order []string
	items map[string]upsert.Upsert
}

func (d *ws) turn(prompt string, react func(moment) reaction) outcome {
	t := d.s.t
	t.Helper()
	d.write(map[string]any{"type": "session:send", "requestId": "r", "sessionId": d.session, "content": prompt})
	ctx, end := context.WithTimeout(t.Context(), waitTimeout)
	defer end()
	sc := screen{items: map[string]upsert.Upsert{}}
	var out outcome
	turn, early := "", []frame(nil)
	for {
		var f frame
		if err := wsjson.Read(ctx, d.conn, &f); err != nil {
			t.Fatalf("the connection broke off: %v", err)
		}
		if f.Type == "error" {
			t.Fatalf("%+v", f.Error)
		}
		todo := append(f.Entries, f)
		if f.Type == "response" {
			turn, todo, early = f.Result.TurnID, early, nil
		} else if turn == "" { // upserts of the turn may arrive before the response with its id
			early = append(early, todo...)
			continue
		}
		for _, f := range todo {
			if d.see(f, turn, &sc, react, &out) {
				sc.fold(&out)
				for id, u := range sc.items {
					if u.Status == upsert.StatusComplete {
						d.texts[id] = textOf(u)
					}
				}
				return out
			}
		}
	}
}

func (d *ws) see(f frame, turn string, sc *screen, react func(moment) reaction, out *outcome) (done bool) {
	switch f.Type {
	case "session:upsert":
		var u upsert.Upsert
		d.decode(f.Payload, &u)
		if u.TurnID == turn {
			d.draw(u, sc, react)
		}
	case "session:approval":
		var a upsert.Approval
		d.decode(f.Payload, &a)
		switch {
		case a.TurnID != turn:
		case a.Status == upsert.ApprovalPending:
			act(d.s, d.session, react(asked), a.Approval)
		default:
			out.Resolved = append(out.Resolved, a.Choice+" "+string(a.By))
		}
	case "session:turn":
		var e upsert.TurnEvent
		d.decode(f.Payload, &e)
		if e.TurnID != turn || e.Type == upsert.TurnStarted {
			return false
		}
		out.Status = string(e.Status) + e.ErrorCode
		return true
	}
	return false
}

func (d *ws) decode(data []byte, v any) {
	d.s.t.Helper()
	if err := json.Unmarshal(data, v); err != nil {
		d.s.t.Fatalf("%s: %v", data, err)
	}
}

func (d *ws) draw(u upsert.Upsert, sc *screen, react func(moment) reaction) {
	if _, ok := sc.items[u.ItemID]; !ok {
		sc.order = append(sc.order, u.ItemID)
	}
	sc.items[u.ItemID] = u
	grows := u.Status == upsert.StatusCreate || u.Status == upsert.StatusUpdate
	switch {
	case u.Message != nil && u.Message.Origin == event.OriginAgent && grows:
		act(d.s, d.session, react(inText), event.Approval{})
	case u.ToolCall != nil && grows && u.ToolCall.ToolArgumentsText != "":
		act(d.s, d.session, react(inArguments), event.Approval{})
	case u.ToolCall != nil && grows && len(u.ToolCall.ToolArguments) > 0:
		act(d.s, d.session, react(called), event.Approval{})
	}
}

func (sc *screen) fold(o *outcome) {
	for _, id := range sc.order {
		u := sc.items[id]
		switch {
		case u.Status != upsert.StatusComplete:
		case u.Message != nil && u.Message.Origin == event.OriginAgent:
			o.Text = append(o.Text, u.Message.Content)
		case u.Thinking != nil:
			o.Thinking = append(o.Thinking, u.Thinking.Content)
		case u.ToolCall != nil && u.ToolCall.ToolOutput != nil:
			c := u.ToolCall
			o.Tools = append(o.Tools, tool{c.ToolName, *c.ToolOutput, *c.ToolOutputIsError, len(c.Changes)})
		}
	}
}

// eachDriver runs a test with each kind of client.
func eachDriver(t *testing.T, s *server, f func(t *testing.T, d driver)) {
	for name, open := range map[string]func(*server) driver{"http": newSSE, "websocket": newWS} {
		t.Run(name, func(t *testing.T) {
			if name == "websocket" && !overTLS {
				needsLong(t, "TestEveryAgent does the same by WebSocket with other agents")
			}
			f(t, open(s.on(t)))
		})
	}
}
