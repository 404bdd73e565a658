package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/stream"
)

// maxUnread is the memory, in bytes, that the server may hold for a
// subscription whose client does not read.
const maxUnread = 64 << 10

// TestUnreadSubscriptionHoldsAtMost64KB opens subscriptions whose clients do
// not read, and measures the memory that the server holds for each of them once
// its write has been blocked for a few seconds.
func TestUnreadSubscriptionHoldsAtMost64KB(t *testing.T) {
	tool := func(size int) string {
		return fmt.Sprintf(`{"name":"Bash","arguments":{"n":1},"output":%q}`, strings.Repeat("word ", size/5))
	}
	many := func(n int, s string) string { return strings.TrimSuffix(strings.Repeat(s+",", n), ",") }
	for name, script := range map[string]string{
		"many items of a turn": `{"steps":[` + many(1500, `{"tool":`+tool(50)+`}`) + `,{"hang":true}]}`,
		"items that overlap":   `{"steps":[{"tools":[` + many(300, tool(3000)) + `]},{"hang":true}]}`,
		"one growing item":     `{"steps":[{"text":"word ","repeat":4000},{"hang":true}]}`,
		"items of 30 KB":       `{"steps":[` + many(40, `{"tool":`+tool(30_000)+`}`) + `,{"hang":true}]}`,
	} {
		for _, family := range stream.Families() {
			for _, live := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/live=%t", name, family, live), func(t *testing.T) {
					timed(t, minute)
					synctest.Test(t, func(t *testing.T) { unreadSubscriptions(t, family, script, live) })
				})
			}
		}
	}
}

func unreadSubscriptions(t *testing.T, family, script string, live bool) {
	const clients = 20
	s := serve(t, func(c *Config, g *gateway.Config) {
		c.WriteStall, g.StallTimeout = time.Hour, -1
		g.Log = decoding{g.Log.(*runnel.Memory)} //nolint:forcetypeassert // newRig has set it
	})
	id := s.create()
	run := func() {
		s.prompt(id, script)
		synctest.Wait()
	}
	var conns []net.Conn
	subscribe := func() {
		for range clients {
			conns = append(conns, s.unreadSubscription(family, id))
		}
	}
	connections := held()
	var before int64
	if live {
		subscribe()
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		before = held()
		t.Logf("a subscription without events holds %d KB, with the test's client", (before-connections)/clients>>10)
		alone := serveAlone(t, script)
		run()
		before += alone
	} else {
		run()
		before = held()
		subscribe()
	}
	time.Sleep(time.Minute) //nolint:forbidigo // virtual time
	each := (held() - before) / clients
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

// serveAlone returns the memory, in bytes, that a turn takes in a server
// without subscriptions.
func serveAlone(t *testing.T, script string) int64 {
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

// unreadSubscription opens a WebSocket, subscribes to a session, and reads
// nothing after the handshake.
func (s *site) unreadSubscription(family, id string) net.Conn {
	s.t.Helper()
	c, err := s.ln.dial(s.t.Context(), "", "")
	if err != nil {
		s.t.Fatal(err)
	}
	_, _ = io.WriteString(c, "GET /api/ws HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+s.token+
		"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
	readHead(s.t, c)
	for _, m := range []any{
		map[string]string{"type": "session:hello", "streamProtocol": family},
		map[string]string{"type": "session:subscribe", "sessionId": id},
	} {
		data, err := json.Marshal(m)
		if err != nil {
			s.t.Fatal(err)
		}
		frame := append([]byte{0x81, 0x80 | byte(len(data)), 0, 0, 0, 0}, data...)
		if _, err := c.Write(frame); err != nil {
			s.t.Fatal(err)
		}
		if family := make([]byte, 512); m.(map[string]string)["streamProtocol"] != "" {
			if _, err := c.Read(family); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	return c
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
				if data, err = json.Marshal(ev); err == nil {
					err = json.Unmarshal(data, &ev)
				}
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}
