package httpapi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
)

// sseEvents decodes the events among frames.
func sseEvents(t *testing.T, frames []sseFrame) (evs []event.Event) {
	t.Helper()
	for _, f := range frames {
		if f.name == "stream:open" {
			continue
		}
		var ev event.Event
		if err := json.Unmarshal(f.data, &ev); err != nil {
			t.Fatal(err)
		}
		if f.id != ev.Seq || f.name != event.Type(ev.Body) {
			t.Fatalf("frame %d %s holds event %d %s", f.id, f.name, ev.Seq, event.Type(ev.Body))
		}
		evs = append(evs, ev)
	}
	return evs
}

// sameLog compares events as JSON: that is what readers get.
func sameLog(t *testing.T, got, want []event.Event) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d events, want %d", len(got), len(want))
	}
	for i := range got {
		g, _ := json.Marshal(got[i])
		w, _ := json.Marshal(want[i])
		if !bytes.Equal(g, w) {
			t.Fatalf("event %d: got %s, want %s", i, g, w)
		}
	}
}

// readSSE reads the events of a session from a position up to one.
func (s *site) readSSE(id string, after, to int64) (evs []event.Event, raw []byte) {
	s.t.Helper()
	res := s.get("/api/session/"+id+"/events", header("Last-Event-ID", fmt.Sprint(after)))
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		s.t.Fatalf("got %d %v", res.StatusCode, res.Header)
	}
	var kept bytes.Buffer
	r := bufio.NewReader(&teeReader{res.Body, &kept})
	var frames []sseFrame
	for {
		f, err := readFrame(r)
		if err != nil {
			s.t.Fatal(err)
		}
		if frames = append(frames, f); f.id >= to || f.name == "stream:open" && after >= to {
			res.Body.Close()
			return sseEvents(s.t, frames), kept.Bytes()
		}
	}
}

type teeReader struct {
	r interface{ Read([]byte) (int, error) }
	w *bytes.Buffer
}

func (t *teeReader) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	t.w.Write(p[:n])
	return n, err
}

func TestG02_EveryCutOfSSE(t *testing.T) {
	timed(t, 30*time.Second)
	s := serve(t)
	id := s.create()
	want := s.events(id, s.prompt(id, burst(190)))
	last := want[len(want)-1].Seq
	whole, raw := s.readSSE(id, 0, last)
	sameLog(t, whole, want)
	// A cut at any byte leaves whole frames and perhaps a part of one, which is
	// none. What the client resumes with depends on the whole ones alone.
	var evs []event.Event
	cursor, boundary, resumed := int64(0), 0, 0
	for cut := range len(raw) + 1 {
		fresh := framesOf(raw[boundary:cut])
		if len(fresh) == 0 && cut > 0 {
			continue
		}
		boundary = cut
		if evs = append(evs, sseEvents(t, fresh)...); len(evs) > 0 {
			cursor = evs[len(evs)-1].Seq
		}
		rest, _ := s.readSSE(id, cursor, last)
		sameLog(t, append(evs[:len(evs):len(evs)], rest...), want)
		resumed++
	}
	if resumed != len(want)+2 { // before anything, after stream:open, after each event
		t.Errorf("the cuts resumed %d times, want %d", resumed, len(want)+2)
	}
}

// history reads a subscription's history and what follows, up to a position.
func (s *site) history(id, family string, after, to int64) (*peer, []json.RawMessage) {
	s.t.Helper()
	p := s.join(family)
	p.say(`{"type":"session:subscribe","sessionId":%q,"after":%d}`, id, after)
	var entries []json.RawMessage
	for {
		f := p.await("session:history", "session:event", "error")
		switch f.Type {
		case "error":
			s.t.Fatalf("got %+v", f.Error)
		case "session:event":
			entries = append(entries, f.Payload)
			f.Seq = seqOf(s.t, f.Payload)
		default:
			entries = append(entries, f.Entries...)
			if !f.Done {
				continue
			}
		}
		if f.Seq >= to {
			return p, entries
		}
	}
}

func seqOf(t *testing.T, data []byte) int64 {
	t.Helper()
	var v struct{ Seq int64 }
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v.Seq
}

func decodeEvents(t *testing.T, entries []json.RawMessage) (evs []event.Event) {
	t.Helper()
	for _, e := range entries {
		var ev event.Event
		if err := json.Unmarshal(e, &ev); err != nil {
			t.Fatal(err)
		}
		evs = append(evs, ev)
	}
	return evs
}

// wsPayloads parses what a server has written after its 101, as far as the
// frames are whole. Ours are unmasked and in one piece.
func wsPayloads(raw []byte) (out [][]byte) {
	i := bytes.Index(raw, []byte("\r\n\r\n"))
	if i < 0 {
		return nil
	}
	raw = raw[i+4:]
	for len(raw) >= 2 {
		n, head := int(raw[1]&0x7F), 2
		switch n {
		case 126:
			head = 4
		case 127:
			head = 10
		}
		if len(raw) < head {
			return out
		}
		if head > 2 {
			n = 0
			for _, b := range raw[2:head] {
				n = n<<8 | int(b)
			}
		}
		if len(raw) < head+n {
			return out
		}
		if raw[0]&0x0F == 1 {
			out = append(out, raw[head:head+n])
		}
		raw = raw[head+n:]
	}
	return out
}

func TestG02_EveryCutOfWebSocketEvents(t *testing.T) {
	timed(t, 30*time.Second)
	s := serve(t)
	id := s.create()
	// Half of it is history, half comes live, event by event.
	first := s.events(id, s.prompt(id, burst(80)))
	p := s.join(familyEvents)
	p.say(`{"type":"session:subscribe","sessionId":%q}`, id)
	for f := p.await("session:history"); !f.Done; f = p.await("session:history") {
	}
	want := s.events(id, s.prompt(id, burst(100)))
	last := want[len(want)-1].Seq
	for seq := int64(len(first)); seq < last; {
		seq = seqOf(t, p.await("session:event").Payload)
	}
	raw := p.raw.bytes()
	var evs []event.Event
	cursor, whole, resumed := int64(0), -1, 0
	for cut := range len(raw) + 1 {
		payloads := wsPayloads(raw[:cut])
		if len(payloads) == whole {
			continue // the same whole messages: the same resumption
		}
		for _, payload := range payloads[max(whole, 0):] {
			var f frame
			if err := json.Unmarshal(payload, &f); err != nil {
				t.Fatal(err)
			}
			switch f.Type {
			case "session:history":
				evs, cursor = append(evs, decodeEvents(t, f.Entries)...), f.Seq
			case "session:event":
				evs, cursor = append(evs, decodeEvents(t, []json.RawMessage{f.Payload})...), seqOf(t, f.Payload)
			}
		}
		whole = len(payloads)
		p, entries := s.history(id, familyEvents, cursor, last)
		_ = p.conn.CloseNow()
		sameLog(t, append(evs[:len(evs):len(evs)], decodeEvents(t, entries)...), want)
		resumed++
	}
	if resumed < 100 {
		t.Errorf("the cuts resumed %d times only", resumed)
	}
}

// A screen is what a page keeps of a session: the newest upsert of each item,
// and everything else by its position.
type screen struct {
	items  map[string]string // without emittedAt and status, which depend on the reader
	others map[string]string
	cursor int64
}

func newScreen() *screen {
	return &screen{items: map[string]string{}, others: map[string]string{}}
}

func (s *screen) show(t *testing.T, typ string, payload json.RawMessage) {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(payload, &m); err != nil {
		t.Fatal(err)
	}
	seq := int64(m["seq"].(float64))
	s.cursor = max(s.cursor, seq)
	delete(m, "emittedAt")
	if typ != "session:upsert" {
		b, _ := json.Marshal(m)
		s.others[fmt.Sprint(typ, seq)] = string(b)
		return
	}
	if st := m["status"]; st == "create" || st == "update" {
		m["status"] = "open"
	}
	b, _ := json.Marshal(m)
	s.items[m["itemId"].(string)] = string(b)
}

func (s *screen) take(t *testing.T, f frame) {
	t.Helper()
	switch f.Type {
	case "session:history":
		for _, e := range f.Entries {
			var en struct {
				Type    string
				Payload json.RawMessage
			}
			if err := json.Unmarshal(e, &en); err != nil {
				t.Fatal(err)
			}
			was := s.cursor
			s.show(t, en.Type, en.Payload)
			s.cursor = was
		}
		s.cursor = f.Seq
	case "session:upsert", "session:turn", "session:approval", "session:notice", "session:usage":
		s.show(t, f.Type, f.Payload)
	}
}

func (s *screen) clone() *screen {
	c := newScreen()
	for k, v := range s.items {
		c.items[k] = v
	}
	for k, v := range s.others {
		c.others[k] = v
	}
	c.cursor = s.cursor
	return c
}

// resume shows what a page that comes back with a cursor gets.
func (s *site) resume(id string, sc *screen) {
	s.t.Helper()
	p := s.dial()
	p.say(`{"type":"session:subscribe","sessionId":%q,"after":%d}`, id, sc.cursor)
	for {
		f := p.await("session:history")
		sc.take(s.t, f)
		if f.Done {
			_ = p.conn.CloseNow()
			return
		}
	}
}

func TestG02_EveryCutOfWebSocketUpserts(t *testing.T) {
	timed(t, 30*time.Second)
	s := serve(t)
	id := s.create()
	s.events(id, s.prompt(id, "tools"))
	p := s.dial()
	p.say(`{"type":"session:subscribe","sessionId":%q}`, id)
	for f := p.await("session:history"); !f.Done; f = p.await("session:history") {
	}
	for _, prompt := range []string{"tools", burst(150)} {
		s.prompt(id, prompt)
		for f := p.await("session:turn"); !bytes.Contains(f.Payload, []byte("turn_complete")); f = p.await("session:turn") {
		}
	}
	want := newScreen()
	s.resume(id, want)
	raw := p.raw.bytes()
	shown, before := newScreen(), 0
	checked := map[string]bool{}
	for cut := range len(raw) + 1 {
		payloads := wsPayloads(raw[:cut])
		for _, payload := range payloads[before:] {
			var f frame
			if err := json.Unmarshal(payload, &f); err != nil {
				t.Fatal(err)
			}
			shown.take(t, f)
		}
		if before = len(payloads); checked[fmt.Sprint(before)] {
			continue // the same whole frames: the same resumption
		}
		checked[fmt.Sprint(before)] = true
		got := shown.clone()
		s.resume(id, got)
		if d := cmp.Diff(want.items, got.items); d != "" {
			t.Fatalf("cut at byte %d: items (-want +got):\n%s", cut, d)
		}
		if d := cmp.Diff(want.others, got.others); d != "" {
			t.Fatalf("cut at byte %d: others (-want +got):\n%s", cut, d)
		}
	}
	if len(checked) < 10 {
		t.Errorf("only %d different cuts", len(checked))
	}
}

func TestG03_CursorEdge(t *testing.T) {
	timed(t, 30*time.Second)
	s := serve(t)
	id, other := s.create(), s.create()
	want := s.events(id, s.prompt(id, "text"))
	last := want[len(want)-1].Seq
	for _, after := range []int64{0, 1, last - 1} {
		got, _ := s.readSSE(id, after, last)
		sameLog(t, got, want[after:])
	}
	for name, tt := range map[string]struct {
		id, after string
		status    string
		first     int64
	}{
		"at the end":          {id, fmt.Sprint(last), "ok", 0},
		"beyond the end":      {id, fmt.Sprint(last + 1), "reset", 1},
		"far beyond":          {id, "9223372036854775807", "reset", 1},
		"of another session":  {other, fmt.Sprint(last), "reset", 0},
		"the header wins":     {id, "1", "ok", 2},
		"nothing is its zero": {id, "", "ok", 1},
	} {
		req := s.get("/api/session/"+tt.id+"/events?after=7777777", func(r *http.Request) {
			r.Header.Set("Last-Event-ID", tt.after)
			if tt.after == "" {
				r.URL.RawQuery = ""
			}
		})
		r := bufio.NewReader(req.Body)
		f, err := readFrame(r)
		var open openedFrame
		if err != nil || f.name != "stream:open" || f.id != 0 || json.Unmarshal(f.data, &open) != nil || open.Resume.Status != tt.status {
			t.Errorf("%s: opened with %d %s %s, %v", name, f.id, f.name, f.data, err)
			continue
		}
		if tt.first > 0 {
			if f, err := readFrame(r); err != nil || f.id != tt.first {
				t.Errorf("%s: began at %d, %v, want %d", name, f.id, err, tt.first)
			}
		}
		req.Body.Close()
	}
	for _, after := range []string{"-1", "x", "1.5", "9223372036854775808", "0x10", "1e3", " 1", "١"} {
		for _, route := range []string{"events", "items"} {
			w := s.do("GET", "/api/session/"+id+"/"+route, "", func(r *http.Request) {
				q := r.URL.Query()
				q.Set("after", after)
				r.URL.RawQuery = q.Encode()
			})
			if w.Code != 400 || code(w) != "INVALID_REQUEST" {
				t.Errorf("%s?after=%s: got %d %s", route, after, w.Code, w.Body)
			}
		}
	}
	// Another filter does not renumber: items and events share their positions.
	ans := call[itemsAnswer](s.rig, "GET", "/api/session/"+id+"/items?after=1&limit=1", "", 200)
	if ans.Seq != last || ans.More {
		t.Errorf("items end at %d, more %v", ans.Seq, ans.More)
	}
	if w := s.do("GET", "/api/session/0b5d3c1e-0000-7000-8000-000000000000/events", ""); w.Code != 404 {
		t.Errorf("no such session: %d", w.Code)
	}
}

func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		id := s.create()
		res := s.get("/api/session/" + id + "/events")
		r := bufio.NewReader(res.Body)
		if f, err := readFrame(r); err != nil || f.name != "stream:open" {
			t.Fatalf("%+v, %v", f, err)
		}
		for range 3 {
			began := time.Now()
			line, err := r.ReadString('\n')
			if err != nil || !strings.HasPrefix(line, ":") {
				t.Fatalf("%q, %v", line, err)
			}
			if took := time.Since(began); took > 15*time.Second {
				t.Errorf("silent for %v", took)
			}
			_, _ = r.ReadString('\n')
		}
		res.Body.Close()
	})
}

func TestG13_HelloFamily(t *testing.T) {
	timed(t, 30*time.Second)
	s := serve(t)
	id := s.create()

	p := s.dial()
	if p.conn.Subprotocol() != subprotocol {
		t.Errorf("subprotocol %q", p.conn.Subprotocol())
	}
	p.say(`{"type":"session:hello","streamProtocol":"events-v1"}`)
	if f := p.hear(); f.Type != "session:hello:ack" || f.Selected != "events-v1" || len(f.Protocols) != 2 {
		t.Errorf("got %+v", f)
	}
	p.say(`{"type":"session:hello","requestId":"h","streamProtocol":"upsert-v1"}`)
	if f := p.hear(); f.Type != "error" || f.RequestID != "h" || f.Error.Type != "INVALID_REQUEST" {
		t.Errorf("a second hello: %+v", f)
	}
	p.say(`{"type":"session:subscribe","sessionId":%q}`, id)
	for f := p.hear(); !f.Done; f = p.hear() {
		if f.Type != "session:history" && f.Type != "session:status" {
			t.Fatalf("got %+v", f)
		}
	}
	turn := s.prompt(id, "tools")
	for f := p.hear(); ; f = p.hear() {
		if f.Type == "session:status" {
			continue
		}
		if f.Type != "session:event" {
			t.Fatalf("%s in events-v1", f.Type)
		}
		if bytes.Contains(f.Payload, []byte("response_done")) {
			break
		}
	}

	p = s.dial() // without a hello it is the default, for life
	p.say(`{"type":"session:subscribe","sessionId":%q}`, id)
	for f := p.hear(); !f.Done; f = p.hear() {
	}
	p.say(`{"type":"session:hello","requestId":"late","streamProtocol":"events-v1"}`)
	if f := p.await("error"); f.RequestID != "late" {
		t.Errorf("a late hello: %+v", f)
	}
	turn = s.prompt(id, "text")
	for f := p.hear(); ; f = p.hear() {
		if f.Type == "session:event" || f.Type == "session:hello:ack" {
			t.Fatalf("%s in upsert-v1", f.Type)
		}
		if f.Type == "session:turn" && bytes.Contains(f.Payload, []byte(turn)) && bytes.Contains(f.Payload, []byte("turn_complete")) {
			break
		}
	}

	for _, hello := range []string{`"streamProtocol":"upsert-v2"`, `"streamProtocol":"legacy"`, `"streamProtocol":"UPSERT-V1"`} {
		p = s.dial()
		p.say(`{"type":"session:hello",%s}`, hello)
		if f := p.hear(); f.Type != "error" || f.Error.Type != "INVALID_REQUEST" {
			t.Errorf("%s: %+v", hello, f)
		}
		if c := p.closed(); c != closeBadRequest {
			t.Errorf("%s: closed with %d", hello, c)
		}
	}
	body := s.do("GET", "/metrics", "").Body.String()
	for _, line := range []string{
		`runnel_stream_connections_total{family="events-v1"} 1`, `runnel_stream_connections_total{family="upsert-v1"} 1`,
		`runnel_stream_messages_total{family="events-v1"}`,
	} {
		if !strings.Contains(body, line) {
			t.Errorf("no %s in the metrics", line)
		}
	}
}

func TestB02_RebindWebSocket(t *testing.T) {
	timed(t, 30*time.Second)
	s := serve(t)
	set := func(k, v string) func(http.Header) { return func(h http.Header) { h.Set(k, v) } }
	for name, edit := range map[string][]func(http.Header){
		"rebound":             {set("X-Test-Host", "evil.example:7777"), set("Origin", "http://evil.example:7777")},
		"rebound, no Origin":  {set("X-Test-Host", "evil.example:7777")},
		"evil Origin":         {set("Origin", "http://evil.example")},
		"null Origin":         {set("Origin", "null")},
		"other port":          {set("Origin", "http://localhost:3000")},
		"cross-site metadata": {set("Sec-Fetch-Site", "cross-site"), set("Sec-Fetch-Mode", "websocket")},
		"no credential":       {func(h http.Header) { h.Del("Authorization") }},
	} {
		p, res, err := s.tryDial(edit...)
		if err == nil {
			_ = p.conn.CloseNow()
			t.Errorf("%s: 101", name)
		} else if res == nil || res.StatusCode != 403 && res.StatusCode != 401 {
			t.Errorf("%s: %v %v", name, res, err)
		}
	}
	p := s.dial(set("Origin", "http://localhost:7777"))
	p.say(`{"type":"session:hello"}`)
	if f := p.hear(); f.Type != "session:hello:ack" {
		t.Errorf("our own page: %+v", f)
	}
}

func TestA08_WebSocketVerbsNeedScopes(t *testing.T) {
	timed(t, 30*time.Second)
	s := serve(t)
	id := s.create()
	s.token = s.mint(auth.Read)
	p := s.dial()
	p.say(`{"type":"session:hello","requestId":"h","scopes":["admin"]}`)
	if f := p.hear(); f.Type != "error" {
		t.Errorf("scopes in the hello: %+v", f)
	}
	for i, m := range []string{
		`"type":"session:send","content":"text"`, `"type":"session:cancel"`, `"type":"session:kill"`, `"type":"session:options","model":"m"`,
		`"type":"session:decide","approvalId":"a","choice":"allow"`,
	} {
		p.say(`{%s,"requestId":"%d","sessionId":%q}`, m, i, id)
		if f := p.hear(); f.Type != "error" || f.RequestID != fmt.Sprint(i) || f.Error.Type != "FORBIDDEN" {
			t.Errorf("%s: %+v", m, f)
		}
	}
}

func TestA09_RevokeClosesStreams(t *testing.T) {
	timed(t, 30*time.Second)
	s := serve(t)
	id := s.create()
	secret, tok, err := s.keyed.Create(t.Context(), "gone", []auth.Scope{auth.Read}, 0)
	if err != nil {
		t.Fatal(err)
	}
	admin := s.token
	s.token = secret
	p := s.dial()
	p.say(`{"type":"session:subscribe","sessionId":%q}`, id)
	for f := p.hear(); !f.Done; f = p.hear() {
	}
	sse := s.get("/api/session/" + id + "/events")
	r := bufio.NewReader(sse.Body)
	if _, err := readFrame(r); err != nil {
		t.Fatal(err)
	}
	s.token = admin
	began := time.Now()
	call[empty](s.rig, "POST", "/api/tokens/"+tok.ID+"/revoke", "{}", 200)
	s.prompt(id, "text")
	for {
		f, err := p.tryHear()
		if err != nil {
			if c := websocket.CloseStatus(err); c != closeCredential {
				t.Errorf("closed with %d", c)
			}
			break
		}
		if f.Type == "session:upsert" || f.Type == "session:turn" {
			t.Errorf("got %s after the end of the credential", f.Type)
		}
	}
	for {
		f, err := readFrame(r)
		if err != nil {
			break
		}
		if strings.HasPrefix(f.name, "item_") {
			t.Errorf("got %s after the end of the credential", f.name)
		}
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("took %v", took)
	}
}

func TestG08_StalledForever(t *testing.T) {
	timed(t, 30*time.Second)
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		id := s.create()
		p := s.dial()
		p.say(`{"type":"session:subscribe","sessionId":%q}`, id)
		for f := p.hear(); !f.Done; f = p.hear() {
		}
		began := time.Now()
		turn := s.prompt(id, `{"steps":[{"text":"a ","repeat":5000}]}`) // and nobody reads
		evs := s.events(id, turn)
		if took := time.Since(began); took > time.Second {
			t.Errorf("the turn took %v: it waited for its reader", took)
		}
		<-time.After(30 * time.Second)
		synctest.Wait()
		s.streams.mu.Lock()
		open := s.streams.n
		s.streams.mu.Unlock()
		if open != 0 {
			t.Error("the stalled connection is still open")
		}
		if !strings.Contains(s.do("GET", "/metrics", "").Body.String(), "runnel_streams_stalled_total 1") {
			t.Error("it was not counted")
		}
		_ = evs
	})
}

// A reader that comes and goes sees what one that stays sees.
func TestG01_TwoClientsOneReconnecting(t *testing.T) {
	timed(t, 2*time.Minute)
	s := serve(t)
	id := s.create()
	const turns = 20
	done := make(chan int64, 1) // the last position
	read := func(rng *rand.Rand) (evs []event.Event) {
		after, last := int64(0), int64(-1)
		for last < 0 || after < last {
			p := s.join(familyEvents)
			p.say(`{"type":"session:subscribe","sessionId":%q,"after":%d}`, id, after)
			for n := 1 << 30; n > 0 && (last < 0 || after < last); n-- {
				if rng != nil && n == 1<<30 {
					n = rng.IntN(60) + 1
				}
				f := p.hear()
				for _, ev := range decodeEvents(t, f.Entries) {
					evs, after = append(evs, ev), ev.Seq
				}
				if f.Type == "session:event" {
					got := decodeEvents(t, []json.RawMessage{f.Payload})
					evs, after = append(evs, got...), got[0].Seq
				}
				if last < 0 {
					select {
					case last = <-done:
						done <- last
					default:
					}
				}
			}
			_ = p.conn.CloseNow()
		}
		return evs
	}
	var both sync.WaitGroup
	var stays, comesAndGoes []event.Event
	both.Go(func() { stays = read(nil) })
	both.Go(func() { comesAndGoes = read(rand.New(rand.NewPCG(1, 2))) })
	var want []event.Event
	for i := range turns {
		if i == turns-1 { // the number of events of a turn is known from those before
			n := int64(len(want))
			done <- n + n/int64(i)/2
		}
		want = s.events(id, s.prompt(id, burst(40)))
	}
	both.Wait()
	sameLog(t, stays, want[:len(stays)])
	sameLog(t, comesAndGoes, want[:len(comesAndGoes)])
	if n := <-done; int64(len(stays)) < n || int64(len(comesAndGoes)) < n {
		t.Errorf("saw %d and %d events, want at least %d", len(stays), len(comesAndGoes), n)
	}
}

func TestG12_FiftyTabs(t *testing.T) {
	timed(t, 30*time.Second)
	s := serve(t)
	id := s.create()
	const tabs = 50
	seen := make([][]string, tabs)
	var ready, finished sync.WaitGroup
	ready.Add(tabs)
	for i := range tabs {
		p := s.join(familyEvents)
		finished.Go(func() {
			p.say(`{"type":"session:subscribe","sessionId":%q}`, id)
			for f := p.hear(); !f.Done; f = p.hear() {
			}
			ready.Done()
			for {
				f := p.await("session:event")
				seen[i] = append(seen[i], string(f.Payload))
				if bytes.Contains(f.Payload, []byte("response_done")) {
					return
				}
			}
		})
	}
	ready.Wait()
	s.prompt(id, burst(50))
	finished.Wait()
	for i := range tabs {
		if d := cmp.Diff(seen[0], seen[i]); d != "" {
			t.Fatalf("tab %d differs from tab 0: %s", i, d)
		}
	}
}

func TestWatchSessions(t *testing.T) {
	timed(t, 30*time.Second)
	s := serve(t)
	first := s.create()
	p := s.dial()
	p.say(`{"type":"sessions:subscribe","requestId":"w"}`)
	status := func() gateway.Status {
		var st gateway.Status
		if err := json.Unmarshal(p.await("session:status").Payload, &st); err != nil {
			t.Fatal(err)
		}
		return st
	}
	if st := status(); st.SessionID != first || st.Activity != "idle" {
		t.Errorf("at once: %+v", st)
	}
	second := s.create()
	for st := status(); st.SessionID != second; st = status() {
	}
	s.prompt(second, "approve")
	for st := status(); len(st.PendingApprovals) != 1 || st.Activity != "waiting" || st.Title != "approve"; st = status() {
	}
	call[empty](s.rig, "POST", "/api/session/"+second+"/kill", "", 200)
	for st := status(); st.State != "dead"; st = status() {
	}
	call[okAnswer](s.rig, "DELETE", "/api/harness/session/"+first, "", 200)
	for st := status(); st.SessionID != first || st.State != "dead"; st = status() {
	}
}

func TestG16_ShutdownEndsStreams(t *testing.T) {
	timed(t, 30*time.Second)
	s := serve(t)
	ids := make([]string, 10)
	for i := range ids {
		ids[i] = s.create()
		s.prompt(ids[i], "hang")
	}
	peers := make([]*peer, 50)
	for i := range peers {
		peers[i] = s.join(familyEvents)
		peers[i].say(`{"type":"session:subscribe","sessionId":%q}`, ids[i%len(ids)])
	}
	began := time.Now()
	var all sync.WaitGroup
	for _, p := range peers {
		all.Go(func() {
			for {
				if _, err := p.tryHear(); err != nil {
					if c := websocket.CloseStatus(err); c != websocket.StatusGoingAway {
						t.Errorf("closed with %d: %v", c, err)
					}
					return
				}
			}
		})
	}
	if err := s.gw.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.EndStreams(t.Context()); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
	for _, id := range ids {
		if st, _ := s.log.State(t.Context(), id); len(st.Open) != 0 {
			t.Errorf("the turn of %s has no end", id)
		}
	}
}
