//go:build unix

package conformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/internal/testprogram"
)

// waitTimeout is the maximum time of each wait for the server.
const waitTimeout = 90 * time.Second

// nobody is an id that no session has.
const nobody = "00000000-0000-4000-8000-000000000000"

// An object is a JSON object.
type object = map[string]any

// A server is a running server with a client that has every scope. The rows of
// a table share one server, which the setup of the table starts.
type server struct {
	testprogram.Server
	client         // has every scope
	project string // folder for sessions
}

// start starts the server, which stops when t ends. The fields of the embedded
// testprogram.Server must be set before.
func (s *server) start(t *testing.T) {
	t.Helper()
	s.Server.Start(t)
	s.project = folder(t)
	s.client = s.as(s.Token(t, "read,send,approve,admin"))
}

// as returns a client that uses the token; "" means no credential.
func (s *server) as(token string) client {
	c := client{base: s.API, http: new(http.Client), header: http.Header{}}
	if token != "" {
		c = c.with("Authorization", "Bearer "+token)
	}
	return c
}

// folder returns a new temporary folder by its path without links.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// write writes a file into a folder and returns its path.
func write(t *testing.T, folder, name, text string) string {
	t.Helper()
	path := filepath.Join(folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A client sends requests to one server, all with the same headers.
type client struct {
	base   string // address with scheme
	http   *http.Client
	header http.Header
}

// with returns a copy of the client with a header set to value. If value is "",
// the copy does not send the header.
func (c client) with(header, value string) client {
	c.header = c.header.Clone()
	if value == "" {
		c.header.Del(header)
	} else {
		c.header.Set(header, value)
	}
	return c
}

// open sends a request and returns the response with its body unread. A body of
// type string or []byte is sent unchanged, nil means no body, and any other
// value is sent as JSON. The request and the response body end when t does.
func (c client) open(t *testing.T, method, path string, body any) *http.Response {
	t.Helper()
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		r = strings.NewReader(b)
	case []byte:
		r = bytes.NewReader(b)
	default:
		data, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		r = bytes.NewReader(data)
	}
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, r)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = c.header.Clone()
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	if r != nil && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// An answer is the complete response to a request.
type answer struct {
	what   string // the request, for messages
	status int
	header http.Header
	body   []byte
}

// do sends a request as open does, and reads the complete response.
func (c client) do(t *testing.T, method, path string, body any) answer {
	t.Helper()
	res := c.open(t, method, path, body)
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return answer{method + " " + path, res.StatusCode, res.Header, data}
}

func (c client) get(t *testing.T, path string) answer {
	t.Helper()
	return c.do(t, http.MethodGet, path, nil)
}

func (c client) post(t *testing.T, path string, body any) answer {
	t.Helper()
	return c.do(t, http.MethodPost, path, body)
}

// ok ends the test unless the response has the status. It returns the body.
func (a answer) ok(t *testing.T, status int) object {
	t.Helper()
	if a.status != status {
		t.Fatalf("%s: got %d %s, want %d", a.what, a.status, a.body, status)
	}
	var body object
	if a.header.Get("Content-Type") == "application/json" {
		if err := json.Unmarshal(a.body, &body); err != nil {
			t.Fatalf("%s: %v in %s", a.what, err, a.body)
		}
	}
	return body
}

// A problem is the body of an error.
type problem struct {
	Type, Message string
	Details       object
}

// fails ends the test unless the response is an error with the status and the
// type, in the form of all errors. It returns the error.
func (a answer) fails(t *testing.T, status int, typ string) problem {
	t.Helper()
	var body struct{ Error problem }
	dec := json.NewDecoder(bytes.NewReader(a.body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&body); err != nil || a.header.Get("Content-Type") != "application/json" {
		t.Fatalf("%s: got %d %s, %v; want the error %s", a.what, a.status, a.body, err, typ)
	}
	if a.status != status || body.Error.Type != typ || body.Error.Message == "" {
		t.Fatalf("%s: got %d %s, want %d %s", a.what, a.status, a.body, status, typ)
	}
	return body.Error
}

// session creates a session of the scripted agent and returns its id.
func (s *server) session(t *testing.T, options object) string {
	t.Helper()
	body := object{"cliType": "script", "projectDir": s.project}
	if options != nil {
		body["options"] = options
	}
	return s.post(t, "/api/session/create", body).ok(t, http.StatusCreated)["sessionId"].(string)
}

// script returns a prompt that makes the scripted agent play the steps.
func script(steps ...object) string {
	data, err := json.Marshal(object{"steps": steps})
	if err != nil {
		panic(err) // unreachable: steps are plain JSON values
	}
	return string(data)
}

// send starts a turn and returns its id.
func (c client) send(t *testing.T, session, prompt string) string {
	t.Helper()
	return c.post(t, "/api/session/"+session+"/send", object{"content": prompt}).ok(t, http.StatusAccepted)["turnId"].(string)
}

// play plays the steps as one turn and returns its events up to the terminal
// event.
func (c client) play(t *testing.T, session string, steps ...object) (turn string, events []frame) {
	t.Helper()
	turn = c.send(t, session, script(steps...))
	return turn, c.turn(t, session, turn)
}

// turn waits for the terminal event of a turn and returns the events of the
// turn.
func (c client) turn(t *testing.T, session, turn string) []frame {
	t.Helper()
	return c.events(t, session, func(f frame) bool { return f.data["turnId"] == turn && f.ends() }).of(turn)
}

// events waits for an event that wanted accepts, and returns the events of the
// session from the first one to that event.
func (c client) events(t *testing.T, session string, wanted func(frame) bool) frames {
	t.Helper()
	s := c.stream(t, http.MethodGet, "/api/session/"+session+"/events", nil)
	var got frames
	for f, ok := s.next(t); ok; f, ok = s.next(t) {
		got = append(got, f)
		if wanted(f) {
			s.close()
			return got
		}
	}
	t.Fatalf("session %s: the stream ended before the wanted event; got %v", session, got.names())
	return nil
}

// A frame is a frame of an event stream.
type frame struct {
	id, event string
	data      object
	comment   string // set only for a frame that consists of a comment
}

// payload returns the payload of a canonical event.
func (f frame) payload() object {
	p, _ := f.data["payload"].(object)
	return p
}

// ends reports whether the frame is the terminal event of a turn.
func (f frame) ends() bool { return f.event == "response_done" || f.event == "response_error" }

type frames []frame

// names returns the names of the frames, in order.
func (fs frames) names() string {
	var names []string
	for _, f := range fs {
		names = append(names, f.event)
	}
	return strings.Join(names, " ")
}

// of returns the frames of one turn.
func (fs frames) of(turn string) frames {
	var found frames
	for _, f := range fs {
		if f.data["turnId"] == turn {
			found = append(found, f)
		}
	}
	return found
}

// find returns the first frame with the name, or an empty frame if there is
// none.
func (fs frames) find(event string) frame {
	for _, f := range fs {
		if f.event == event {
			return f
		}
	}
	return frame{}
}

// An eventStream reads the frames of an event stream.
type eventStream struct {
	res   *http.Response
	lines *bufio.Reader
}

// stream opens an event stream. It ends the test if the server rejects the
// request.
func (c client) stream(t *testing.T, method, path string, body any) *eventStream {
	t.Helper()
	res := c.open(t, method, path, body)
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		data, _ := io.ReadAll(res.Body)
		t.Fatalf("%s %s: got %d %s, want an event stream", method, path, res.StatusCode, data)
	}
	s := streamOf(res.Body)
	s.res = res
	return s
}

// streamOf returns an eventStream that reads from r.
func streamOf(r io.Reader) *eventStream { return &eventStream{lines: bufio.NewReader(r)} }

// next returns the next frame, or false at the end of the stream.
func (s *eventStream) next(t *testing.T) (frame, bool) {
	t.Helper()
	var f frame
	for {
		line, err := s.lines.ReadString('\n')
		if err == io.EOF && line == "" {
			return f, false
		}
		if err != nil {
			t.Fatalf("event stream: %v", err)
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "\n" && (f.event != "" || f.comment != ""):
			return f, true
		case line == "\n":
		case name == "":
			f.comment = value
		case name == "id":
			f.id = value
		case name == "event":
			f.event = value
		case name == "data":
			if err := json.Unmarshal([]byte(value), &f.data); err != nil {
				t.Fatalf("event stream: %v in %s", err, value)
			}
		default:
			t.Fatalf("event stream: unknown line %q", line)
		}
	}
}

// rest returns the remaining frames of the stream, without comments.
func (s *eventStream) rest(t *testing.T) frames {
	t.Helper()
	var all frames
	for f, ok := s.next(t); ok; f, ok = s.next(t) {
		if f.event != "" {
			all = append(all, f)
		}
	}
	return all
}

// close closes the stream on the client's side.
func (s *eventStream) close() { _ = s.res.Body.Close() }

// equal reports an error unless got and want encode to the same JSON.
func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	g, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	w, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(g, w) {
		t.Errorf("%s: got %s, want %s", what, g, w)
	}
}

// number formats an integer from JSON as text.
func number(n float64) string { return strconv.FormatInt(int64(n), 10) }

// at returns the value at a path of keys and indexes in a JSON value, or nil if
// there is none.
func at(value any, path ...any) any {
	for _, step := range path {
		switch s := step.(type) {
		case string:
			o, _ := value.(object)
			value = o[s]
		case int:
			list, _ := value.([]any)
			if s >= len(list) {
				return nil
			}
			value = list[s]
		default:
			panic(fmt.Sprintf("a path has strings and ints, not %T", step))
		}
	}
	return value
}

// readFrames returns the complete frames at the beginning of an event stream.
// It ignores an incomplete last frame.
func readFrames(t *testing.T, body []byte) frames {
	t.Helper()
	whole := body[:bytes.LastIndex(body, []byte("\n\n"))+2]
	return streamOf(bytes.NewReader(whole)).rest(t)
}

// token creates a token with the scopes. If projectDir is not "", the token is
// limited to that project.
func (s *server) token(t *testing.T, projectDir string, scopes ...string) string {
	t.Helper()
	body := object{"name": "test", "scopes": scopes}
	if projectDir != "" {
		body["projectDir"] = projectDir
	}
	return s.post(t, "/api/tokens", body).ok(t, http.StatusCreated)["token"].(string)
}

// asPage returns a client without a credential that sends requests as the page
// does. It connects to the address of the API, because not every system
// resolves the name of the page.
func (s *server) asPage() client {
	return s.as("").with("Host", strings.TrimPrefix(s.Page, "http://")).with("Origin", s.Page)
}

// browser logs a browser in. It returns a client with the browser's cookie and
// key, and the response to the login.
func (s *server) browser(t *testing.T) (client, answer) {
	t.Helper()
	code := s.post(t, "/api/login/code", object{}).ok(t, http.StatusCreated)["code"]
	login := s.asPage().post(t, "/api/login", object{"code": code})
	key := login.ok(t, http.StatusOK)["key"].(string)
	cookie, _, _ := strings.Cut(login.header.Get("Set-Cookie"), ";")
	return s.asPage().with("Cookie", cookie).with("Runnel-Key", key).with("Sec-Fetch-Site", "same-origin"), login
}

// symlink makes a symbolic link.
func symlink(t *testing.T, target, link string) {
	t.Helper()
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
}
