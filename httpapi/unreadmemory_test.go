package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/stream"
	"github.com/runnel-dev/runnel/internal/testload"
)

// maxUnread is the memory, in bytes, that the server may hold for a
// subscription whose client does not read.
const maxUnread = 64 << 10

// raced is set under the race detector, which takes memory of its own for every
// goroutine.
var raced bool

// TestUnreadSubscriptionHoldsAtMost64KB opens subscriptions whose clients do
// not read, and measures the memory that the server holds for each of them once
// its write has been blocked for a few seconds.
func TestUnreadSubscriptionHoldsAtMost64KB(t *testing.T) {
	testload.TakesLong(t)
	if raced {
		t.Skip("the race detector takes memory of its own")
	}
	tool := func(size int) string {
		return fmt.Sprintf(`{"name":"Bash","arguments":{"n":1},"output":%q}`, strings.Repeat("word ", size/5))
	}
	many := func(n int, s string) string { return strings.TrimSuffix(strings.Repeat(s+",", n), ",") }
	scale := 1 // each client reads and decodes all items
	if os.Getenv("RUNNEL_LONG") != "" {
		scale = 3
	}
	for name, script := range map[string]string{
		"many items of a turn": `{"steps":[` + many(500*scale, `{"tool":`+tool(50)+`}`) + `,{"hang":true}]}`,
		"items that overlap":   `{"steps":[{"tools":[` + many(100*scale, tool(3000)) + `]},{"hang":true}]}`,
		"one growing item":     `{"steps":[{"text":"word ","repeat":4000},{"hang":true}]}`,
		"items of 22 KB":       `{"steps":[` + many(25, `{"tool":`+tool(22_000)+`}`) + `,{"hang":true}]}`,
	} {
		for _, family := range stream.Families() {
			for _, live := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/live=%t", name, family, live), func(t *testing.T) {
					timed(t, minute)
					synctest.Test(t, func(t *testing.T) { unreadSubscriptions(t, family, script, live, 0) })
				})
			}
		}
		t.Run(name+"/from the end", func(t *testing.T) {
			timed(t, minute)
			synctest.Test(t, func(t *testing.T) { unreadSubscriptions(t, stream.FamilyUpsert, script, false, 1000) })
		})
	}
}

// unreadSubscriptions measures subscriptions that get only about limit entries
// of the history, unless limit is 0.
func unreadSubscriptions(t *testing.T, family, script string, live bool, limit int) {
	clients := 30
	if testing.Short() {
		clients = 15
	}
	s := serve(t, func(_ *Config, g *gateway.Config) {
		g.StallTimeout = -1
		g.Log = decoding{g.Log.(*runnel.Memory)}
	})
	id := s.create()
	run := func() {
		s.prompt(id, script)
		synctest.Wait()
	}
	var alone int64 // memory of the turn, without subscriptions
	if live {
		alone = turnAlone(t, script)
	} else {
		run()
	}
	var conns []net.Conn
	for range clients {
		c := s.unreadSocket(family)
		defer c.Close()
		conns = append(conns, c)
	}
	before := held()
	subscribe := map[string]any{"type": "session:subscribe", "sessionId": id}
	if limit > 0 {
		subscribe["limit"] = limit
	}
	for _, c := range conns {
		sendText(t, c, subscribe)
	}
	if live {
		for _, c := range conns {
			drain(t, c)
		}
		run()
	}
	for _, c := range conns {
		readPrompt(t, c)
	}
	time.Sleep(5 * time.Second) //nolint:forbidigo // virtual time; the server disconnects the clients only after 15 s
	each := (held() - before - alone) / int64(clients)
	t.Logf("each holds %d KB", each>>10)
	if each > maxUnread {
		t.Errorf("each unread subscription holds %d bytes, want at most %d", each, maxUnread)
	}
	for _, c := range conns {
		_ = c.Close()
	}
	s.do("POST", "/api/session/"+id+"/kill", `{}`)
	time.Sleep(time.Minute) //nolint:forbidigo // virtual time; net/http lingers on connections that it closes
}

// turnAlone returns the memory, in bytes, that a turn takes in a server
// without subscriptions.
func turnAlone(t *testing.T, script string) int64 {
	t.Helper()
	s := serve(t, func(_ *Config, g *gateway.Config) { g.StallTimeout = -1 })
	id := s.create()
	before := held()
	s.prompt(id, script)
	synctest.Wait()
	took := held() - before
	s.do("POST", "/api/session/"+id+"/kill", `{}`)
	return took
}

// unreadSocket opens a WebSocket that uses a family of messages. The test reads
// nothing else from it.
func (s *site) unreadSocket(family string) net.Conn {
	s.t.Helper()
	c, err := s.ln.dial(s.t.Context(), "", "")
	if err != nil {
		s.t.Fatal(err)
	}
	_, _ = io.WriteString(c, "GET /api/ws HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+s.token+
		"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
	readHead(s.t, c)
	sendText(s.t, c, map[string]string{"type": "session:hello", "streamProtocol": family})
	if _, err := c.Read(make([]byte, 512)); err != nil { // the answer
		s.t.Fatal(err)
	}
	return c
}

// drain reads what arrives in a short time.
func drain(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, c)
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
}

// readPrompt reads up to the start of the turn. The prompt before it is a large
// message, which has a limit of its own.
func readPrompt(t *testing.T, c net.Conn) {
	t.Helper()
	var tail []byte
	for buf := make([]byte, 4<<10); !bytes.Contains(tail, []byte("turn_started")) && !bytes.Contains(tail, []byte("response_start")); {
		n, err := c.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		tail = append(tail[max(0, len(tail)-20):], buf[:n]...)
	}
}

// sendText sends a short message as one frame.
func sendText(t *testing.T, c net.Conn, v any) {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	frame := append([]byte{0x81, 0x80 | byte(len(data)), 0, 0, 0, 0}, data...) // a mask of zeros
	if _, err := c.Write(frame); err != nil {
		t.Fatal(err)
	}
}

// held returns the bytes of the heap and of stacks that are in use.
func held() int64 {
	synctest.Wait()
	var m runtime.MemStats
	for range 3 { // the first ones also empty pools
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// decoding is a log that decodes an event each time that it is read, as a log
// on disk does.
type decoding struct{ *runnel.Memory }

func (d decoding) Read(ctx context.Context, session string, after int64) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for ev, err := range d.Memory.Read(ctx, session, after) {
			if err == nil {
				var data []byte
				if data, err = ev.MarshalJSON(); err == nil { // package json would check it twice more
					err = ev.UnmarshalJSON(data)
				}
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// TestSlowReaderReceivesEverything reads one message every four seconds, so that
// the server drops what it holds for the subscription before each of them. The
// client must still receive every event once, or the final state of every item.
func TestSlowReaderReceivesEverything(t *testing.T) {
	tool := func(n int) string {
		return fmt.Sprintf(`{"name":"Bash","arguments":{"n":%d},"output":%q}`, n, strings.Repeat("word ", n%7*200+1))
	}
	tools := 40 // the server reads and folds the whole turn again for each message
	if os.Getenv("RUNNEL_LONG") != "" {
		tools = 100
	}
	var parallel, serial []string
	for n := range tools {
		parallel = append(parallel, tool(n))
		serial = append(serial, `{"tool":`+tool(n)+`}`)
	}
	script := `{"steps":[{"text":"word ","repeat":300},{"tools":[` + strings.Join(parallel, ",") + `]},` + strings.Join(serial, ",") + `]}`
	for _, family := range stream.Families() {
		t.Run(family, func(t *testing.T) {
			timed(t, minute)
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, func(_ *Config, g *gateway.Config) { g.StallTimeout = -1 })
				id := s.create()
				s.events(id, s.prompt(id, script))
				p := s.join(family)
				p.send(`{"type":"session:subscribe","sessionId":%q}`, id)
				got := make(received)
				var evs []event.Event
				for range 2 { // the first turn is part of the history, the second one arrives live
					evs = s.events(id, s.prompt(id, script))
					end := evs[len(evs)-1]
					for !got.has(end, family) {
						time.Sleep(4 * time.Second) //nolint:forbidigo // virtual time
						got.fold(t, p.receive(), family)
					}
				}
				want := make(received)
				if family == stream.FamilyUpsert {
					want.entries(t, call[stream.ItemsAnswer](s.rig, "GET", "/api/session/"+id+"/items?limit=1000", "", 200).Items)
				} else {
					for _, ev := range evs {
						data, err := json.Marshal(ev)
						if err != nil {
							t.Fatal(err)
						}
						want.event(t, data)
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// TestSlowReaderOpensAtTheEnd opens a session at its end and reads one message
// every four seconds. The pump then drops its work and reads the newest entries
// again. The client must still receive each of them once, and with the older
// pages and the live upserts the final state of every item.
func TestSlowReaderOpensAtTheEnd(t *testing.T) {
	var steps []string
	for n := range 100 {
		steps = append(steps, fmt.Sprintf(`{"tool":{"name":"Bash","arguments":{"n":%d},"output":%q}}`, n, strings.Repeat("word ", n%7*50+1)))
	}
	script := `{"steps":[{"text":"word ","repeat":300},` + strings.Join(steps, ",") + `]}`
	timed(t, minute)
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(_ *Config, g *gateway.Config) { g.StallTimeout = -1 })
		id := s.create()
		for range 3 {
			s.events(id, s.prompt(id, script))
		}
		items := func(query string) stream.ItemsAnswer {
			return call[stream.ItemsAnswer](s.rig, "GET", "/api/session/"+id+"/items?"+query, "", 200)
		}
		p := s.join(stream.FamilyUpsert)
		p.send(`{"type":"session:subscribe","sessionId":%q,"limit":250}`, id)
		got, times, first := make(received), make(map[string]int), int64(0)
		for done := false; !done; {
			time.Sleep(4 * time.Second) //nolint:forbidigo // virtual time
			f := p.await("session:history")
			if f.First > 0 && first > 0 {
				t.Error("first was sent twice")
			}
			first, done = max(first, f.First), f.Done
			for _, key := range entryKeys(t, f.Entries) {
				if times[key]++; times[key] > 1 {
					t.Errorf("%s was sent %d times", key, times[key])
				}
			}
			got.fold(t, f, stream.FamilyUpsert)
		}
		if first < 2 || len(times) < 250 {
			t.Errorf("%d entries, older ones before %d", len(times), first)
		}
		evs := s.events(id, s.prompt(id, script))
		for !got.has(evs[len(evs)-1], stream.FamilyUpsert) {
			time.Sleep(4 * time.Second) //nolint:forbidigo // virtual time
			got.fold(t, p.receive(), stream.FamilyUpsert)
		}
		for page := (stream.ItemsAnswer{First: first, More: true}); page.More; {
			page = items(fmt.Sprintf("before=%d&limit=100", page.First))
			got.entries(t, page.Items)
		}
		want := make(received)
		want.entries(t, items("limit=1000").Items)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// received holds what a client has received: the state of each item and the
// frames of turns, or the events. Other frames are left out.
type received map[string]any

// has reports whether the client has received end, the last event of a turn.
func (r received) has(end event.Event, family string) bool {
	key := fmt.Sprint(end.Seq)
	if family == stream.FamilyUpsert {
		key = "session:turn " + key
	}
	_, ok := r[key]
	return ok
}

func (r received) fold(t *testing.T, f frame, family string) {
	t.Helper()
	switch {
	case f.Type == "session:history" && family == stream.FamilyUpsert:
		r.entries(t, f.Entries)
	case f.Type == "session:history":
		for _, e := range f.Entries {
			r.event(t, e)
		}
	case f.Type == "session:event":
		r.event(t, f.Payload)
	default:
		r.entry(t, f.Type, f.Payload)
	}
}

func (r received) event(t *testing.T, data []byte) {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	key := fmt.Sprint(m["seq"])
	if _, again := r[key]; again {
		t.Errorf("the event %s arrived twice", key)
	}
	r[key] = m
}

func (r received) entries(t *testing.T, list []json.RawMessage) {
	t.Helper()
	for _, data := range list {
		var e struct {
			Type    string
			Payload json.RawMessage
		}
		if err := json.Unmarshal(data, &e); err != nil {
			t.Fatal(err)
		}
		r.entry(t, e.Type, e.Payload)
	}
}

func (r received) entry(t *testing.T, kind string, payload []byte) {
	t.Helper()
	if kind != "session:upsert" && kind != "session:turn" {
		return
	}
	var m map[string]any
	if err := json.Unmarshal(payload, &m); err != nil {
		t.Fatal(err)
	}
	delete(m, "emittedAt")
	if kind == "session:upsert" {
		r[fmt.Sprint(m["itemId"])] = m
	} else {
		r[kind+" "+fmt.Sprint(m["seq"])] = m
	}
}
