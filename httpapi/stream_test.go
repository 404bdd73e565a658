package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/stream"
	"github.com/runnel-dev/runnel/upsert"
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

// sameLog compares events in their JSON form, which readers get.
func sameLog(t *testing.T, got, want []event.Event) {
	t.Helper()
	sameLines(t, linesOf(got), linesOf(want))
}

// linesOf returns the JSON forms of events.
func linesOf(evs []event.Event) [][]byte {
	lines := make([][]byte, len(evs))
	for i := range evs {
		lines[i], _ = json.Marshal(evs[i])
	}
	return lines
}

func sameLines(t *testing.T, got, want [][]byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d events, want %d", len(got), len(want))
	}
	for i := range got {
		if !bytes.Equal(got[i], want[i]) {
			t.Fatalf("event %d: got %s, want %s", i, got[i], want[i])
		}
	}
}

// readSSE reads the events of a session after position after, up to position
// to. raw has the bytes of the stream.
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

// A client whose stream is cut at any byte resumes and gets every event once.
func TestEveryCutOfSSE(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	want := s.events(id, s.prompt(id, burst(190)))
	last := want[len(want)-1].Seq
	whole, raw := s.readSSE(id, 0, last)
	sameLog(t, whole, want)
	// A cut at any byte leaves whole frames and perhaps a part of one, which is
	// dropped. The client resumes by the whole frames only, and a frame ends with
	// an empty line.
	wanted := linesOf(want)
	var got [][]byte
	cursor, boundary, resumed := int64(0), 0, 0
	for cut := range len(raw) + 1 {
		if cut > 0 && !bytes.HasSuffix(raw[:cut], []byte("\n\n")) {
			continue
		}
		fresh := framesOf(raw[boundary:cut])
		if len(fresh) == 0 && cut > 0 {
			continue
		}
		evs := sseEvents(t, fresh)
		boundary = cut
		if got = append(got, linesOf(evs)...); len(evs) > 0 {
			cursor = evs[len(evs)-1].Seq
		}
		rest, _ := s.readSSE(id, cursor, last)
		sameLines(t, append(got[:len(got):len(got)], linesOf(rest)...), wanted)
		resumed++
	}
	if resumed != len(want)+2 { // before the first frame, after stream:open, and after each event
		t.Errorf("the cuts resumed %d times, want %d", resumed, len(want)+2)
	}
}

// history reads a subscription's history and its live messages, up to a
// position.
func (s *site) history(id, family string, after, to int64) (*peer, []json.RawMessage) {
	s.t.Helper()
	p := s.join(family)
	p.send(`{"type":"session:subscribe","sessionId":%q,"after":%d}`, id, after)
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

// wsPayloads parses the whole frames that a server has written after its 101.
// The server's frames are unmasked and unfragmented. ends are the positions at
// which a frame with a payload ends. A cut between two of them leaves the same
// payloads as a cut at the first.
func wsPayloads(raw []byte) (out [][]byte, ends []int) {
	i := bytes.Index(raw, []byte("\r\n\r\n"))
	if i < 0 {
		return nil, nil
	}
	whole := len(raw)
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
			return out, ends
		}
		if head > 2 {
			n = 0
			for _, b := range raw[2:head] {
				n = n<<8 | int(b)
			}
		}
		if len(raw) < head+n {
			return out, ends
		}
		payload, isText := raw[head:head+n], raw[0]&0x0F == 1
		raw = raw[head+n:]
		if isText {
			out, ends = append(out, payload), append(ends, whole-len(raw))
		}
	}
	return out, ends
}

// As TestEveryCutOfSSE, for events on the WebSocket.
func TestEveryCutOfWebSocketEvents(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	// Half of the events are history, half are sent live, one by one.
	first := s.events(id, s.prompt(id, burst(80)))
	p := s.join(stream.FamilyEvents)
	p.send(`{"type":"session:subscribe","sessionId":%q}`, id)
	for f := p.await("session:history"); !f.Done; f = p.await("session:history") {
	}
	want := s.events(id, s.prompt(id, burst(100)))
	last := want[len(want)-1].Seq
	for seq := int64(len(first)); seq < last; {
		seq = seqOf(t, p.await("session:event").Payload)
	}
	raw := p.raw.bytes()
	wanted := linesOf(want)
	var got [][]byte
	cursor, whole, resumed := int64(0), 0, 0
	_, ends := wsPayloads(raw)
	for _, cut := range append([]int{0}, ends...) {
		payloads, _ := wsPayloads(raw[:cut])
		for _, payload := range payloads[whole:] {
			var f frame
			if err := json.Unmarshal(payload, &f); err != nil {
				t.Fatal(err)
			}
			switch f.Type {
			case "session:history":
				got, cursor = append(got, linesOf(decodeEvents(t, f.Entries))...), f.Seq
			case "session:event":
				got, cursor = append(got, linesOf(decodeEvents(t, []json.RawMessage{f.Payload}))...), seqOf(t, f.Payload)
			}
		}
		whole = len(payloads)
		p, entries := s.history(id, stream.FamilyEvents, cursor, last)
		_ = p.conn.CloseNow()
		sameLines(t, append(got[:len(got):len(got)], linesOf(decodeEvents(t, entries))...), wanted)
		resumed++
	}
	if resumed < 100 {
		t.Errorf("the cuts resumed %d times only", resumed)
	}
}

// A screen is a page's copy of a session: the newest upsert of each item, and
// everything else by its position.
type screen struct {
	items   map[string]string // without emittedAt and status, which depend on the reader
	upserts map[string]upsert.Upsert
	others  map[string]string
	cursor  int64
	appends int // number of appends that were applied
}

func newScreen() *screen {
	return &screen{items: map[string]string{}, upserts: map[string]upsert.Upsert{}, others: map[string]string{}}
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
	if typ == "session:append" {
		s.extend(t, payload)
		return
	}
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
	var u upsert.Upsert
	if err := json.Unmarshal(payload, &u); err != nil {
		t.Fatal(err)
	}
	s.upserts[u.ItemID] = u
}

// extend applies an append to the item that the page has.
func (s *screen) extend(t *testing.T, payload json.RawMessage) {
	t.Helper()
	var a upsert.Append
	if err := json.Unmarshal(payload, &a); err != nil {
		t.Fatal(err)
	}
	u, ok := a.To(s.upserts[a.ItemID])
	if !ok {
		t.Fatalf("the page has %+v, which %+v does not continue", s.upserts[a.ItemID], a)
	}
	s.upserts[a.ItemID] = u
	s.appends++
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
	case "session:upsert", "session:append", "session:turn", "session:approval", "session:notice", "session:usage":
		s.show(t, f.Type, f.Payload)
	}
}

func (s *screen) clone() *screen {
	c := newScreen()
	maps.Copy(c.items, s.items)
	maps.Copy(c.upserts, s.upserts)
	maps.Copy(c.others, s.others)
	c.cursor = s.cursor
	return c
}

// resume applies what a page gets that resumes with a cursor.
func (s *site) resume(id string, sc *screen) {
	s.t.Helper()
	p := s.dial()
	p.send(`{"type":"session:subscribe","sessionId":%q,"after":%d}`, id, sc.cursor)
	for {
		f := p.await("session:history")
		sc.take(s.t, f)
		if f.Done {
			_ = p.conn.CloseNow()
			return
		}
	}
}

// As TestEveryCutOfSSE, for whole items on the WebSocket.
func TestEveryCutOfWebSocketUpserts(t *testing.T) { everyCut(t, false) }

func TestEveryCutOfWebSocketAppends(t *testing.T) { everyCut(t, true) }

// everyCut cuts the stream of a client of whole items at every byte. Wherever
// the cut is, the client has the same session after it has resumed.
func everyCut(t *testing.T, appends bool) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	s.events(id, s.prompt(id, "tools"))
	p := s.dial()
	p.send(`{"type":"session:hello","append":%v}`, appends)
	p.await("session:hello:ack")
	p.send(`{"type":"session:subscribe","sessionId":%q}`, id)
	for f := p.await("session:history"); !f.Done; f = p.await("session:history") {
	}
	for _, prompt := range []string{"tools", burst(150), `{"steps":[{"text":"word ","repeat":300,"rate":2000}]}`} {
		s.prompt(id, prompt)
		for f := p.await("session:turn"); !bytes.Contains(f.Payload, []byte("turn_complete")); f = p.await("session:turn") {
		}
	}
	want := newScreen()
	s.resume(id, want)
	raw := p.raw.bytes()
	shown, before := newScreen(), 0
	checked := 0
	_, ends := wsPayloads(raw)
	for _, cut := range append([]int{0}, ends...) {
		payloads, _ := wsPayloads(raw[:cut])
		for _, payload := range payloads[before:] {
			var f frame
			if err := json.Unmarshal(payload, &f); err != nil {
				t.Fatal(err)
			}
			shown.take(t, f)
		}
		before = len(payloads)
		checked++
		got := shown.clone()
		s.resume(id, got)
		if d := cmp.Diff(want.items, got.items); d != "" {
			t.Fatalf("cut at byte %d: items (-want +got):\n%s", cut, d)
		}
		if d := cmp.Diff(want.others, got.others); d != "" {
			t.Fatalf("cut at byte %d: others (-want +got):\n%s", cut, d)
		}
	}
	if checked < 10 {
		t.Errorf("only %d different cuts", checked)
	}
	if appends != (shown.appends > 0) {
		t.Errorf("%d appends were received", shown.appends)
	}
}

func TestAppendsNeedTheFamilyOfItems(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	p := s.dial()
	p.send(`{"type":"session:hello","requestId":"1","streamProtocol":"events-v1","append":true}`)
	if f := p.receive(); f.Type != "error" || f.Error.Type != "INVALID_REQUEST" || !strings.Contains(f.Error.Message, "append") {
		t.Errorf("appends of events: %+v", f)
	}
	p.send(`{"type":"session:hello","streamProtocol":"upsert-v1","append":true}`) // nothing was chosen by the refused message
	if f := p.receive(); f.Type != "session:hello:ack" || f.Selected != "upsert-v1" || !f.Append {
		t.Errorf("got %+v", f)
	}
}

// A stream begins after the client's cursor. A cursor that the log does not
// have is reset, and one that is not a number is rejected.
func TestCursorAtTheEdges(t *testing.T) {
	timed(t, minute)
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
		var open frame
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
	// Items and events share their positions: reading items does not renumber.
	ans := call[stream.ItemsAnswer](s.rig, "GET", "/api/session/"+id+"/items?after=1&limit=1", "", 200)
	if ans.Seq != last || ans.More {
		t.Errorf("items end at %d, more %v", ans.Seq, ans.More)
	}
	if w := s.do("GET", "/api/session/0b5d3c1e-0000-7000-8000-000000000000/events", ""); w.Code != 404 {
		t.Errorf("no such session: %d", w.Code)
	}
}

// bothVersions runs a test in virtual time over HTTP/1.1 and over HTTP/2.
func bothVersions(t *testing.T, test func(t *testing.T, version int)) {
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprint("HTTP", version), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, version) })
		})
	}
}

func TestHeartbeat(t *testing.T) {
	bothVersions(t, func(t *testing.T, version int) {
		s := serveOver(t, version)
		id := s.create()
		res := s.get("/api/session/" + id + "/events")
		if res.ProtoMajor != version {
			t.Fatalf("over %s", res.Proto)
		}
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

// A lateAgent takes 50 s to start.
type lateAgent struct{ silentAgent }

func (lateAgent) Name() string { return "late" }

func (a lateAgent) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	select {
	case <-time.After(50 * time.Second): // longer than the deadline for writing an answer
		return a.silentAgent.Open(ctx, opt)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestAnswerWaitsForAnAgentThatStartsSlowly(t *testing.T) {
	bothVersions(t, func(t *testing.T, version int) {
		s := serveOver(t, version, func(_ *Config, g *gateway.Config) { g.Providers = append(g.Providers, lateAgent{}) })
		began := time.Now()
		res := s.roundTrip("POST", "/api/harness/session/create", fmt.Sprintf(`{"cliType":"late","projectRoot":%q}`, s.dir))
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK || time.Since(began) < 50*time.Second {
			t.Errorf("after %v: %d %s %v", time.Since(began), res.StatusCode, body, err)
		}
	})
}
