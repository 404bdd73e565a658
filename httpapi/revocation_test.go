package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/httpapi/reply"
)

// doomed creates a credential, which end revokes.
func (rg *rig) doomed() (secret string, end func()) {
	rg.t.Helper()
	secret, tok, err := rg.keyed.Create(rg.t.Context(), auth.Grant{Name: "doomed", Scopes: auth.All()})
	if err != nil {
		rg.t.Fatal(err)
	}
	return secret, func() {
		rg.t.Helper()
		call[reply.Empty](rg, "POST", "/api/tokens/"+tok.ID+"/revoke", "{}", 200)
	}
}

// TestRevokeEndsRequests revokes a credential while its requests hang, either
// because half of a body is missing or because the client does not read the
// answer.
func TestRevokeEndsRequests(t *testing.T) {
	const half = "POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer TOKEN\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
	const slow = "GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer TOKEN\r\n\r\n"
	send := `{"content":"text"}`
	create := `{"cliType":"script","projectDir":"DIR"}`
	for name, tt := range map[string]struct {
		head   string
		rest   string // sent after the revocation
		answer string // status of the answer; "" if it was aborted
	}{
		"send":    {fmt.Sprintf(half, "/api/session/ID/send", len(send), send[:5]), send[5:], "401"},
		"create":  {fmt.Sprintf(half, "/api/session/create", 500, create), strings.Repeat(" ", 400), "401"},
		"turn":    {fmt.Sprintf(half, "/api/harness/turn", 500, "{"), "}", "401"},
		"token":   {fmt.Sprintf(half, "/api/tokens", 500, "{"), "}", "401"},
		"upload":  {strings.Replace(fmt.Sprintf(half, "/api/uploads?name=f.txt", 500, "half"), "/json", "/octet-stream", 1), "file", "401"},
		"refused": {fmt.Sprintf(half, "/api/uploads?name=f", 500, "half"), "file", "415"}, // before its body is read
		"revoke":  {fmt.Sprintf(half, "/api/tokens/x/revoke", 500, "{"), "}", "408"},
		"logout":  {fmt.Sprintf(half, "/api/logout", 500, "{"), "}", "408"},
		"items":   {fmt.Sprintf(slow, "/api/session/ID/items"), "", ""},
		"jsonl":   {fmt.Sprintf(slow, "/api/session/ID/export?format=jsonl"), "", ""},
		"html":    {fmt.Sprintf(slow, "/api/session/ID/export?format=html"), "", ""},
		"md":      {fmt.Sprintf(slow, "/api/session/ID/export?format=md"), "", ""},
		"events":  {fmt.Sprintf(slow, "/api/session/ID/events"), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			timed(t, minute)
			synctest.Test(t, func(t *testing.T) {
				s := serve(t)
				id := s.create()
				s.events(id, s.prompt(id, burst(3000)))
				head, _ := s.log.State(t.Context(), id)
				sessions := len(s.do("GET", "/api/session/list", "").Body.String())
				secret, end := s.doomed()
				c, err := s.ln.dial(t.Context(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				_, _ = io.WriteString(c, strings.NewReplacer("ID", id, "DIR", s.dir, "TOKEN", secret).Replace(tt.head))
				synctest.Wait()
				began := time.Now()
				end()
				go func() { _, _ = io.WriteString(c, tt.rest) }()
				if tt.answer == "" { // one write may be running
					<-time.After(time.Second)
				}
				got, _ := io.ReadAll(c)
				if took := time.Since(began); took > time.Second {
					t.Errorf("served for %v", took)
				}
				if len(got) > 0 && tt.answer == "" || tt.answer != "" && !strings.HasPrefix(string(got), "HTTP/1.1 "+tt.answer) {
					t.Errorf("got %.300q", got)
				}
				synctest.Wait()
				if now, _ := s.log.State(t.Context(), id); now.Head != head.Head {
					t.Error("the session has further events")
				}
				if now := len(s.do("GET", "/api/session/list", "").Body.String()); now != sessions {
					t.Error("a session was made")
				}
				if streams, exports, _ := s.streams.Counts(); streams+exports != 0 {
					t.Errorf("%d streams and %d exports are open", streams, exports)
				}
			})
		})
	}
}

// TestRevokeOfOneselfIsAnswered revokes credentials by requests of their own.
func TestRevokeOfOneselfIsAnswered(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	secret, tok, err := s.keyed.Create(t.Context(), auth.Grant{Name: "own", Scopes: auth.All()})
	if err != nil {
		t.Fatal(err)
	}
	own := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+secret) }
	if res := s.roundTrip("POST", "/api/tokens/"+tok.ID+"/revoke", "{}", own); res.StatusCode != http.StatusOK || string(all(t, res.Body)) != "{}\n" {
		t.Errorf("got %s", res.Status)
	}
	if res := s.get("/api/me", own); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("afterwards: %s", res.Status)
	}
}

// TestRevokeEndsRequestsOfHTTP2 revokes a credential whose requests share a
// connection with those of another one, which continue.
func TestRevokeEndsRequestsOfHTTP2(t *testing.T) {
	timed(t, minute)
	rg := newRig(t)
	id := rg.create()
	for range 2 { // more than the 4 MiB that the client accepts for a stream before it reads
		rg.events(id, rg.prompt(id, bulk(1_000_000)))
	}
	ts := httptest.NewUnstartedServer(nil)
	ts.Config, ts.EnableHTTP2 = rg.HTTPServer(), true
	ts.StartTLS()
	defer ts.Close()
	secret, end := rg.doomed()
	ask := func(method, target, token string, body io.Reader) (*http.Response, error) {
		req, err := http.NewRequestWithContext(t.Context(), method, ts.URL+target, body)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "own.localhost:7777"
		req.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}}
		return ts.Client().Do(req)
	}
	export, err := ask("GET", "/api/session/"+id+"/export?format=jsonl", secret, nil)
	if err != nil || export.StatusCode != http.StatusOK || export.ProtoMajor != 2 {
		t.Fatalf("%v %v", export, err)
	}
	defer export.Body.Close()
	body, half := net.Pipe()
	defer half.Close()
	answered := make(chan int)
	go func() {
		res, err := ask("POST", "/api/session/"+id+"/send", secret, body)
		if err != nil {
			t.Error(err)
			answered <- 0
			return
		}
		defer res.Body.Close()
		answered <- res.StatusCode
	}()
	if _, err := io.WriteString(half, `{"content":`); err != nil { // the client has sent the headers
		t.Fatal(err)
	}
	end()
	if status := <-answered; status != http.StatusUnauthorized {
		t.Errorf("half a body: %d", status)
	}
	r := bufio.NewReader(export.Body)
	n, err := io.Copy(io.Discard, r)
	if err == nil {
		t.Errorf("the export ends well after %d bytes", n)
	}
	res, err := ask("GET", "/api/me", rg.token, nil)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("another credential: %v %v", res, err)
	}
	res.Body.Close()
}

// TestRevokeBetweenCheckAndBind revokes a credential after it was checked and
// before its request is bound to it.
func TestRevokeBetweenCheckAndBind(t *testing.T) {
	rg := newRig(t)
	secret, end := rg.doomed()
	req := rg.request("GET", "/api/me", "", header("Authorization", "Bearer "+secret))
	authorized, err := rg.gate.authorize(httptest.NewRecorder(), req, rg.router.find(req))
	if err != nil {
		t.Fatal(err)
	}
	end()
	w := &statusWriter{ResponseWriter: httptest.NewRecorder()}
	rg.served(w, authorized, rg.router.find(req))
	if w.status != http.StatusUnauthorized {
		t.Errorf("answered with %d", w.status)
	}
	if context.Cause(authorized.Context()) != nil {
		t.Error("the client's own context ended")
	}
}
