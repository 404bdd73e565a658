package httpapi

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel/httpapi/stream"
)

// unreadExport asks for a long export and does not read the answer.
func (s *site) unreadExport() (id string, c net.Conn) {
	s.t.Helper()
	id = s.create()
	s.events(id, s.prompt(id, `{"steps":[{"text":"word ","repeat":10000}]}`))
	c, err := s.ln.dial(s.t.Context(), "", "")
	if err != nil {
		s.t.Fatal(err)
	}
	_, _ = fmt.Fprintf(c, "GET /api/session/%s/export?format=jsonl HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", id, s.token)
	return id, c
}

// A client that does not read its answer delays the shutdown, but does not make
// it fail.
func TestShutdownCutsOffClientsThatDoNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		id, c := s.unreadExport()
		defer c.Close()
		ws := s.unreadSocket(stream.FamilyEvents)
		defer ws.Close()
		sendText(t, ws, map[string]any{"type": "session:subscribe", "sessionId": id})
		synctest.Wait() // both writes are blocked
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		began := time.Now()
		if err := s.Shutdown(ctx, s.http); err != nil {
			t.Errorf("the shutdown failed: %v", err)
		}
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("it took %v", took)
		}
		if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "closed pipe") {
			t.Errorf("the connection is still open: %v", err)
		}
		if logged := s.logged.String(); strings.Count(logged, "cut off at shutdown") != 1 || !strings.Contains(logged, "connections=1") {
			t.Errorf("logged %s", logged)
		}
	})
}

// If every client reads its answer, nothing is cut off.
func TestShutdownWaitsForRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		_, c := s.unreadExport()
		defer c.Close()
		synctest.Wait()
		whole := make(chan int, 1)
		time.AfterFunc(5*time.Second, func() {
			data, _ := io.ReadAll(c)
			whole <- len(data)
		})
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx, s.http); err != nil {
			t.Errorf("the shutdown failed: %v", err)
		}
		if n := <-whole; n < 50_000 || strings.Contains(s.logged.String(), "cut off") {
			t.Errorf("the client read %d bytes; logged %s", n, s.logged)
		}
	})
}
