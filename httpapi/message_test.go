package httpapi

import (
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/httpapi/stream"
)

// unfinished sends the first n bytes of a message of 1 MiB on a new WebSocket.
// The returned channel is closed once the server has closed the connection.
func (s *site) unfinished(n int) (c net.Conn, closed <-chan struct{}) {
	s.t.Helper()
	c = s.unreadSocket(stream.FamilyEvents)
	done := make(chan struct{})
	go func() { defer close(done); _, _ = io.Copy(io.Discard, c) }()
	header := []byte{0x81, 0xff, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0} // a text of 1 MiB, with a mask of zeros
	if _, err := c.Write(append(header, strings.Repeat(" ", n)...)); err != nil {
		s.t.Fatal(err)
	}
	return c, done
}

// A client cannot keep the beginning of a message in the server's memory.
func TestWebSocketMessageArrivesInTimeOrTheConnectionCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		began := time.Now()
		c, closed := s.unfinished(1000)
		defer c.Close()
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for open := true; open; {
			select {
			case <-closed:
				open = false
			case <-tick.C:
				_ = c.SetWriteDeadline(time.Now().Add(time.Millisecond))
				_, _ = io.WriteString(c, " ")
			}
			if time.Since(began) > 5*time.Minute {
				t.Fatal("the connection is still open after 5 minutes")
			}
		}
		if took := time.Since(began); took < 29*time.Second || took > 32*time.Second {
			t.Errorf("closed after %v", took)
		}
		synctest.Wait()
		if n := len(s.arriving.bytes); n != 0 {
			t.Errorf("%d credentials still count", n)
		}
	})
}

// Messages that have not arrived completely count like bodies of requests.
func TestArrivingWebSocketMessagesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		id, mine, other := s.create(), s.token, s.mint(auth.Read, auth.Send)
		var closed []<-chan struct{}
		for range mostArriving/reply.MaxBody + 6 {
			c, done := s.unfinished(reply.MaxBody - 1)
			defer c.Close()
			closed = append(closed, done)
		}
		time.Sleep(time.Second) //nolint:forbidigo // virtual time; the server waits for the clients' close frames
		cut := 0
		for _, done := range closed {
			select {
			case <-done:
				cut++
			default:
			}
		}
		if cut != 6 {
			t.Errorf("%d connections were closed, want 6", cut)
		}
		s.token = other
		if w := s.do("POST", "/api/session/"+id+"/send", `{"content":"text"}`); w.Code != 202 {
			t.Errorf("another credential: got %d %s", w.Code, w.Body)
		}
		s.token = mine
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time; until the others are closed, too
		if w := s.do("POST", "/api/session/"+id+"/cancel", `{}`); w.Code != 200 {
			t.Errorf("after all were closed: got %d %s", w.Code, w.Body)
		}
	})
}
