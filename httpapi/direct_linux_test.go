package httpapi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/store"
	"github.com/runnel-dev/runnel/store/sqlite"
	"github.com/runnel-dev/runnel/upsert"
)

// A deliveries is a log that counts the batches that readers took in the
// goroutine that appended them.
type deliveries struct {
	*sqlite.Store
	taken atomic.Int64
	left  chan struct{} // holds a value once a reader did not take all
	waits chan struct{} // holds a value once a reader waits for events
}

func (d *deliveries) Deliver(session string, after int64, take func([]event.Event) bool) *store.Delivery {
	delivery := d.Store.Deliver(session, after, func(evs []event.Event) bool {
		more := take(evs)
		if more {
			d.taken.Add(1)
		} else {
			select {
			case d.left <- struct{}{}:
			default:
			}
		}
		return more
	})
	select {
	case d.waits <- struct{}{}:
	default:
	}
	return delivery
}

// A bothSite is served over TCP, where the goroutine that appends an event
// sends it, and over memory, where each stream's own goroutine does.
type bothSite struct {
	*site
	log    *deliveries
	tcp    string       // address
	writes atomic.Int64 // calls over TCP that may wait for the client
}

// A countedListener counts the Write calls of its connections.
type countedListener struct {
	net.Listener
	writes *atomic.Int64
}

type countedConn struct {
	*net.TCPConn
	writes *atomic.Int64
}

func (l countedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return countedConn{c.(*net.TCPConn), l.writes}, nil
}

func (c countedConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.TCPConn.Write(p)
}

func serveBoth(t *testing.T) *bothSite {
	t.Helper()
	edit, st := onDisk(t, filepath.Join(t.TempDir(), "data"))
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &bothSite{log: &deliveries{Store: st, left: make(chan struct{}, 1), waits: make(chan struct{}, 1)}}
	b.site = serve(t, edit, func(_ *Config, g *gateway.Config) { g.Log = b.log })
	b.rig.log = nil
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.tcp = ln.Addr().String()
	done := make(chan struct{})
	go func() { defer close(done); _ = b.http.Serve(b.Limit(countedListener{ln, &b.writes}, 1000, 1000)) }()
	t.Cleanup(func() { _ = ln.Close(); <-done })
	return b
}

// dialBoth connects over TCP and over memory.
func (b *bothSite) dialBoth() [2]net.Conn {
	b.t.Helper()
	over, err := net.Dial("tcp", b.tcp)
	if err != nil {
		b.t.Fatal(err)
	}
	memory, err := b.ln.dial(b.t.Context(), "", "")
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { over.Close(); memory.Close() })
	return [2]net.Conn{over, memory}
}

// request sends a request with a credential. It returns the response.
func (b *bothSite) request(c net.Conn, method, target, body string, headers ...string) (*http.Response, *bufio.Reader) {
	b.t.Helper()
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: own.localhost:7777\r\nAuthorization: Bearer %s\r\n", method, target, b.token)
	if body != "" {
		head += fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	for _, h := range headers {
		head += h + "\r\n"
	}
	go func() { _, _ = io.WriteString(c, head+"\r\n"+body) }()
	r := bufio.NewReader(c)
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return res, r
}

// script has text, reasoning and calls with little pauses, so that most events
// are appended alone.
const pausing = `{"steps":[
	{"reasoning":"first think about it for a while","rate":300},
	{"text":"a text of some words that are sent one by one, with ünïcode 日本語 and \"quotes\"\n","rate":300,"repeat":3},
	{"tool":{"name":"Bash","arguments":{"command":"make"},"pieces":["one\n","two\n","three\n"],"pieceMs":2}},
	{"plan":[{"content":"a","status":"pending"}]},
	{"text":"the end of the answer","rate":300}]}`

// awaitEnd waits until a turn has ended.
func (b *bothSite) awaitEnd(id, turn string) (seq int64) {
	b.t.Helper()
	for at := int64(0); ; {
		grown := b.log.Grown(id, at)
		for ev, err := range b.log.Read(b.t.Context(), id, at) {
			if err != nil {
				b.t.Fatal(err)
			}
			if at = ev.Seq; ev.Turn == turn && event.Ends(ev.Body) {
				return at
			}
		}
		<-grown
	}
}

// readUntil returns what r yields up to and including a text.
func readUntil(t *testing.T, r io.Reader, text string) string {
	t.Helper()
	var all []byte
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadString('\n')
		if all = append(all, line...); err != nil {
			t.Errorf("%v after %q", err, all[max(len(all)-200, 0):])
			return string(all)
		}
		if strings.Contains(line, text) {
			return string(all)
		}
	}
}

// A stream has the same bytes whether the goroutine that appends an event sends
// it or the stream's own.
func TestEventsAreTheSameBytesBothWays(t *testing.T) {
	timed(t, minute)
	b := serveBoth(t)
	id := b.create()
	var bodies [2]string
	var all sync.WaitGroup
	for i, c := range b.dialBoth() {
		res, _ := b.request(c, "GET", "/api/session/"+id+"/events", "")
		all.Go(func() { bodies[i] = readUntil(t, res.Body, `"type":"response_done"`) })
	}
	turn := b.prompt(id, pausing)
	all.Wait()
	if d := cmp.Diff(strings.Split(bodies[1], "\n"), strings.Split(bodies[0], "\n")); d != "" {
		t.Errorf("over TCP and over memory:\n%s", d)
	}
	seq := b.awaitEnd(id, turn)
	if n := strings.Count(bodies[0], "\nid: "); n != int(seq) {
		t.Errorf("%d events in the stream, %d in the log", n, seq)
	}
	b.wantTaken(1)
}

// wantTaken fails the test if fewer batches than least were sent by the
// goroutine that appended them.
func (b *bothSite) wantTaken(least int64) {
	b.t.Helper()
	if n := b.log.taken.Load(); n < least {
		b.t.Errorf("%d batches were sent by the goroutine that appended them, want at least %d", n, least)
	}
}

func TestTurnsHaveTheSameFramesBothWays(t *testing.T) {
	timed(t, minute)
	b := serveBoth(t)
	var frames [2][]sseFrame
	for i, c := range b.dialBoth() {
		body, _ := json.Marshal(map[string]string{"sessionId": b.create(), "message": pausing})
		res, _ := b.request(c, "POST", "/api/harness/turn", string(body))
		data, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		frames[i] = framesOf(data)
	}
	shape := func(list []sseFrame) (out []string) {
		var text strings.Builder
		for _, f := range list {
			out = append(out, fmt.Sprint(f.id, " ", f.name))
			var d struct{ Text string }
			if json.Unmarshal(f.data, &d) == nil && strings.HasSuffix(f.name, "delta") {
				text.WriteString(d.Text)
			}
		}
		return append(out, text.String())
	}
	if d := cmp.Diff(shape(frames[1]), shape(frames[0])); d != "" {
		t.Errorf("over TCP and over memory:\n%s", d)
	}
	b.wantTaken(1)
}

// A wsClient reads the frames of a WebSocket itself, and checks that they are
// whole.
type wsClient struct {
	t *testing.T
	c net.Conn
	r *bufio.Reader
}

func (b *bothSite) webSocket(c net.Conn) *wsClient {
	b.t.Helper()
	_, r := b.request(c, "GET", "/api/ws", "", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
	return &wsClient{b.t, c, r}
}

// write sends a masked frame.
func (w *wsClient) write(op byte, text string) {
	w.t.Helper()
	head := []byte{0x80 | op}
	if len(text) < 126 {
		head = append(head, 0x80|byte(len(text)))
	} else {
		head = append(head, 0x80|126, byte(len(text)>>8), byte(len(text)))
	}
	if _, err := w.c.Write(append(append(head, 0, 0, 0, 0), text...)); err != nil {
		w.t.Error(err)
	}
}

// subscribe opens the connection and subscribes to a session. The answers must
// be read meanwhile.
func (w *wsClient) subscribe(id, hello string) {
	w.write(1, `{"type":"session:hello",`+hello+`}`)
	w.write(1, `{"type":"session:subscribe","sessionId":"`+id+`"}`)
}

// read returns the next frame.
func (w *wsClient) read() (op byte, payload []byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(w.r, head[:]); err != nil {
		return 0, nil, err
	}
	if head[0]&0x80 == 0 || head[0]&0x70 != 0 || head[1]&0x80 != 0 {
		return 0, nil, fmt.Errorf("a frame begins with %x", head)
	}
	size, least, more := uint64(head[1]), uint64(0), 0
	switch size {
	case 126:
		least, more = 126, 2
	case 127:
		least, more = 1<<16, 8
	}
	if more > 0 {
		size = 0
	}
	for range more {
		b, err := w.r.ReadByte()
		if err != nil {
			return 0, nil, err
		}
		size = size<<8 | uint64(b)
	}
	if size < least {
		return 0, nil, fmt.Errorf("the length %d is not in its shortest form", size)
	}
	payload = make([]byte, size)
	_, err = io.ReadFull(w.r, payload)
	return head[0] & 0xf, payload, err
}

// messages returns the messages about the session up to the one for which last
// returns true. It answers nothing.
func (w *wsClient) messages(last func(frame) bool) (list []string, pongs int) {
	for {
		op, payload, err := w.read()
		var f frame
		switch {
		case err != nil:
			w.t.Errorf("after %d messages: %v", len(list), err)
			return list, pongs
		case op == 0xa:
			pongs++
			continue
		case json.Unmarshal(payload, &f) != nil:
			w.t.Errorf("no JSON: %.200q", payload)
			return list, pongs
		case f.Type == "session:status" || f.Type == "session:hello:ack":
			continue
		}
		list = append(list, string(payload))
		if last(f) {
			return list, pongs
		}
	}
}

func isEnd(f frame) bool {
	return f.Type == "session:event" && bytes.Contains(f.Payload, []byte(`"type":"response_done"`))
}

func TestSocketEventsAreTheSameBothWays(t *testing.T) {
	timed(t, minute)
	b := serveBoth(t)
	id := b.create()
	var lists [2][]string
	var all, ready sync.WaitGroup
	for i, c := range b.dialBoth() {
		w := b.webSocket(c)
		go w.subscribe(id, `"streamProtocol":"events-v1"`)
		ready.Add(1)
		all.Go(func() {
			w.messages(func(f frame) bool { return f.Type == "session:history" && f.Done })
			ready.Done()
			go func() {
				for range 50 { // frames of the library stand between those of the events
					w.write(9, "ping")
				}
			}()
			lists[i], _ = w.messages(isEnd)
		})
	}
	ready.Wait()
	b.prompt(id, pausing)
	all.Wait()
	if d := cmp.Diff(lists[1], lists[0]); d != "" {
		t.Errorf("over TCP and over memory:\n%s", d)
	}
	b.wantTaken(1)
}

// The upserts of both ways differ in when an item is sent, but they end in the
// same items.
func TestSocketUpsertsEndInTheSameItemsBothWays(t *testing.T) {
	timed(t, minute)
	for _, appends := range []bool{false, true} {
		b := serveBoth(t)
		id := b.create()
		var items [2]map[string]upsert.Upsert
		var all, ready sync.WaitGroup
		for i, c := range b.dialBoth() {
			w := b.webSocket(c)
			go w.subscribe(id, fmt.Sprintf(`"streamProtocol":"upsert-v1","append":%v`, appends))
			ready.Add(1)
			all.Go(func() {
				w.messages(func(f frame) bool { return f.Type == "session:history" && f.Done })
				ready.Done()
				list, _ := w.messages(func(f frame) bool {
					return f.Type == "session:turn" && bytes.Contains(f.Payload, []byte("turn_complete"))
				})
				items[i] = foldItems(t, list)
			})
		}
		ready.Wait()
		b.prompt(id, pausing)
		all.Wait()
		if d := cmp.Diff(items[1], items[0]); d != "" || len(items[0]) < 5 {
			t.Errorf("over TCP and over memory, %d items:\n%s", len(items[0]), d)
		}
		b.wantTaken(1)
	}
}

// foldItems returns the items that upserts and appends lead to.
func foldItems(t *testing.T, list []string) map[string]upsert.Upsert {
	items := make(map[string]upsert.Upsert)
	for _, text := range list {
		var m struct {
			Type    string
			Payload json.RawMessage
		}
		_ = json.Unmarshal([]byte(text), &m)
		switch m.Type {
		case "session:upsert":
			var u upsert.Upsert
			if err := json.Unmarshal(m.Payload, &u); err != nil {
				t.Error(err)
			}
			u.EmittedAt = time.Time{}
			items[u.ItemID] = u
		case "session:append":
			var a upsert.Append
			_ = json.Unmarshal(m.Payload, &a)
			u := items[a.ItemID]
			if u.Message == nil && u.Thinking == nil {
				continue // the output of a call
			}
			if u.Message != nil {
				if a.Offset != len(u.Message.Content) {
					t.Errorf("append at %d to %d bytes", a.Offset, len(u.Message.Content))
				}
				grown := *u.Message
				grown.Content += a.Text
				u.Message = &grown
			}
			items[a.ItemID] = u
		}
	}
	return items
}

// A client that does not read lets its socket fill up in the middle of a frame.
// Once it reads, it receives every event once.
func TestFullSocketLosesNoEvent(t *testing.T) {
	timed(t, minute)
	for _, way := range []string{"SSE", "WebSocket"} {
		t.Run(way, func(t *testing.T) {
			b := serveBoth(t)
			id := b.create()
			next := b.seqs(way, b.dialBoth()[0], id)
			<-b.log.waits // otherwise the stream's own goroutine may send everything
			var n int64
			text := strings.Repeat("x", 3000)
			for full := false; n < 100_000 && !full; n++ {
				ev := event.Event{Session: id, Seq: n + 1, At: time.Now(), Turn: "t", Body: event.ItemDelta{ItemID: "t:0:0", DeltaContent: text}}
				if err := b.log.Append(t.Context(), id, n, ev); err != nil {
					t.Fatal(err)
				}
				select {
				case <-b.log.left:
					full = true
				default:
				}
			}
			b.wantTaken(100)
			for want := int64(1); want <= n; want++ {
				if seq := next(); seq != want {
					t.Fatalf("event %d follows %d", seq, want-1)
				}
			}
		})
	}
}

// seqs subscribes to the events of a session. It returns a function that
// returns the position of the next one.
func (b *bothSite) seqs(way string, c net.Conn, id string) (next func() int64) {
	b.t.Helper()
	if way == "SSE" {
		res, _ := b.request(c, "GET", "/api/session/"+id+"/events", "")
		r := bufio.NewReader(res.Body)
		if f, err := readFrame(r); err != nil || f.name != "stream:open" {
			b.t.Fatal(f, err)
		}
		return func() int64 {
			f, err := readFrame(r)
			if err != nil {
				b.t.Fatal(err)
			}
			return f.id
		}
	}
	w := b.webSocket(c)
	go w.subscribe(id, `"streamProtocol":"events-v1"`)
	w.messages(func(f frame) bool { return f.Type == "session:history" && f.Done })
	return func() int64 {
		var seq int64
		w.messages(func(f frame) bool {
			var ev struct{ Seq int64 }
			_ = json.Unmarshal(f.Payload, &ev)
			seq = ev.Seq
			return true
		})
		return seq
	}
}

// An event that is too large for the goroutine that appends it is sent by the
// stream's own.
func TestLargeEventsAreSentInOrder(t *testing.T) {
	timed(t, minute)
	for _, way := range []string{"SSE", "WebSocket"} {
		t.Run(way, func(t *testing.T) {
			b := serveBoth(t)
			id := b.create()
			next := b.seqs(way, b.dialBoth()[0], id)
			for n := range int64(30) {
				size := 10
				if n%3 == 2 {
					size = 40_000
				}
				ev := event.Event{Session: id, Seq: n + 1, At: time.Now(), Turn: "t", Body: event.ItemDelta{ItemID: "t:0:0", DeltaContent: strings.Repeat("x", size)}}
				if err := b.log.Append(t.Context(), id, n, ev); err != nil {
					t.Fatal(err)
				}
				if seq := next(); seq != n+1 {
					t.Fatalf("event %d follows %d", seq, n)
				}
			}
			b.wantTaken(1)
			select {
			case <-b.log.left:
			default:
				t.Error("no event was left to the stream")
			}
		})
	}
}

// Events that were appended together are sent together.
func TestBurstNeedsFewWrites(t *testing.T) {
	timed(t, minute)
	for _, way := range []string{"SSE", "WebSocket"} {
		t.Run(way, func(t *testing.T) {
			b := serveBoth(t)
			id := b.create()
			next := b.seqs(way, b.dialBoth()[0], id)
			var evs []event.Event
			for n := range int64(200) {
				evs = append(evs, event.Event{Session: id, Seq: n + 1, At: time.Now(), Turn: "t", Body: event.ItemDelta{ItemID: "t:0:0", DeltaContent: "a word"}})
			}
			before := b.writes.Load()
			if err := b.log.Append(t.Context(), id, 0, evs...); err != nil {
				t.Fatal(err)
			}
			for want := range int64(200) {
				if seq := next(); seq != want+1 {
					t.Fatalf("event %d follows %d", seq, want)
				}
			}
			if n := b.writes.Load() - before; n > 20 {
				t.Errorf("%d events took %d writes", len(evs), n)
			}
		})
	}
}
