package httpapi

import (
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel/gateway"
)

// A stuckClient is an HTTP/2 connection that opens every flow-control window
// fully. So the server's writes block only because the client does not read.
type stuckClient struct {
	t    *testing.T
	conn net.Conn
	next uint32 // id of the next stream
}

// stuckClient opens a connection. The client reads only the first bytes of its
// answers.
func (s *site) stuckClient() *stuckClient {
	s.t.Helper()
	conn, err := s.ln.dial(s.t.Context(), "", "")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	c := &stuckClient{s.t, conn, 1}
	const settings, windowUpdate = 4, 8
	largest := []byte{0x7f, 0xff, 0, 0}
	c.send([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
		h2Frame(settings, 0, 0, append([]byte{0, 4}, largest...)), h2Frame(windowUpdate, 0, 0, largest))
	return c
}

// h2Frame returns a frame of HTTP/2.
func h2Frame(kind, flags byte, stream uint32, body []byte) []byte {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(body)))[1:]
	head = append(head, kind, flags)
	return append(binary.BigEndian.AppendUint32(head, stream), body...)
}

func (c *stuckClient) send(parts ...[]byte) {
	c.t.Helper()
	if _, err := c.conn.Write(slices.Concat(parts...)); err != nil {
		c.t.Fatal(err)
	}
}

// get asks for target.
func (c *stuckClient) get(target, token string) {
	c.t.Helper()
	var block []byte
	for _, field := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":path", target}, {":authority", "localhost"}, {"authorization", "Bearer " + token}} {
		block = append(block, 0) // a literal that is not indexed
		for _, text := range field {
			block = append(append(block, byte(len(text))), text...)
		}
	}
	const headers, endStream, endHeaders = 1, 1, 4
	c.send(h2Frame(headers, endStream|endHeaders, c.next, block))
	c.next += 2
}

// readUntilData reads up to the head of the first frame of a body.
func (c *stuckClient) readUntilData() {
	c.t.Helper()
	for {
		head := make([]byte, 9)
		if _, err := io.ReadFull(c.conn, head); err != nil {
			c.t.Fatal(err)
		}
		if head[3] == 0 {
			return
		}
		if _, err := io.CopyN(io.Discard, c.conn, int64(head[0])<<16|int64(head[1])<<8|int64(head[2])); err != nil {
			c.t.Fatal(err)
		}
	}
}

// closed reports whether the server has closed the connection.
func (c *stuckClient) closed() bool {
	_ = c.conn.SetWriteDeadline(time.Now().Add(time.Millisecond))
	_, err := c.conn.Write(h2Frame(6, 1, 0, make([]byte, 8))) // an answer to a PING, which needs none
	return err != nil
}

// Over HTTP/2 the server resets a request's stream with a frame. If the client
// reads nothing, that frame cannot be written. So the server closes the
// connection, which ends all its requests.
func TestConnectionOfHTTP2ThatReadsNothingIsClosed(t *testing.T) {
	for _, kind := range []string{"events", "items", "export?format=md"} {
		t.Run(kind, func(t *testing.T) {
			timed(t, minute)
			synctest.Test(t, func(t *testing.T) {
				s := serveOver(t, 2)
				id := s.create()
				s.events(id, s.prompt(id, bulk(1_000_000)))
				c := s.stuckClient()
				for range 3 {
					c.get("/api/session/"+id+"/"+kind, s.token)
				}
				c.readUntilData()
				time.Sleep(20 * time.Second) //nolint:forbidigo // virtual time, in which the write deadline passes
				if !c.closed() {
					t.Error("the connection is still open")
				}
				if slices.ContainsFunc(s.measured(), func(line string) bool {
					return strings.HasPrefix(line, "runnel_streams{") && !strings.HasSuffix(line, " 0")
				}) {
					t.Error("its streams are still open")
				}
			})
		})
	}
}

func TestRevokeEndsRequestsOfHTTP2ConnectionThatReadsNothing(t *testing.T) {
	timed(t, minute)
	synctest.Test(t, func(t *testing.T) {
		s := serveOver(t, 2)
		id := s.create()
		s.events(id, s.prompt(id, bulk(1_000_000)))
		secret, end := s.doomed()
		c := s.stuckClient()
		c.get("/api/session/"+id+"/events", secret)
		c.readUntilData()
		end()
		time.Sleep(time.Second) //nolint:forbidigo // virtual time, in which a revoked request ends
		if !c.closed() {
			t.Error("the connection is still open")
		}
		s.wantMetrics(`runnel_streams{family="sse-events"} 0`)
	})
}

// Each connection has only one request, so the limits of a credential are not
// reached. The limit of unread bytes is reached, and the server closes
// connections.
func TestUnreadAnswersOfHTTP2AreBounded(t *testing.T) {
	const clients, limit = 8, 2 << 20
	for _, kind := range []string{"events", "items"} {
		t.Run(kind, func(t *testing.T) {
			timed(t, minute)
			synctest.Test(t, func(t *testing.T) {
				s := serveOver(t, 2, func(c *Config, _ *gateway.Config) { c.Limits.UnreadBytes = limit })
				id := s.create()
				s.events(id, s.prompt(id, bulk(1_000_000)))
				var conns []*stuckClient
				for range clients {
					c := s.stuckClient()
					conns = append(conns, c)
					c.get("/api/session/"+id+"/"+kind, s.token)
					c.readUntilData()
					synctest.Wait()
				}
				time.Sleep(time.Second) //nolint:forbidigo // virtual time, much less than a write may take
				cut := 0
				for _, c := range conns {
					if c.closed() {
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
