package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/coder/websocket"
)

// Transports of Runnel.
const (
	overWS  = "WebSocket"
	overSSE = "SSE"
)

// runnel is a Runnel server, built and started as users do.
type runnel struct {
	w    *workspace
	data string
	home string
	bin  string   // directory that is first in PATH, with the agent
	more []string // additional environment variables
	cli  string   // cliType of the sessions

	options object // of the sessions; may be nil

	program string // path in the workspace
	flags   []string

	url, token string
	daemon     *daemon
}

func newRunnel(w *workspace, bin string, more ...string) (*runnel, error) {
	home, err := w.fresh("home")
	if err != nil {
		return nil, err
	}
	return &runnel{w: w, data: filepath.Join(home, "data"), home: home, bin: bin, more: more, cli: "claude", program: "runnel"}, nil
}

func (s *runnel) name() string { return "runnel" }

func (s *runnel) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.w.path(s.program), append(args, "--data", s.data)...)
	cmd.Env = s.w.environ(s.home, s.bin, s.more...)
	return cmd
}

var apiAt = regexp.MustCompile(`(http://127\.0\.0\.1:\d+)`) // the first of the addresses, also of older builds

func (s *runnel) start(ctx context.Context) error {
	if s.token == "" {
		if err := s.credential(ctx); err != nil {
			return err
		}
	}
	var err error
	s.daemon, err = launch(s.command(ctx, append([]string{"serve", "--listen", "127.0.0.1:0"}, s.flags...)...), func(out io.Reader) error {
		lines := bufio.NewReader(out)
		for {
			line, err := lines.ReadString('\n')
			if m := apiAt.FindStringSubmatch(line); m != nil {
				s.url = m[1]
				return nil
			}
			if err != nil {
				return err
			}
		}
	})
	return err
}

// credential creates a token and uses it from then on.
func (s *runnel) credential(ctx context.Context) error {
	out, err := s.command(ctx, "token", "create", "bench", "--scope", "read,send,approve").Output()
	if err != nil {
		return fmt.Errorf("token create: %w", err)
	}
	s.token = strings.TrimSpace(string(out))
	return nil
}

func (s *runnel) kill() { s.daemon.kill() }
func (s *runnel) stop() { s.daemon.stop() }

func (s *runnel) servers() ([]int, error) {
	pids := []int{s.daemon.pid()}
	all, err := s.w.processes()
	for _, p := range all {
		if p.supervises() {
			pids = append(pids, p.pid)
		}
	}
	return pids, err
}

func (s *runnel) header() http.Header {
	return http.Header{"Authorization": {"Bearer " + s.token}}
}

// post sends in and decodes the response into out, unless out is nil.
func (s *runnel) post(ctx context.Context, path string, in, out any) error {
	return postJSON(ctx, s.url+path, s.header(), in, out)
}

func postJSON(ctx context.Context, url string, header http.Header, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = header.Clone()
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode >= 300 {
		return fmt.Errorf("POST %s: %s %s", url, res.Status, answer)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}

func (s *runnel) open(ctx context.Context) (conversation, error) {
	dir := filepath.Join(s.home, "project")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var made struct{ SessionID string }
	in := object{"cliType": s.cli, "projectDir": dir}
	if s.options != nil {
		in["options"] = s.options
	}
	if err := s.post(ctx, "/api/session/create", in, &made); err != nil {
		return nil, err
	}
	s.w.sessions[made.SessionID] = true
	return &session{s, made.SessionID}, nil
}

// session is a conversation through Runnel.
type session struct {
	s  *runnel
	id string
}

func (c *session) prompt(ctx context.Context, text string) error {
	return c.s.post(ctx, "/api/session/"+c.id+"/send", map[string]any{"content": text}, nil)
}

func (c *session) end(ctx context.Context) error {
	return c.s.post(ctx, "/api/session/"+c.id+"/kill", map[string]any{}, nil)
}

func (c *session) follow(ctx context.Context, transport string, ready func(), see func(message) bool) error {
	if transport == overWS {
		return c.s.followAll(ctx, []string{c.id}, ready, func(_ string, m message) bool { return see(m) })
	}
	res, err := getSSE(ctx, c.s.url+"/api/session/"+c.id+"/events?after=0", c.s.header())
	if err != nil {
		return err
	}
	defer res.Body.Close()
	ready()
	return followed(readSSE(res.Body, func(at time.Time, data []byte) error {
		var e logged
		if err := json.Unmarshal(data, &e); err != nil {
			return err
		}
		if see(e.message(at)) {
			return errLast
		}
		return nil
	}))
}

// A frame is a message of Runnel's WebSocket. Each type uses some of the
// fields.
type frame struct {
	Type      string
	SessionID string
	Entries   []logged
	Payload   logged
	Done      bool
	Error     struct{ Message string }
}

// past calls see with each event of a session:history message until see returns
// true. It reports whether see returned true.
func (f frame) past(at time.Time, see func(message) bool) bool {
	for _, e := range f.Entries {
		if see(e.message(at)) {
			return true
		}
	}
	return false
}

// logged has the fields that readers need of an event or, in the other stream
// family, of an upsert.
type logged struct {
	Seq     int64
	Type    string
	Message *struct{ Content, Origin string }
	Payload struct {
		Message      *struct{ Content string } // message of an upsert in a history message
		DeltaContent string
		Status       string
		Error        struct{ Code string }
		FinalItem    struct{ Content, Origin string }
	}
}

func (e logged) message(at time.Time) message {
	m := message{at: at, seq: e.Seq}
	switch e.Type {
	case "item_delta":
		m.delta = e.Payload.DeltaContent
	case "item_done":
		m.final = e.Payload.FinalItem.Content
	case "response_done":
		m.end = e.Payload.Status
	case "response_error":
		m.end = e.Payload.Error.Code
	}
	return m
}

// followAll calls see with the messages of several sessions, on one connection.
func (s *runnel) followAll(ctx context.Context, ids []string, ready func(), see func(id string, m message) (last bool)) error {
	return s.followWS(ctx, "events-v1", ids, ready, func(at time.Time, f frame) bool {
		each := func(m message) bool { return see(f.SessionID, m) }
		return f.Type == "session:event" && each(f.Payload.message(at)) || f.past(at, each)
	})
}

// followWS subscribes to sessions with a stream family and calls see with each
// frame until see returns true. It calls ready once the history of all sessions
// has arrived.
func (s *runnel) followWS(ctx context.Context, family string, ids []string, ready func(), see func(time.Time, frame) bool) error {
	conn, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(s.url, "http")+"/api/ws", &websocket.DialOptions{HTTPHeader: s.header()}) //nolint:bodyclose // Dial closes it
	if err != nil {
		return err
	}
	defer conn.CloseNow()
	conn.SetReadLimit(-1)
	say := []map[string]any{{"type": "session:hello", "streamProtocol": family}}
	for _, id := range ids {
		say = append(say, map[string]any{"type": "session:subscribe", "sessionId": id, "after": 0})
	}
	for _, m := range say {
		data, err := json.Marshal(m)
		if err != nil {
			return err
		}
		if err := conn.Write(ctx, websocket.MessageText, data); err != nil {
			return err
		}
	}
	for past := 0; ; {
		_, data, err := conn.Read(ctx)
		at := time.Now()
		if err != nil {
			return err
		}
		var f frame
		if err := json.Unmarshal(data, &f); err != nil {
			return err
		}
		if f.Type == "error" {
			return fmt.Errorf("subscribe: %s", f.Error.Message)
		}
		last := see(at, f)
		if f.Type == "session:history" && f.Done {
			if past++; past == len(ids) && ready != nil {
				ready()
			}
		}
		if last {
			return nil
		}
	}
}
