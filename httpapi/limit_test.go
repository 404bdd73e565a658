package httpapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/httpapi/stream"
)

// A credential that reaches a limit does not affect other credentials.
func TestLimitsOfACredential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rg := newRig(t, func(c *Config, g *gateway.Config) {
			c.Limits = Limits{Sessions: 2, UploadBytes: 30 << 20}
			g.IdleTimeout = -1
		})
		mine, other := rg.token, rg.mint(auth.All()...)
		octets := header("Content-Type", "application/octet-stream")
		create := func() int {
			body, _ := json.Marshal(createRequest{CLIType: "script", ProjectDir: rg.dir})
			return rg.do("POST", "/api/session/create", string(body)).Code
		}
		upload := func(n int) int {
			w := rg.do("POST", "/api/uploads?name=a.txt", strings.Repeat("a", n), octets)
			return w.Code
		}
		for i, want := range []int{201, 201, 429, 429} {
			if got := create(); got != want {
				t.Errorf("session %d: got %d, want %d", i, got, want)
			}
		}
		body, _ := json.Marshal(harnessCreateRequest{CLIType: "script", ProjectRoot: rg.dir})
		if w := rg.do("POST", "/api/harness/session/create", string(body)); w.Code != 429 || code(w) != "RATE_LIMITED" || w.Header().Get("Retry-After") == "" {
			t.Errorf("by the harness: got %d %s", w.Code, w.Body)
		}
		for i, want := range []int{201, 201, 429} { // each may have 10 MiB, so the third might exceed the limit
			if got := upload(10<<20 + -i); got != want {
				if i < 2 || got != 201 {
					t.Errorf("upload %d: got %d, want %d", i, got, want)
				}
			}
		}
		if got := upload(1); got != 429 {
			t.Errorf("an upload beyond the limit: got %d", got)
		}
		rg.token = other
		if got := create(); got != 201 {
			t.Errorf("another's session: got %d", got)
		}
		if got := upload(1); got != 201 {
			t.Errorf("another's upload: got %d", got)
		}
		rg.token = mine
		<-time.After(time.Minute)
		if got := create(); got != 201 {
			t.Errorf("a minute later: got %d", got)
		}
		<-time.After(uploadDay)
		for range 40 { // a small upload counts with its own size
			if got := upload(1); got != 201 {
				t.Fatalf("a day later: got %d", got)
			}
		}
	})
}

func TestLimitOfExports(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	s.events(id, s.prompt(id, bulk(1_000_000)))
	first, second := s.get("/api/session/"+id+"/export?format=jsonl"), s.get("/api/session/"+id+"/export?format=md")
	third := s.get("/api/session/" + id + "/export?format=jsonl") // the other exports are not read
	if first.StatusCode != 200 || second.StatusCode != 200 || third.StatusCode != 429 {
		t.Errorf("got %d, %d, %d", first.StatusCode, second.StatusCode, third.StatusCode)
	}
	all(t, first.Body)
	again := s.get("/api/session/" + id + "/export?format=jsonl")
	for again.StatusCode == 429 { // the handler of the closed export is about to return
		again = s.get("/api/session/" + id + "/export?format=jsonl")
	}
	if again.StatusCode != 200 {
		t.Errorf("after one has ended: got %d", again.StatusCode)
	}
}

func TestLimitOfTheQueue(t *testing.T) {
	rg := newRig(t)
	id := rg.create()
	rg.prompt(id, "hang")
	rg.until(id, is[event.ResponseStart])
	got := map[int]int{}
	for i := range 60 {
		w := rg.do("POST", "/api/session/"+id+"/send", fmt.Sprintf(`{"content":"%d","queue":true}`, i))
		got[w.Code]++
	}
	if got[202] != 50 || got[429] != 10 {
		t.Errorf("got %v", got)
	}
	if st := call[gateway.Status](rg, "GET", "/api/session/"+id+"/status", "", 200); st.Queued != 50 {
		t.Errorf("%d wait", st.Queued)
	}
	call[reply.Empty](rg, "POST", "/api/session/"+id+"/kill", "", 200)
}

func TestItemsHaveALimit(t *testing.T) {
	rg := newRig(t)
	id := rg.create()
	for range 3 {
		rg.events(id, rg.prompt(id, "text"))
	}
	for _, limit := range []string{"0", "1", "9223372036854775807"} {
		if n := len(call[stream.ItemsAnswer](rg, "GET", "/api/session/"+id+"/items?limit="+limit, "", 200).Items); n == 0 || n > 1000 {
			t.Errorf("limit %s: %d items", limit, n)
		}
	}
}

// Each limit of subscriptions names its setting in the error and in the metric. A
// subscription that ends makes room.
func TestLimitsOfSubscriptions(t *testing.T) {
	for setting, tt := range map[string]struct {
		limit func(l *Limits)
		code  runnel.Code
		other bool // another credential is limited, too
	}{
		"max-subscriptions":                {func(l *Limits) { l.Subscriptions = 2 }, runnel.Overloaded, true},
		"max-subscriptions-per-credential": {func(l *Limits) { l.SubscriptionsPerCredential = 2 }, runnel.RateLimited, false},
	} {
		t.Run(setting, func(t *testing.T) {
			timed(t, minute)
			s := serve(t, func(c *Config, _ *gateway.Config) { tt.limit(&c.Limits) })
			one, two, three := s.create(), s.create(), s.create()
			refused := func(what string, want bool, f frame) {
				t.Helper()
				if got := f.Error != nil; got != want || want && (f.Error.Type != tt.code || !strings.Contains(f.Error.Message, setting+": 2")) {
					t.Errorf("%s: got %s %+v", what, f.Type, f.Error)
				}
			}
			p := s.join(stream.FamilyUpsert)
			subscribe := func(p *peer, id string) frame {
				p.send(`{"type":"session:subscribe","requestId":%q,"sessionId":%q}`, id, id)
				for {
					if f := p.receive(); f.RequestID == id || f.SessionID == id && f.Type == "session:history" {
						return f
					}
				}
			}
			refused("the first", false, subscribe(p, one))
			refused("the second", false, subscribe(p, two))
			refused("the third", true, subscribe(p, three))
			own := s.token
			s.token = s.mint(auth.All()...)
			other := s.join(stream.FamilyUpsert)
			refused("of another credential", tt.other, subscribe(other, three))
			s.token = own
			p.send(`{"type":"session:unsubscribe","requestId":"off","sessionId":%q}`, one)
			for p.receive().RequestID != "off" {
			}
			refused("after one has ended", false, subscribe(p, one))
			if got := s.do("GET", "/metrics", "").Body.String(); !strings.Contains(got, `runnel_limit_reached_total{limit="`+setting+`"}`) {
				t.Error("it was not counted")
			}
		})
	}
}
