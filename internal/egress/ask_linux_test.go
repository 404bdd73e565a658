package egress

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// asking is a Config.Ask that allows the hosts in allow and records all others.
type asking struct {
	allow []string

	mu    sync.Mutex
	asked []string
}

func (q *asking) ask(_ context.Context, host string, port int) Answer {
	at := fmt.Sprintf("%s|%d", host, port)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asked = append(q.asked, at)
	if slices.Contains(q.allow, at) {
		return Answer{By: "allowed once"}
	}
	return Answer{Why: "denied"}
}

func TestProxyAsksAboutUnlistedHosts(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	defer server.Close()
	p := policy(t, []string{"api.example.com"}, nil, nil)
	p.Ask, p.Unasked = true, "model.example.com"
	q := &asking{allow: []string{"model.example.com|443", "new.example.com|443", "NEW.example.com|8443", "intern.example.com|443", "here.example.com|443", "93.184.216.40|443", "unknown.example.com|443"}}
	r := newAskingRig(t, p, server.Listener.Addr().String(), q.ask)
	r.hosts = map[string]string{"api.example.com": "93.184.216.34", "new.example.com": "93.184.216.35", "intern.example.com": "10.0.0.1", "here.example.com": "203.0.113.7"}
	for _, c := range []struct {
		host   string
		port   int
		status int
		asked  string // "" if nobody is asked
		why    string
	}{
		{"api.example.com", 443, 200, "", ""},
		{"new.example.com", 443, 200, "new.example.com|443", ""},
		{"NEW.example.com.", 8443, 200, "NEW.example.com|8443", ""},
		{"new.example.com", 22, 403, "new.example.com|22", "denied"},
		{"api.example.com", 8443, 403, "api.example.com|8443", "denied"},
		{"93.184.216.40", 443, 200, "93.184.216.40|443", ""},
		{"::ffff:5db8:d828", 443, 200, "93.184.216.40|443", ""},
		{"intern.example.com", 443, 403, "intern.example.com|443", "only egress.allow can"},
		{"here.example.com", 443, 403, "here.example.com|443", "only egress.allow can"},
		{"unknown.example.com", 443, 502, "unknown.example.com|443", "cannot be reached"},
		{"Model.example.com.", 443, 403, "", "through the broker"},
		{"10.0.0.1", 443, 403, "", "not in the session's egress list"},
		{"169.254.169.254", 80, 403, "", "not in the session's egress list"},
		{"127.0.0.1", 443, 403, "", "the port of this machine"},
		{"localhost", 443, 403, "", "the port of this machine"},
		{"*.example.com", 443, 403, "", notListed},
		{"a..b", 443, 403, "", notListed},
		{strings.Repeat("a.", 120) + "toolong.example.com", 443, 400, "", ""},
		{"exa<b>mple.com", 443, 400, "", ""}, // the HTTP server rejects the request's host itself
		{"xn--bcher-kva.example", 443, 403, "xn--bcher-kva.example|443", "denied"},
		{"fe80::1%eth0", 443, 400, "", ""},
	} {
		q.mu.Lock()
		q.asked = nil
		q.mu.Unlock()
		status, conn, _ := r.request(t, "secret", connectTo(c.host, c.port))
		if conn.Close(); status != c.status {
			t.Errorf("%s:%d: status %d, want %d", c.host, c.port, status, c.status)
		}
		if got := strings.Join(q.asked, " "); got != c.asked {
			t.Errorf("%s:%d: asked %q, want %q", c.host, c.port, got, c.asked)
		}
		if status == 400 { // no attempt to connect
			continue
		}
		if a := <-r.ended; (a.By == "") != (a.Why != "" && status == 403) || !strings.Contains(a.Why, c.why) {
			t.Errorf("%s:%d: recorded as %+v", c.host, c.port, a)
		}
	}
}

// A name that nobody has allowed is not resolved: its text would leave the
// machine.
func TestProxyResolvesNothingBeforeTheAnswer(t *testing.T) {
	p := Policy{Ask: true}
	r := newAskingRig(t, p, "127.0.0.1:1", func(context.Context, string, int) Answer { return Answer{Why: "denied"} })
	if status, _, _ := r.request(t, "secret", connectTo("secret.evil.example", 443)); status != 403 {
		t.Errorf("status %d", status)
	}
	if len(r.resolved) > 0 {
		t.Errorf("resolved %q", r.resolved)
	}
}

func TestProxyAsksAboutPlainRequests(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	defer server.Close()
	q := &asking{allow: []string{"deb.example.com|80", "NEW.example.com|80"}}
	r := newAskingRig(t, Policy{Ask: true}, server.Listener.Addr().String(), q.ask)
	r.hosts["deb.example.com"], r.hosts["new.example.com"] = "93.184.216.34", "93.184.216.35"
	for host, want := range map[string]int{"deb.example.com": 200, "NEW.example.com": 200, "other.example.com": 403} {
		status, c, br := r.request(t, "secret", "GET http://"+host+"/x HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n")
		if body, _ := io.ReadAll(br); status != want || status == 403 && !strings.Contains(string(body), "denied") {
			t.Errorf("%s: status %d, want %d: %q", host, status, want, body)
		}
		c.Close()
	}
}

// A question ends with its program's connection and with the proxy, also that of
// a plain request, whose dial outlives the request.
func TestProxyEndsQuestions(t *testing.T) {
	waiting, over := make(chan string), make(chan string)
	r := newAskingRig(t, Policy{Ask: true}, "127.0.0.1:1", func(ctx context.Context, host string, _ int) Answer {
		waiting <- host
		<-ctx.Done()
		over <- host
		return Answer{Why: "nobody answered"}
	})
	for host, request := range map[string]string{
		"left.example.com":  connectTo("left.example.com", 443),
		"plain.example.com": "GET http://plain.example.com/ HTTP/1.1\r\nHost: plain.example.com\r\n\r\n",
	} {
		left, _ := r.open(t, "secret", request)
		<-waiting
		left.Close()
		if got := <-over; got != host {
			t.Errorf("the question about %s is over", got)
		}
	}
	_, _ = r.open(t, "secret", connectTo("a.example.com", 443))
	_, _ = r.open(t, "secret", "GET http://b.example.com/ HTTP/1.1\r\nHost: b.example.com\r\n\r\n")
	<-waiting
	<-waiting
	go r.proxy.Close()
	<-over
	<-over
	for range 4 {
		if a := <-r.ended; a.By != "" || a.Why != "nobody answered" {
			t.Errorf("recorded as %+v", a)
		}
	}
}

func TestProxyWithoutAskRefuses(t *testing.T) {
	for _, p := range []Policy{{}, {Ask: true}} {
		r := newRig(t, p, "127.0.0.1:1")
		if status, _, _ := r.request(t, "secret", connectTo("new.example.com", 443)); status != 403 {
			t.Errorf("%+v: status %d", p, status)
		}
	}
}
