package reply

import (
	"bufio"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// Only a body that did not arrive in time is answered with 408, because a
// client may repeat that request.
func TestUnreadableBodyIsNotATimeout(t *testing.T) {
	writer := Writer{Redact: func(s string) string { return s }, Log: slog.New(slog.DiscardHandler)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/late" {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now())
		}
		if err := Decode(w, r, new(Empty)); err != nil {
			writer.Error(w, r, err)
		}
	}))
	defer server.Close()
	for name, tt := range map[string]struct {
		path, head, body string
		status           int
	}{
		"whole":           {"/", "Transfer-Encoding: chunked", "2\r\n{}\r\n0\r\n\r\n", http.StatusOK},
		"malformed chunk": {"/", "Transfer-Encoding: chunked", "nothing\r\n{}\r\n", http.StatusBadRequest},
		"long chunk":      {"/", "Transfer-Encoding: chunked", "1\r\n{}\r\n0\r\n\r\n", http.StatusBadRequest},
		"cut short":       {"/", "Content-Length: 3", "{}", http.StatusBadRequest},
		"late":            {"/late", "Content-Length: 3", "", http.StatusRequestTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_, _ = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n%s", tt.path, tt.head, tt.body)
			if tt.status == http.StatusBadRequest {
				_ = c.(*net.TCPConn).CloseWrite()
			}
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil || res.StatusCode != tt.status {
				t.Errorf("got %v, %v, want %d", res, err, tt.status)
			}
		})
	}
}
