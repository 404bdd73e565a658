package httpapi

import (
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/testload"
)

// TestUnreadAnswersAreBounded lets clients request large answers of every kind
// and read nothing. The memory for them is bounded: the answers that wait for
// longest are aborted at once, before their deadline.
func TestUnreadAnswersAreBounded(t *testing.T) {
	testload.TakesLong(t)
	const clients, limit = 8, 2 << 20
	for _, kind := range []string{"events", "items", "items?before=0", "export?format=md"} {
		t.Run(kind, func(t *testing.T) {
			timed(t, minute)
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, func(c *Config, _ *gateway.Config) { c.Limits.UnreadBytes = limit })
				id := s.create()
				large := bulk(1_000_000)
				s.events(id, s.prompt(id, large))
				var conns []net.Conn
				for n := range clients {
					c, err := s.ln.dial(t.Context(), "", "")
					if err != nil {
						t.Fatal(err)
					}
					defer c.Close()
					conns = append(conns, c)
					token := s.token
					if n%2 == 0 { // a credential has two exports at a time
						s.token = s.mint(auth.All()...)
					}
					request := "GET /api/session/" + id + "/" + kind + " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + token + "\r\n\r\n"
					_, _ = io.WriteString(c, request)
					readHead(t, c)
					synctest.Wait()
				}
				cut := 0
				for _, c := range conns {
					if _, err := c.Write([]byte{0}); err != nil {
						cut++
					}
				}
				if cut < clients/2 {
					t.Errorf("%d of %d were cut off", cut, clients)
				}
				if got := s.do("GET", "/metrics", "").Body.String(); !strings.Contains(got, `max-unread-mib`) {
					t.Error("it was not counted")
				}
			})
		})
	}
}

// TestAnswerIsCountedOnceAsUnread requests answers that are smaller than the
// limit of unread bytes, but larger than half of it. They would exceed the
// limit if their bytes counted twice.
func TestAnswerIsCountedOnceAsUnread(t *testing.T) {
	s := serve(t, func(c *Config, _ *gateway.Config) { c.Limits.UnreadBytes = 3 << 19 })
	id := s.create()
	s.events(id, s.prompt(id, bulk(1_000_000)))
	for _, kind := range []string{"items", "items?before=0", "export?format=md"} {
		s.do("GET", "/api/session/"+id+"/"+kind, "")
		if got := s.do("GET", "/metrics", "").Body.String(); strings.Contains(got, `max-unread-mib`) {
			t.Errorf("%s: the only answer was to be cut off", kind)
		}
	}
}

// TestStrangersCannotCutAnswersOff has clients without a credential request
// /openapi.json, which is large, and read nothing. All answers share one copy of
// this document, so they must not count towards the limit of unread bytes.
func TestStrangersCannotCutAnswersOff(t *testing.T) {
	timed(t, minute)
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(c *Config, _ *gateway.Config) { c.Limits.UnreadBytes = 3 << 19 })
		id := s.create()
		s.events(id, s.prompt(id, bulk(1_000_000)))
		var conns []net.Conn
		for n := range 9 {
			c, err := s.ln.dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			conns = append(conns, c)
			request := "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
			if n == 0 {
				request = "GET /api/session/" + id + "/items HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + s.token + "\r\n\r\n"
			}
			_, _ = io.WriteString(c, request)
			readHead(t, c)
			synctest.Wait()
		}
		if _, err := conns[0].Write([]byte{0}); err != nil {
			t.Errorf("the answer to the credential was cut off: %v", err)
		}
	})
}

// readHead reads the head of an answer.
func readHead(t *testing.T, c net.Conn) {
	t.Helper()
	var head []byte
	for one := make([]byte, 1); !strings.HasSuffix(string(head), "\r\n\r\n"); head = append(head, one[0]) {
		if _, err := io.ReadFull(c, one); err != nil {
			t.Fatal(err)
		}
	}
}
