//go:build unix

package docs

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"github.com/runnel-dev/runnel/httpapi/stream"
)

// everything is a prompt whose turn contains every kind of item.
const everything = `{"model": "scripted", "steps": [
	{"reasoning": "A test is missing."},
	{"plan": [{"content": "Write the test", "status": "in_progress"}]},
	{"text": "I will run the tests."},
	{"tool": {"name": "Bash", "kind": "execute", "title": "make test", "arguments": {"command": "make test"},
		"output": "ok greet\n", "pieces": ["ok main\n"], "exitCode": 0, "ask": {"title": "Run make test"}}},
	{"tool": {"name": "Edit", "kind": "edit", "title": "Edit greet.go", "arguments": {"path": "greet.go"}, "output": "edited",
		"changes": [{"path": "greet.go", "kind": "update", "hunks": [{"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": ["-a", "+b"]}]}]}},
	{"usage": {"usage": {"inputTokens": 1200, "outputTokens": 80}, "contextTokens": 1280, "contextWindow": 200000, "costUsd": 0.01}},
	{"notice": {"level": "info", "code": "COMPACTED", "message": "The conversation was shortened."}},
	{"text": "Half a sen", "error": {"code": "AGENT_ERROR", "message": "the text was cut off"}},
	{"text": "The tests pass."}]}`

// An example is a frame or message of this run: its kind (event, frame,
// control, client, server or live), its name, and its text as a page shows it.
type example struct {
	kind, name, text string
	value            map[string]any
}

// wanted matches a place for an example on the page: the kind and the name of
// the example, and the values of fields that it must have.
var wanted = regexp.MustCompile("(?s)<!-- example: (\\w+) (\\S+?)((?: [\\w.]+=\\S+)*) -->\n```(json|text)\n(.*?)```")

// Every frame and message on the page must have an example from this run.
func TestExamplesOfStreamsPage(t *testing.T) {
	path, old := page(t, "streams.md")
	run := play(t)
	text := wanted.ReplaceAllStringFunc(old, func(found string) string {
		m := wanted.FindStringSubmatch(found)
		for _, e := range run.examples {
			if e.kind != m[1] || e.name != m[2] || !has(e.value, strings.Fields(m[3])) {
				continue
			}
			if got := run.anon.text(e.text); !same(m[5], got) {
				if !*update {
					t.Errorf("%s %s%s: the page shows\n%s\nthe run\n%s", m[1], m[2], m[3], m[5], got)
				}
				return "<!-- example: " + m[1] + " " + m[2] + m[3] + " -->\n```" + m[4] + "\n" + got + "```"
			}
			return found
		}
		t.Errorf("nothing of this run is the example %s %s%s", m[1], m[2], m[3])
		return found
	})
	save(t, path, old, text)
}

// The page must contain every event, frame and message that exists, and no
// others.
func TestStreamsPageHasEveryName(t *testing.T) {
	_, text := page(t, "streams.md")
	shown := make(map[string]bool)
	for _, m := range wanted.FindAllStringSubmatch(text, -1) {
		shown[m[1]+" "+m[2]] = true
	}
	d, exist := stream.Describe(), make(map[string]bool)
	for kind, names := range map[string]map[string]any{
		"event": d.Payloads, "item": d.Items, "frame": d.Frames, "control": d.Control, "client": d.Client, "server": d.Server, "live": d.Live,
	} {
		for name := range names {
			exist[kind+" "+name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(exist)) {
		if !shown[name] {
			t.Errorf("no example of %s", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		if !exist[name] {
			t.Errorf("%s does not exist", name)
		}
	}
}

// has reports whether a value has all of these fields, each such as
// payload.status=complete.
func has(v map[string]any, fields []string) bool {
	for _, f := range fields {
		path, want, _ := strings.Cut(f, "=")
		var at any = v
		for name := range strings.SplitSeq(path, ".") {
			m, _ := at.(map[string]any)
			at = m[name]
		}
		if fmt.Sprint(at) != want {
			return false
		}
	}
	return true
}

// player plays conversations and records the frames and messages that clients
// receive.
type player struct {
	*reader
	anon  *anonymous
	token string

	mu       sync.Mutex
	examples []example
}

// play runs the conversations from which the page shows parts.
func play(t *testing.T) *player {
	t.Helper()
	r := newReader(t)
	p := &player{reader: r, anon: newAnonymous(r), token: r.command("runnel", "token", "create", "docs", "--scope", "read,send,approve")}
	p.overSSE()
	p.overTurn()
	p.overWebSocket()
	return p
}

func (p *player) keep(kind, name, text string, data []byte) {
	e := example{kind: kind, name: name, text: text}
	if err := json.Unmarshal(data, &e.value); err != nil {
		p.t.Errorf("%s %s: %v", kind, name, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.examples = append(p.examples, e)
}

func (p *player) kept() []example {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.examples)
}

// call sends a request and returns its response. A response that is a stream
// can be read until the test ends.
func (p *player) call(method, path string, body any) *http.Response {
	p.t.Helper()
	var in io.Reader = http.NoBody
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			p.t.Fatal(err)
		}
		in = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.api+path, in)
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+p.token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	if res.StatusCode >= http.StatusBadRequest {
		text, _ := io.ReadAll(res.Body)
		p.t.Fatalf("%s %s: %d %s", method, path, res.StatusCode, text)
	}
	return res
}

// ask sends a request whose response is one JSON object, and returns that
// object.
func (p *player) ask(method, path string, body any) (out map[string]any) {
	p.t.Helper()
	res := p.call(method, path, body)
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil {
		p.t.Fatal(err)
	}
	return out
}

func (p *player) create() string {
	p.t.Helper()
	id, _ := p.ask("POST", "/api/session/create", map[string]any{"cliType": "script", "projectDir": p.home + "/app"})["sessionId"].(string)
	return id
}

func (p *player) send(session, prompt string) {
	p.t.Helper()
	p.ask("POST", "/api/session/"+session+"/send", map[string]any{"content": prompt})
}

// A frame is a frame of a stream of server-sent events.
type frame struct {
	name, text string
	data       []byte
}

// frames reads a stream of server-sent events.
func frames(body io.Reader) func(yield func(frame) bool) {
	return func(yield func(frame) bool) {
		var f frame
		for lines := bufio.NewReader(body); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			if name, ok := strings.CutPrefix(line, "event: "); ok {
				f.name = strings.TrimSpace(name)
			} else if data, ok := strings.CutPrefix(line, "data: "); ok {
				f.data = []byte(data)
			}
			if line == "\n" && f.name != "" {
				if !yield(f) {
					return
				}
				f = frame{}
				continue
			}
			f.text += line
		}
	}
}

// overSSE follows a session in which one turn completes, one fails, one is
// cancelled and the settings change. The stream ends when the server stops.
func (p *player) overSSE() {
	session := p.create()
	res := p.call("GET", "/api/session/"+session+"/events", nil)
	type step struct {
		until string // name of a frame, with a field that it must have
		then  func(map[string]any)
	}
	steps := []step{
		{"stream:open", func(map[string]any) { p.send(session, everything) }},
		{"approval_requested", func(v map[string]any) { p.allow(session, v) }},
		{"response_done payload.status=completed", func(map[string]any) { p.send(session, "fail") }},
		{"response_error", func(map[string]any) { p.send(session, `{"steps":[{"text":"a ","repeat":100000,"rate":1}]}`) }},
		{"item_delta payload.deltaContent=a", func(map[string]any) { p.ask("POST", "/api/session/"+session+"/cancel", map[string]any{}) }},
		{"response_done payload.status=cancelled", nil},
	}
	for f := range frames(res.Body) {
		p.keepEvent(f)
		var v map[string]any
		_ = json.Unmarshal(f.data, &v)
		name, fields, _ := strings.Cut(steps[0].until, " ")
		if trimmed(v); f.name != name || !has(v, strings.Fields(fields)) {
			continue
		}
		if steps[0].then == nil {
			break
		}
		steps[0].then(v)
		steps = steps[1:]
	}
	p.disconnect(res.Body)
}

// trimmed removes the spaces around a delta.
func trimmed(v map[string]any) {
	if payload, ok := v["payload"].(map[string]any); ok {
		if s, ok := payload["deltaContent"].(string); ok {
			payload["deltaContent"] = strings.TrimSpace(s)
		}
	}
}

// keepEvent records a frame of a session's events, and the item in it.
func (p *player) keepEvent(f frame) {
	kind := "event"
	if strings.HasPrefix(f.name, "stream:") {
		kind = "control"
	}
	p.keep(kind, f.name, f.text, f.data)
	var done struct {
		Payload struct{ FinalItem json.RawMessage }
	}
	if err := json.Unmarshal(f.data, &done); err == nil && done.Payload.FinalItem != nil {
		var item struct{ Type string }
		_ = json.Unmarshal(done.Payload.FinalItem, &item)
		p.keep("item", item.Type, pretty(string(done.Payload.FinalItem)), done.Payload.FinalItem)
	}
}

// disconnect reads the stream in the background until the server ends it.
func (p *player) disconnect(body io.ReadCloser) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for f := range frames(body) {
			p.keepEvent(f)
		}
		_ = body.Close()
	}()
	p.streams = append(p.streams, ended)
}

// allow allows the approval in an event or a frame.
func (p *player) allow(session string, v map[string]any) {
	if payload, ok := v["payload"].(map[string]any); ok {
		v = payload
	}
	a, _ := v["approval"].(map[string]any)
	p.ask("POST", fmt.Sprintf("/api/session/%s/approvals/%s", session, a["id"]), map[string]any{"choice": "allow", "argumentsDigest": a["argumentsDigest"]})
}

// overTurn streams a turn that completes and a turn that fails.
func (p *player) overTurn() {
	session := p.create()
	for _, prompt := range []string{everything, "fail"} {
		res := p.call("POST", "/api/harness/turn", map[string]any{"sessionId": session, "message": prompt})
		for f := range frames(res.Body) {
			p.keep("frame", f.name, f.text, f.data)
			if f.name == "permission:request" {
				var v map[string]any
				_ = json.Unmarshal(f.data, &v)
				p.allow(session, v)
			}
		}
		_ = res.Body.Close()
	}
}

// ended waits for the end of a turn.
func (p *player) ended(session string) {
	res := p.call("GET", "/api/session/"+session+"/events", nil)
	defer res.Body.Close()
	for f := range frames(res.Body) {
		if f.name == "response_done" {
			return
		}
	}
}

// ws is a WebSocket whose messages are recorded.
type ws struct {
	*player
	conn *websocket.Conn
}

func (p *player) dial() *ws {
	conn, _, err := websocket.Dial(p.t.Context(), strings.Replace(p.api, "http", "ws", 1)+"/api/ws", &websocket.DialOptions{
		Subprotocols: []string{stream.Subprotocol}, HTTPHeader: http.Header{"Authorization": {"Bearer " + p.token}},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	conn.SetReadLimit(-1)
	return &ws{p, conn}
}

// send sends a message as a client.
func (w *ws) send(typ string, fields map[string]any) {
	w.t.Helper()
	m := map[string]any{"type": typ}
	maps.Copy(m, fields)
	data, err := json.Marshal(m)
	if err != nil {
		w.t.Fatal(err)
	}
	w.keep("client", typ, pretty(string(data)), data)
	if err := w.conn.Write(w.t.Context(), websocket.MessageText, data); err != nil {
		w.t.Fatal(err)
	}
}

// until reads messages up to the first one of the type typ that has all of
// these fields, and returns that one.
func (w *ws) until(typ string, fields ...string) map[string]any {
	w.t.Helper()
	for {
		name, v, err := w.read()
		if err != nil {
			w.t.Fatalf("before %s %v: %v", typ, fields, err)
		}
		if name == typ && has(v, fields) {
			return v
		}
	}
}

// received reads messages until one has been received, now or earlier, of the
// type typ that has all of these fields.
func (w *ws) received(typ string, fields ...string) {
	w.t.Helper()
	isIt := func(e example) bool { return e.name == typ && has(e.value, fields) }
	for !slices.ContainsFunc(w.kept(), isIt) {
		if _, _, err := w.read(); err != nil {
			w.t.Fatalf("before %s %v: %v", typ, fields, err)
		}
	}
}

func (w *ws) read() (string, map[string]any, error) {
	_, data, err := w.conn.Read(w.t.Context())
	if err != nil {
		return "", nil, err
	}
	var v map[string]any
	if err := json.Unmarshal(data, &v); err != nil {
		return "", nil, err
	}
	name, _ := v["type"].(string)
	kind := "server"
	if _, live := stream.Describe().Live[name]; live {
		kind = "live"
	}
	w.keep(kind, name, pretty(string(data)), data)
	return name, v, nil
}

// overWebSocket sends every message of a client, in both families.
func (p *player) overWebSocket() {
	session := p.create()
	p.send(session, "text")
	p.ended(session)
	w := p.dial()
	w.send("session:hello", map[string]any{"streamProtocol": stream.FamilyUpsert})
	w.until("session:hello:ack")
	w.send("sessions:subscribe", map[string]any{"requestId": "1"})
	w.until("response", "requestId=1")
	w.send("session:subscribe", map[string]any{"sessionId": session, "after": 0})
	w.until("session:history", "done=true")
	w.received("session:status", "sessionId="+session, "payload.lastTurn=completed") // before options change it
	w.send("session:options", map[string]any{"requestId": "2", "sessionId": session, "permissionMode": "default"})
	w.until("response", "requestId=2")
	w.send("session:send", map[string]any{"requestId": "3", "sessionId": session, "content": everything, "queue": true})
	a := w.until("session:approval", "payload.status=pending")
	approval, _ := a["payload"].(map[string]any)["approval"].(map[string]any)
	w.send("session:decide", map[string]any{
		"requestId": "4", "sessionId": session, "approvalId": approval["id"], "choice": "allow", "argumentsDigest": approval["argumentsDigest"],
	})
	w.until("session:turn", "payload.type=turn_complete")
	w.send("session:send", map[string]any{"requestId": "5", "sessionId": session, "content": "fail"})
	w.until("session:turn", "payload.type=turn_error")
	w.send("session:send", map[string]any{"requestId": "6", "sessionId": session, "content": "hang"})
	w.until("response", "requestId=6")
	w.send("session:send", map[string]any{"requestId": "7", "sessionId": session, "content": "text"})
	w.until("error", "requestId=7")
	w.queues(session)
	w.send("session:cancel", map[string]any{"requestId": "8", "sessionId": session})
	w.until("session:turn", "payload.status=cancelled")
	p.eventsFamily(session)
	p.appends(session)
	w.send("session:unsubscribe", map[string]any{"requestId": "9", "sessionId": session})
	w.until("response", "requestId=9")
	w.send("session:items", map[string]any{"requestId": "11", "sessionId": session, "before": 12, "limit": 50})
	w.until("response", "requestId=11")
	w.send("session:subscribe", map[string]any{"sessionId": session, "limit": 100})
	w.until("session:history", "done=true")
	w.send("session:subscribe", map[string]any{"sessionId": session, "after": 12})
	w.until("session:history", "done=true")
	w.send("conversations:subscribe", map[string]any{"requestId": "12"})
	w.until("response", "requestId=12")
	p.remember()
	w.until("conversations:changed")
	w.stopped()
	other := p.dial()
	other.send("session:kill", map[string]any{"requestId": "10", "sessionId": p.create()})
	other.until("response", "requestId=10")
	_ = other.conn.CloseNow()
	p.stop()
	for _, ended := range p.streams {
		<-ended
	}
}

// remember writes a conversation as Claude Code stores it.
func (p *player) remember() {
	const id = "95db45f4-491b-4607-9186-876e7b9d13b3"
	dir := filepath.Join(p.home, ".claude", "projects", "-app")
	line := `{"type":"user","uuid":"f34b2631-3856-48bf-a01f-bc8217ab38de","sessionId":"` + id + `","cwd":"/app","timestamp":"2026-01-02T03:04:05.000Z","message":{"role":"user","content":"hi"}}` + "\n"
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, id+".jsonl"), []byte(line), 0o600)); err != nil {
		p.t.Fatal(err)
	}
}

// queues queues two prompts, and edits, lists and removes them.
func (w *ws) queues(session string) {
	var turns []string
	for _, id := range []string{"20", "21"} {
		w.send("session:send", map[string]any{"requestId": id, "sessionId": session, "content": "text", "queue": true})
		sent, _ := w.until("response", "requestId="+id)["result"].(map[string]any)
		turn, _ := sent["turnId"].(string)
		turns = append(turns, turn)
	}
	w.send("session:queue:hold", map[string]any{"requestId": "22", "sessionId": session, "held": true})
	w.until("response", "requestId=22")
	w.send("session:queue:edit", map[string]any{"requestId": "23", "sessionId": session, "turnId": turns[1], "content": "text again", "before": turns[0]})
	w.until("response", "requestId=23")
	w.send("session:queue", map[string]any{"requestId": "24", "sessionId": session})
	w.until("response", "requestId=24")
	for i, turn := range turns {
		id := fmt.Sprint(25 + i)
		w.send("session:queue:remove", map[string]any{"requestId": id, "sessionId": session, "turnId": turn})
		w.until("response", "requestId="+id)
	}
}

// eventsFamily receives one event in the family of canonical events.
func (p *player) eventsFamily(session string) {
	w := p.dial()
	w.send("session:hello", map[string]any{"streamProtocol": stream.FamilyEvents})
	w.send("session:subscribe", map[string]any{"sessionId": session})
	w.until("session:history", "done=true")
	p.send(session, "text")
	w.until("session:event", "type=session:event", "payload.type=response_done")
	_ = w.conn.CloseNow()
}

// slowOutput is a prompt whose tool pauses after each line of its output. The
// server sends a line before the next one is printed.
const slowOutput = `{"steps": [{"tool": {"name": "Bash", "kind": "execute", "arguments": {"command": "make test"},
	"output": "building the program and all of its tests: this takes a while, once\n", "pieces": ["ok main\n", "ok greet\n"], "pieceMs": 1500}}]}`

// appends receives a growing item as appends.
func (p *player) appends(session string) {
	w := p.dial()
	w.send("session:hello", map[string]any{"streamProtocol": stream.FamilyUpsert, "append": true})
	w.until("session:hello:ack", "append=true")
	w.send("session:subscribe", map[string]any{"sessionId": session})
	w.until("session:history", "done=true")
	p.send(session, slowOutput)
	w.until("session:append", "type=session:append")
	_ = w.conn.CloseNow()
}

// stopped reads in the background until the server closes the connection.
func (w *ws) stopped() {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if _, _, err := w.read(); err != nil {
				return
			}
		}
	}()
	w.streams = append(w.streams, ended)
}

// The page about compatibility must name only frames and messages that exist.
func TestNamesOfCompatibilityPageExist(t *testing.T) {
	_, text := page(t, "compatibility.md")
	d, exist := stream.Describe(), make(map[string]bool)
	for _, names := range []map[string]any{d.Payloads, d.Frames, d.Control, d.Client, d.Server, d.Live} {
		for name := range names {
			exist[name] = true
		}
	}
	named := regexp.MustCompile("`((?:session|sessions|chat|reasoning|tool|plan|permission|turn|process|stream):[a-z:]+|(?:item|response|approval)_[a-z]+)`").FindAllStringSubmatch(text, -1)
	if len(named) < 20 {
		t.Errorf("%d names found", len(named))
	}
	for _, m := range named {
		if !exist[m[1]] {
			t.Errorf("%s does not exist", m[1])
		}
	}
}
