// Package testapi is a client of a running server, for tests that kill
// processes. It resumes streams from its cursor, answers approvals, and
// compares the events that it received with the log.
package testapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/event"
)

// Timeout is the timeout of every wait for the server or an agent.
const Timeout = 90 * time.Second

// Server is a server under test. It need not be running all the time.
type Server struct {
	T     testing.TB
	Addr  string // host and port
	Token string
}

// Do sends a request.
func (s *Server) Do(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.Addr+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+s.Token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return http.DefaultClient.Do(req)
}

// Call sends a request and decodes the response into out. ok is false if the
// server did not respond.
func (s *Server) Call(method, path string, body, out any) (code int, ok bool) {
	var r io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			s.T.Error(err)
			return 0, false
		}
		r = bytes.NewReader(data)
	}
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	res, err := s.Do(ctx, method, path, r)
	if err != nil {
		return 0, false
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, false
	}
	if out != nil && json.Unmarshal(data, out) != nil {
		s.T.Errorf("%s %s: %d %s", method, path, res.StatusCode, data)
	}
	return res.StatusCode, true
}

// Send sends a prompt and returns the id of the turn that it starts.
func (s *Server) Send(session, prompt string) (turn string) {
	s.T.Helper()
	var sent struct {
		TurnID string `json:"turnId"`
		Error  any    `json:"error"`
	}
	if code, ok := s.Call("POST", "/api/session/"+session+"/send", map[string]any{"content": prompt}, &sent); !ok || code != http.StatusAccepted {
		s.T.Fatalf("send: %d %v", code, sent.Error)
	}
	return sent.TurnID
}

// Log returns the events of a session up to head, as a new client receives
// them.
func (s *Server) Log(session string, head int64) []event.Event {
	s.T.Helper()
	c := s.Watch(session)
	defer c.Leave()
	c.Until("end of the log", func(ev event.Event) bool { return ev.Seq >= head })
	return c.Events
}
