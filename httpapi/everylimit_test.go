package httpapi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/httpapi/stream"
)

// A limitError is what a client receives when it reaches a limit.
type limitError struct {
	status  int // HTTP status or close code; 0 if there is none
	code    string
	text    string
	details any // value of details.limit; nil if there are no details
}

// limitErrorOf returns the error in an answer.
func limitErrorOf(w *httptest.ResponseRecorder) limitError {
	var e reply.ErrorBody
	_ = json.Unmarshal(w.Body.Bytes(), &e)
	return limitError{w.Code, string(e.Error.Type), e.Error.Message, limitOf(e.Error.Details)}
}

// limitOf returns the setting that the details of an error name.
func limitOf(details any) any {
	m, _ := details.(map[string]any)
	return m["limit"]
}

// A limitCase reaches the limit of one setting.
type limitCase struct {
	version int // of HTTP. Default: 1
	edit    func(*Config, *gateway.Config)
	reach   func(s *site) limitError
	want    limitError // without text; its details are the setting unless unnamed is true
	unnamed bool       // the client receives no details
	silent  bool       // the client receives no text: its connection is cut
	counts  int        // how often reach reaches the limit. Default: 1
}

// limitCases returns a case for each limit, by the name of its setting.
func limitCases() map[string]limitCase {
	const mib = 1 << 20
	large := `{"steps":[{"text":"` + strings.Repeat("x", 100_000) + ` ","repeat":30}]}` // three megabytes
	endless := strings.TrimSuffix(large, "]}") + `,{"hang":true}]}`                     // only a limit ends this turn
	limited := func(set func(*Limits)) func(*Config, *gateway.Config) {
		return func(c *Config, _ *gateway.Config) { set(&c.Limits) }
	}
	ofGateway := func(l gateway.Limits) func(*Config, *gateway.Config) {
		return func(_ *Config, g *gateway.Config) { g.Limits, g.IdleTimeout = l, -1 }
	}
	create := func(s *site) limitError {
		body, _ := json.Marshal(createRequest{CLIType: "script", ProjectDir: s.dir})
		s.create()
		return limitErrorOf(s.do("POST", "/api/session/create", string(body)))
	}
	follow := func(s *site) limitError {
		id := s.create()
		s.get("/api/session/" + id + "/events")
		return limitErrorOf(s.do("GET", "/api/session/"+id+"/events", ""))
	}
	subscribe := func(s *site) limitError {
		first, second := s.create(), s.create()
		p := s.subscribed(stream.FamilyUpsert, first)
		p.send(`{"type":"session:subscribe","sessionId":%q,"requestId":"second"}`, second)
		f := p.await("error")
		return limitError{0, string(f.Error.Type), f.Error.Message, limitOf(f.Error.Details)}
	}
	few, many := limitError{status: 503, code: "OVERLOADED"}, limitError{status: 429, code: "RATE_LIMITED"}
	return map[string]limitCase{
		"max-agents":                      {edit: ofGateway(gateway.Limits{Agents: 1}), reach: create, want: few},
		"max-agents-per-credential":       {edit: ofGateway(gateway.Limits{AgentsPerCredential: 1}), reach: create, want: many},
		"max-sessions":                    {edit: ofGateway(gateway.Limits{Sessions: 1}), reach: create, want: few},
		"max-sessions-per-credential":     {edit: ofGateway(gateway.Limits{SessionsPerCredential: 1}), reach: create, want: many},
		"max-new-sessions-per-credential": {edit: limited(func(l *Limits) { l.Sessions = 1 }), reach: create, want: many},
		"max-turn-mib": {edit: ofGateway(gateway.Limits{TurnBytes: mib}), want: limitError{code: "PAYLOAD_TOO_LARGE"}, unnamed: true, reach: func(s *site) limitError {
			id := s.create()
			evs := s.events(id, s.prompt(id, endless))
			end, _ := evs[len(evs)-1].Body.(event.ResponseError)
			return limitError{code: end.Error.Code, text: end.Error.Message}
		}},
		"max-session-mib": {edit: ofGateway(gateway.Limits{SessionBytes: mib}), want: limitError{status: 413, code: "PAYLOAD_TOO_LARGE"}, counts: 2, reach: func(s *site) limitError {
			id := s.create()
			s.events(id, s.prompt(id, endless))
			return limitErrorOf(s.do("POST", "/api/session/"+id+"/send", `{"content":"again"}`))
		}},
		"max-upload-mib-per-credential": {edit: limited(func(l *Limits) { l.UploadBytes = mib }), want: many, reach: func(s *site) limitError {
			return limitErrorOf(s.do("POST", "/api/uploads?name=a.txt", "a", header("Content-Type", "application/octet-stream")))
		}},
		"max-exports-per-credential": {edit: limited(func(l *Limits) { l.Exports = 1 }), want: many, reach: func(s *site) limitError {
			id := s.create()
			s.events(id, s.prompt(id, large))
			s.get("/api/session/" + id + "/export?format=jsonl") // whose body nobody reads
			return limitErrorOf(s.do("GET", "/api/session/"+id+"/export?format=jsonl", ""))
		}},
		"max-file-requests-per-credential": {edit: limited(func(l *Limits) { l.FileRequests = 1 }), want: many, reach: func(s *site) limitError {
			id := s.create()
			s.do("GET", "/api/session/"+id+"/file?path=a.txt", "")
			return limitErrorOf(s.do("GET", "/api/session/"+id+"/image?path=a.png", ""))
		}},
		"max-streams":                      {edit: limited(func(l *Limits) { l.Streams = 1 }), reach: follow, want: few},
		"max-streams-per-credential":       {edit: limited(func(l *Limits) { l.StreamsPerCredential = 1 }), reach: follow, want: many},
		"max-subscriptions":                {edit: limited(func(l *Limits) { l.Subscriptions = 1 }), reach: subscribe, want: limitError{code: "OVERLOADED"}},
		"max-subscriptions-per-credential": {edit: limited(func(l *Limits) { l.SubscriptionsPerCredential = 1 }), reach: subscribe, want: limitError{code: "RATE_LIMITED"}},
		"max-subscriptions-per-connection": {edit: limited(func(l *Limits) { l.SubscriptionsPerConnection = 1 }), reach: subscribe, want: limitError{code: "RATE_LIMITED"}},
		"max-unread-mib": {edit: limited(func(l *Limits) { l.UnreadBytes = mib }), silent: true, reach: func(s *site) limitError {
			id := s.create()
			s.events(id, s.prompt(id, large))
			for range 2 {
				s.get("/api/session/" + id + "/items") // whose body nobody reads
				synctest.Wait()
			}
			return limitError{}
		}},
		"max-arriving-mib-per-credential": {edit: limited(func(l *Limits) { l.ArrivingBytes = mib }), want: many, reach: func(s *site) limitError {
			id := s.create()
			s.rawRequest("POST /api/session/" + id + "/send HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + s.token +
				"\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(mib) + "\r\n\r\n{")
			synctest.Wait()
			return limitErrorOf(s.do("POST", "/api/session/"+id+"/send", `{"content":"text"}`))
		}},
		"max-fragments": {edit: limited(func(l *Limits) { l.Fragments = 3 }), want: limitError{status: 1008}, unnamed: true, reach: func(s *site) limitError {
			p := s.dial()
			go func() {
				_, _ = p.raw.Write(append([]byte{0x01, 0x80, 0, 0, 0, 0}, bytes.Repeat([]byte{0x00, 0x80, 0, 0, 0, 0}, 8)...)) // a message in empty fragments
			}()
			_, err := p.tryReceive()
			var closed websocket.CloseError
			errors.As(err, &closed)
			return limitError{status: int(closed.Code), text: closed.Reason}
		}},
		"max-connections": {want: few, unnamed: true, reach: func(s *site) limitError {
			second := &site{rig: s.rig, ln: s.listen(1, 10)}
			id := s.create()
			open := second.rawRequest("GET /api/session/" + id + "/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + s.token + "\r\n\r\n")
			readHead(s.t, open)
			res, err := http.ReadResponse(bufio.NewReader(second.rawRequest("")), nil)
			if err != nil {
				s.t.Fatal(err)
			}
			var e reply.ErrorBody
			_ = json.NewDecoder(res.Body).Decode(&e)
			return limitError{status: res.StatusCode, code: string(e.Error.Type), text: e.Error.Message}
		}},
		"max-unauthenticated-connections": {silent: true, reach: func(s *site) limitError {
			second := &site{rig: s.rig, ln: s.listen(10, 1)}
			first := second.rawRequest("")
			second.rawRequest("")
			if _, err := first.Read(make([]byte, 1)); err == nil {
				s.t.Error("the first connection is open")
			}
			return limitError{}
		}},
		"max-unauthenticated-requests": {version: 2, edit: limited(func(l *Limits) { l.UnauthenticatedRequests = 1 }), want: many, reach: func(s *site) limitError {
			slow, _ := io.Pipe()
			login := func(body io.Reader) (*http.Response, error) {
				req, err := http.NewRequestWithContext(s.t.Context(), "POST", "http://own.localhost:7777/api/login", body)
				if err != nil {
					return nil, err
				}
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("Origin", "http://own.localhost:7777")
				return s.client.Do(req)
			}
			go func() {
				if res, err := login(slow); err == nil {
					res.Body.Close()
				}
			}()
			synctest.Wait()
			res, err := login(strings.NewReader(`{"code":"x"}`))
			if err != nil {
				s.t.Fatal(err)
			}
			defer res.Body.Close()
			w := httptest.NewRecorder()
			w.Code = res.StatusCode
			_, _ = io.Copy(w.Body, res.Body)
			return limitErrorOf(w)
		}},
	}
}

// rawRequest opens a connection and sends text, if it is not empty.
func (s *site) rawRequest(text string) net.Conn {
	s.t.Helper()
	c, err := s.ln.dial(s.t.Context(), "", "")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	if text == "" {
		return c
	}
	if _, err := io.WriteString(c, text); err != nil {
		s.t.Fatal(err)
	}
	return c
}

// listen serves s at a further listener with limits for its connections.
func (s *site) listen(open, unauthenticated int) *pipes {
	ln := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	hs := s.HTTPServer()
	done := make(chan struct{})
	go func() { defer close(done); _ = hs.Serve(s.Limit(ln, open, unauthenticated)) }()
	s.t.Cleanup(func() { _ = hs.Close(); <-done })
	return ln
}

// TestEveryLimitIsNamedAndCounted reaches each limit. The client must receive a
// status and an error that names the setting, and the metric must count it once
// more.
func TestEveryLimitIsNamedAndCounted(t *testing.T) {
	for setting, c := range limitCases() {
		t.Run(setting, func(t *testing.T) {
			timed(t, minute)
			synctest.Test(t, func(t *testing.T) {
				edit := c.edit
				if edit == nil {
					edit = func(*Config, *gateway.Config) {}
				}
				t.Cleanup(func() { time.Sleep(time.Minute) }) //nolint:forbidigo // virtual time, the last cleanup; net/http lingers on connections that it closes
				s := serveOver(t, max(c.version, 1), edit)
				if n := s.limitReached(setting); n != 0 {
					t.Errorf("counted %d times before it was reached", n)
				}
				got := c.reach(s)
				synctest.Wait()
				if !c.silent && !strings.Contains(got.text, setting) {
					t.Errorf("the error does not name the setting: %q", got.text)
				}
				if got.text = ""; !c.unnamed && !c.silent {
					c.want.details = setting
				}
				if got != c.want {
					t.Errorf("got %+v, want %+v", got, c.want)
				}
				if n, want := s.limitReached(setting), max(c.counts, 1); n != want {
					t.Errorf("the metric counts %d, want %d", n, want)
				}
			})
		})
	}
}

// limitReached returns how often the limit of a setting was reached, by the
// metrics.
func (s *site) limitReached(setting string) int {
	s.t.Helper()
	text := s.do("GET", "/metrics", "").Body.String()
	_, after, _ := strings.Cut(text, fmt.Sprintf("runnel_limit_reached_total{limit=%q} ", setting))
	line, _, _ := strings.Cut(after, "\n")
	if line == "" {
		return 0
	}
	n, err := strconv.Atoi(line)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// TestEveryDocumentedLimitIsTested compares the table of limits in the
// documentation with the cases of TestEveryLimitIsNamedAndCounted.
func TestEveryDocumentedLimitIsTested(t *testing.T) {
	text, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Limits\n")
	section, _, _ = strings.Cut(section, "\n## ")
	documented := make(map[string]bool)
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "| `max-") {
			continue
		}
		names, _, _ := strings.Cut(line[2:], " |")
		for _, m := range regexp.MustCompile("`(max-[a-z-]+)`").FindAllStringSubmatch(names, -1) {
			documented[m[1]] = true
		}
	}
	tested := limitCases()
	for name := range documented {
		if _, ok := tested[name]; !ok {
			t.Errorf("no case reaches the limit %s", name)
		}
	}
	for name := range tested {
		if !documented[name] {
			t.Errorf("%s is not in the table of docs/configuration.md", name)
		}
	}
}
