package httpapi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/httpapi/stream"
	"github.com/runnel-dev/runnel/internal/testload"
)

// The first message selects the family of messages for the whole connection.
func TestHelloFamily(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()

	p := s.dial()
	if p.conn.Subprotocol() != subprotocol {
		t.Errorf("subprotocol %q", p.conn.Subprotocol())
	}
	p.send(`{"type":"session:hello","streamProtocol":"events-v1"}`)
	if f := p.receive(); f.Type != "session:hello:ack" || f.Selected != "events-v1" || len(f.Protocols) != 2 {
		t.Errorf("got %+v", f)
	}
	p.send(`{"type":"session:hello","requestId":"h","streamProtocol":"upsert-v1"}`)
	if f := p.receive(); f.Type != "error" || f.RequestID != "h" || f.Error.Type != "INVALID_REQUEST" {
		t.Errorf("a second hello: %+v", f)
	}
	p.send(`{"type":"session:subscribe","sessionId":%q}`, id)
	for f := p.receive(); !f.Done; f = p.receive() {
		if f.Type != "session:history" && f.Type != "session:status" {
			t.Fatalf("got %+v", f)
		}
	}
	s.prompt(id, "tools")
	for f := p.receive(); ; f = p.receive() {
		if f.Type == "session:status" {
			continue
		}
		if f.Type != "session:event" {
			t.Fatalf("%s in events-v1", f.Type)
		}
		if bytes.Contains(f.Payload, []byte("response_done")) {
			break
		}
	}

	p = s.dial() // without a hello the family is the default, for the whole connection
	p.send(`{"type":"session:subscribe","sessionId":%q}`, id)
	for f := p.receive(); !f.Done; f = p.receive() {
	}
	p.send(`{"type":"session:hello","requestId":"late","streamProtocol":"events-v1"}`)
	if f := p.await("error"); f.RequestID != "late" {
		t.Errorf("a late hello: %+v", f)
	}
	turn := s.prompt(id, "text")
	for f := p.receive(); ; f = p.receive() {
		if f.Type == "session:event" || f.Type == "session:hello:ack" {
			t.Fatalf("%s in upsert-v1", f.Type)
		}
		if f.Type == "session:turn" && bytes.Contains(f.Payload, []byte(turn)) && bytes.Contains(f.Payload, []byte("turn_complete")) {
			break
		}
	}

	for _, hello := range []string{`"streamProtocol":"upsert-v2"`, `"streamProtocol":"legacy"`, `"streamProtocol":"UPSERT-V1"`} {
		p = s.dial()
		p.send(`{"type":"session:hello",%s}`, hello)
		if f := p.receive(); f.Type != "error" || f.Error.Type != "INVALID_REQUEST" {
			t.Errorf("%s: %+v", hello, f)
		}
		if c := p.closed(); c != closeBadRequest {
			t.Errorf("%s: closed with %d", hello, c)
		}
	}
	body := s.do("GET", "/metrics", "").Body.String()
	for _, line := range []string{
		`runnel_stream_connections_total{family="events-v1"} 1`, `runnel_stream_connections_total{family="upsert-v1"} 1`,
		`runnel_stream_messages_total{family="events-v1"}`, `runnel_agent_dropped_total{agent="script",what="event"} 0`,
	} {
		if !strings.Contains(body, line) {
			t.Errorf("no %s in the metrics", line)
		}
	}
}

// The WebSocket rejects pages of other hosts and origins.
func TestReboundHostIsRejectedByWebSocket(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	set := func(k, v string) func(http.Header) { return func(h http.Header) { h.Set(k, v) } }
	for name, edit := range map[string][]func(http.Header){
		"rebound":             {set("X-Test-Host", "evil.example:7777"), set("Origin", "http://evil.example:7777")},
		"rebound, no Origin":  {set("X-Test-Host", "evil.example:7777")},
		"evil Origin":         {set("Origin", "http://evil.example")},
		"null Origin":         {set("Origin", "null")},
		"other port":          {set("Origin", "http://localhost:3000")},
		"cross-site metadata": {set("Sec-Fetch-Site", "cross-site"), set("Sec-Fetch-Mode", "websocket")},
		"no credential":       {func(h http.Header) { h.Del("Authorization") }},
	} {
		p, res, err := s.tryDial(edit...)
		if err == nil {
			_ = p.conn.CloseNow()
			t.Errorf("%s: 101", name)
		} else if res == nil || res.StatusCode != 403 && res.StatusCode != 401 {
			t.Errorf("%s: %v %v", name, res, err)
		}
	}
	p := s.dial(set("Origin", "http://own.localhost:7777"))
	p.send(`{"type":"session:hello"}`)
	if f := p.receive(); f.Type != "session:hello:ack" {
		t.Errorf("our own page: %+v", f)
	}
}

// Each message on the WebSocket needs the scope of its command.
func TestWebSocketVerbsNeedScopes(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	s.token = s.mint(auth.Read)
	p := s.dial()
	p.send(`{"type":"session:hello","requestId":"h","scopes":["admin"]}`)
	if f := p.receive(); f.Type != "error" {
		t.Errorf("scopes in the hello: %+v", f)
	}
	for i, m := range []string{
		`"type":"session:send","content":"text"`, `"type":"session:cancel"`, `"type":"session:kill"`, `"type":"session:options","model":"m"`,
		`"type":"session:decide","approvalId":"a","choice":"allow"`,
		`"type":"session:queue:hold","held":false`, `"type":"session:queue:edit","turnId":"t","content":"x"`, `"type":"session:queue:remove","turnId":"t"`,
	} {
		p.send(`{%s,"requestId":"%d","sessionId":%q}`, m, i, id)
		if f := p.receive(); f.Type != "error" || f.RequestID != fmt.Sprint(i) || f.Error.Type != "FORBIDDEN" {
			t.Errorf("%s: %+v", m, f)
		}
	}
}

// When a credential is revoked, its streams end, and no later event reaches its
// client.
func TestRevokeClosesStreams(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	secret, tok, err := s.keyed.Create(t.Context(), auth.Grant{Name: "gone", Scopes: []auth.Scope{auth.Read}})
	if err != nil {
		t.Fatal(err)
	}
	admin := s.token
	s.token = secret
	p := s.dial()
	p.send(`{"type":"session:subscribe","sessionId":%q}`, id)
	for f := p.receive(); !f.Done; f = p.receive() {
	}
	sse := s.get("/api/session/" + id + "/events")
	r := bufio.NewReader(sse.Body)
	if _, err := readFrame(r); err != nil {
		t.Fatal(err)
	}
	s.token = admin
	began := time.Now()
	call[reply.Empty](s.rig, "POST", "/api/tokens/"+tok.ID+"/revoke", "{}", 200)
	s.prompt(id, "text")
	for {
		f, err := p.tryReceive()
		if err != nil {
			if c := websocket.CloseStatus(err); c != closeCredential {
				t.Errorf("closed with %d", c)
			}
			break
		}
		if f.Type == "session:upsert" || f.Type == "session:turn" {
			t.Errorf("got %s after the end of the credential", f.Type)
		}
	}
	for {
		f, err := readFrame(r)
		if err != nil {
			break
		}
		if strings.HasPrefix(f.name, "item_") {
			t.Errorf("got %s after the end of the credential", f.name)
		}
	}
	testload.Within(t, "the revocation", began, 10*time.Second)
}

// A client that reads nothing does not delay a turn. The server closes its
// connection.
func TestStalledClientIsClosed(t *testing.T) {
	timed(t, minute)
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		id := s.create()
		p := s.dial()
		p.send(`{"type":"session:subscribe","sessionId":%q}`, id)
		for f := p.receive(); !f.Done; f = p.receive() {
		}
		began := time.Now()
		turn := s.prompt(id, `{"steps":[{"text":"a ","repeat":5000}]}`) // and nobody reads
		evs := s.events(id, turn)
		if took := time.Since(began); took > time.Second {
			t.Errorf("the turn took %v: it waited for its reader", took)
		}
		<-time.After(30 * time.Second)
		synctest.Wait()
		open, _, _ := s.streams.Counts()
		if open != 0 {
			t.Error("the stalled connection is still open")
		}
		if !strings.Contains(s.do("GET", "/metrics", "").Body.String(), "runnel_streams_stalled_total 1") {
			t.Error("it was not counted")
		}
		_ = evs
	})
}

// A reader that disconnects and resumes sees the same as one that stays.
func TestTwoClientsOneReconnecting(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	const turns = 20
	done := make(chan int64, 1) // the last position
	read := func(rng *rand.Rand) (evs []event.Event) {
		after, last := int64(0), int64(-1)
		for last < 0 || after < last {
			p := s.join(stream.FamilyEvents)
			p.send(`{"type":"session:subscribe","sessionId":%q,"after":%d}`, id, after)
			for n := 1 << 30; n > 0 && (last < 0 || after < last); n-- {
				if rng != nil && n == 1<<30 {
					n = rng.IntN(60) + 1
				}
				f := p.receive()
				for _, ev := range decodeEvents(t, f.Entries) {
					evs, after = append(evs, ev), ev.Seq
				}
				if f.Type == "session:event" {
					got := decodeEvents(t, []json.RawMessage{f.Payload})
					evs, after = append(evs, got...), got[0].Seq
				}
				if last < 0 {
					select {
					case last = <-done:
						done <- last
					default:
					}
				}
			}
			_ = p.conn.CloseNow()
		}
		return evs
	}
	var both sync.WaitGroup
	var stays, comesAndGoes []event.Event
	both.Go(func() { stays = read(nil) })
	both.Go(func() { comesAndGoes = read(rand.New(rand.NewPCG(1, 2))) })
	var want []event.Event
	for i := range turns {
		if i == turns-1 { // the number of events of a turn is known from those before
			n := int64(len(want))
			done <- n + n/int64(i)/2
		}
		want = s.events(id, s.prompt(id, burst(40)))
	}
	both.Wait()
	sameLog(t, stays, want[:len(stays)])
	sameLog(t, comesAndGoes, want[:len(comesAndGoes)])
	if n := <-done; int64(len(stays)) < n || int64(len(comesAndGoes)) < n {
		t.Errorf("saw %d and %d events, want at least %d", len(stays), len(comesAndGoes), n)
	}
}

// Fifty readers of one session receive the same events.
func TestFiftyTabs(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	const tabs = 50
	seen := make([][]string, tabs)
	var ready, finished sync.WaitGroup
	ready.Add(tabs)
	for i := range tabs {
		p := s.join(stream.FamilyEvents)
		finished.Go(func() {
			p.send(`{"type":"session:subscribe","sessionId":%q}`, id)
			for f := p.receive(); !f.Done; f = p.receive() {
			}
			ready.Done()
			for {
				f := p.await("session:event")
				seen[i] = append(seen[i], string(f.Payload))
				if bytes.Contains(f.Payload, []byte("response_done")) {
					return
				}
			}
		})
	}
	ready.Wait()
	s.prompt(id, burst(50))
	finished.Wait()
	for i := range tabs {
		if d := cmp.Diff(seen[0], seen[i]); d != "" {
			t.Fatalf("tab %d differs from tab 0: %s", i, d)
		}
	}
}

// After the answer to session:unsubscribe nothing comes about the session, also
// if its status was about to be sent.
func TestNoStatusFollowsAnUnsubscription(t *testing.T) {
	s := serve(t)
	id := s.create()
	p := s.join("upsert-v1")
	for i := range 300 {
		p.send(`{"type":"session:subscribe","sessionId":%q}`, id)
		p.send(`{"type":"session:unsubscribe","requestId":"off","sessionId":%q}`, id)
		p.await("response")
		p.send(`{"type":"session:unsubscribe","requestId":"fence","sessionId":%q}`, id)
		for f := p.receive(); f.RequestID != "fence"; f = p.receive() {
			t.Fatalf("round %d: got %s after the answer", i, f.Type)
		}
	}
}

func TestWatchSessions(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	first := s.create()
	p := s.dial()
	p.send(`{"type":"sessions:subscribe","requestId":"w"}`)
	status := func() gateway.Status {
		var st gateway.Status
		if err := json.Unmarshal(p.await("session:status").Payload, &st); err != nil {
			t.Fatal(err)
		}
		return st
	}
	if st := status(); st.SessionID != first || st.Activity != "idle" {
		t.Errorf("at once: %+v", st)
	}
	second := s.create()
	for st := status(); st.SessionID != second; st = status() {
	}
	s.prompt(second, "approve")
	for st := status(); len(st.PendingApprovals) != 1 || st.Activity != "waiting" || st.Title != "approve"; st = status() {
	}
	call[reply.Empty](s.rig, "POST", "/api/session/"+second+"/kill", "", 200)
	for st := status(); st.State != "dead"; st = status() {
	}
	call[okAnswer](s.rig, "DELETE", "/api/harness/session/"+first, "", 200)
	for st := status(); st.SessionID != first || st.State != "dead"; st = status() {
	}
}

func TestAnswerToASubscriptionOfAllSessionsPrecedesTheirStatuses(t *testing.T) {
	s := serve(t)
	s.create()
	for i := range 60 {
		p := s.dial()
		p.send(`{"type":"sessions:subscribe","requestId":"w"}`)
		if f := p.receive(); f.Type != "response" {
			t.Fatalf("connection %d: got %s first", i, f.Type)
		}
		p.await("session:status")
	}
}

// Lists of commands are long, so a connection receives them only when they have
// changed.
func TestStatusHasChangedCommandsOnly(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	p := s.dial()
	p.send(`{"type":"sessions:subscribe"}`)
	p.await("session:status")                      // from the list, which has no commands
	next := func(title string) (commands string) { // until a turn with this title has ended
		for {
			var st gateway.Status
			f := p.await("session:status")
			if err := json.Unmarshal(f.Payload, &st); err != nil {
				t.Fatal(err)
			}
			for _, c := range st.Commands {
				commands += c.Name + " "
			}
			if st.LastLine == title && st.Activity == event.ActivityIdle && st.TurnID == "" {
				return commands
			}
		}
	}
	turn := func(name, says string) string {
		s.prompt(id, `{"steps":[{"session":{"commands":[{"name":"`+name+`"}]}},{"text":"`+says+`"}]}`)
		return next(says)
	}
	for i, step := range []struct{ name, want string }{{"compact", "compact "}, {"compact", ""}, {"review", "review "}} {
		if got := turn(step.name, fmt.Sprint("answer", i)); got != step.want {
			t.Errorf("turn %d: commands %q, want %q", i, got, step.want)
		}
	}
	if st := call[gateway.Status](s.rig, "GET", "/api/session/"+id+"/status", "", 200); len(st.Commands) != 1 || st.Commands[0].Name != "review" {
		t.Errorf("got %+v", st.Commands)
	}
}

// When the server shuts down, every WebSocket closes with the code for that,
// and every turn ends in the log.
func TestShutdownEndsStreams(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	ids := make([]string, 10)
	for i := range ids {
		ids[i] = s.create()
		s.prompt(ids[i], "hang")
	}
	peers := make([]*peer, 50)
	for i := range peers {
		peers[i] = s.join(stream.FamilyEvents)
		peers[i].send(`{"type":"session:subscribe","sessionId":%q}`, ids[i%len(ids)])
	}
	began := time.Now()
	var all sync.WaitGroup
	for _, p := range peers {
		all.Go(func() {
			for {
				if _, err := p.tryReceive(); err != nil {
					if c := websocket.CloseStatus(err); c != websocket.StatusGoingAway {
						t.Errorf("closed with %d: %v", c, err)
					}
					return
				}
			}
		})
	}
	if err := s.gw.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.EndStreams(t.Context()); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	testload.Within(t, "the end", began, 10*time.Second)
	for _, id := range ids {
		if st, _ := s.log.State(t.Context(), id); len(st.Open) != 0 {
			t.Errorf("the turn of %s has no end", id)
		}
	}
}
