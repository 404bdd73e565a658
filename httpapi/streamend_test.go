package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/httpapi/stream"
)

// A failing log rejects appends once it is broken. It can still be read.
type failing struct {
	*runnel.Memory
	broken atomic.Bool
}

func (f *failing) Append(ctx context.Context, session string, head int64, evs ...event.Event) error {
	if f.broken.Load() {
		return runnel.Fail(runnel.StoreUnavailable, "the disk reported an error; check it, then restart the server")
	}
	return f.Memory.Append(ctx, session, head, evs...)
}

// subscribed opens a WebSocket and reads the session's history.
func (s *site) subscribed(family, id string) *peer {
	s.t.Helper()
	p := s.join(family)
	p.send(`{"type":"session:subscribe","requestId":"sub","sessionId":%q}`, id)
	for f := p.receive(); !f.Done; f = p.receive() {
	}
	return p
}

// ending reads a stream to its end and returns its last frames.
func ending(r io.Reader, n int) []sseFrame {
	data, _ := io.ReadAll(r)
	frames := framesOf(data)
	return frames[max(0, len(frames)-n):]
}

func TestStreamsOfAFailedStore(t *testing.T) {
	timed(t, minute)
	synctest.Test(t, func(t *testing.T) {
		log := &failing{Memory: new(runnel.Memory)}
		s := serve(t, func(_ *Config, g *gateway.Config) { g.Log, g.StallTimeout = log, -1 })
		s.log = log.Memory
		id := s.create()
		peers := []*peer{s.subscribed(stream.FamilyUpsert, id), s.subscribed(stream.FamilyEvents, id)}
		turn := s.roundTrip("POST", "/api/harness/turn", `{"sessionId":"`+id+`","message":"hang"}`)
		s.until(id, is[event.ResponseStart])
		follow := s.get("/api/session/" + id + "/events")
		var all sync.WaitGroup
		all.Go(func() {
			last := ending(turn.Body, 2)
			if len(last) != 2 || last[0].name != "turn:error" || last[1].name != "process:exit" ||
				!strings.Contains(string(last[0].data), `"errorType":"STORE_UNAVAILABLE"`) || !strings.Contains(string(last[0].data), `"fatal":true`) {
				t.Errorf("the turn ends with %+v", last)
			}
		})
		all.Go(func() {
			last := ending(follow.Body, 1)
			if len(last) != 1 || last[0].name != "stream:end" || !strings.Contains(string(last[0].data), "STORE_UNAVAILABLE") {
				t.Errorf("the events end with %+v", last)
			}
			var m frame
			if st, _ := log.State(t.Context(), id); json.Unmarshal(last[0].data, &m) != nil || m.Seq != st.Head || m.Reason != "error" {
				t.Errorf("%s is not the position %d", last[0].data, st.Head)
			}
		})
		for _, p := range peers {
			all.Go(func() {
				told := false
				for {
					f, err := p.tryReceive()
					if err != nil {
						if c := websocket.CloseStatus(err); c != closeStore || !told {
							t.Errorf("closed with %d (%v); told why: %v", c, err, told)
						}
						return
					}
					told = told || f.Type == "error" && f.RequestID == "sub" && f.Error.Type == runnel.StoreUnavailable
				}
			})
		}
		<-time.After(10 * time.Minute) // a long turn alone is not a failure
		if n, _, _ := s.streams.Counts(); n != 4 {
			t.Errorf("%d streams are open", n)
		}
		log.broken.Store(true)
		began := time.Now()
		_ = s.gw.Cancel(t.Context(), id)
		all.Wait()
		if took := time.Since(began); took > time.Minute {
			t.Errorf("after %v", took)
		}
	})
}

// A deletion ends the streams of the session, and only these. At last the server
// watches only the session that is left.
func TestStreamsOfADeletedSession(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id, other := s.create(), s.create()
	up, evs := s.subscribed(stream.FamilyUpsert, id), s.subscribed(stream.FamilyEvents, id)
	follow := s.get("/api/session/" + id + "/events")
	call[okAnswer](s.rig, "DELETE", "/api/harness/session/"+id, "", 200)
	if last := ending(follow.Body, 1); len(last) != 1 || last[0].name != "stream:end" || !strings.Contains(string(last[0].data), "SESSION_NOT_FOUND") {
		t.Errorf("the events end with %+v", last)
	}
	for _, p := range []*peer{up, evs} {
		if f := p.await("error"); f.RequestID != "sub" || f.Error.Type != runnel.SessionNotFound {
			t.Errorf("got %+v", f)
		}
		p.send(`{"type":"session:subscribe","requestId":"sub","sessionId":%q}`, other) // the connection still works
		for f := p.await("session:history"); !f.Done; f = p.receive() {
		}
	}
	watched := func() int { _, _, n := s.streams.Counts(); return n }
	for tick := time.Tick(time.Millisecond); watched() != 1; { // streams end a little later than their last frame
		<-tick
	}
}

// When a credential ends, all its streams end, even if the client reads
// nothing. No later event reaches the client.
func TestRevokeEndsWhatIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		id := s.create()
		s.events(id, s.prompt(id, burst(3000)))
		admin := s.token
		secret, tok, err := s.keyed.Create(t.Context(), auth.Grant{Name: "gone", Scopes: []auth.Scope{auth.Read}})
		if err != nil {
			t.Fatal(err)
		}
		s.token = secret
		stuck := s.join(stream.FamilyEvents) // it reads nothing more
		stuck.send(`{"type":"session:subscribe","sessionId":%q}`, id)
		res := s.get("/api/session/" + id + "/events")
		live := s.subscribed(stream.FamilyUpsert, id)
		synctest.Wait()
		s.token = admin
		began := time.Now()
		call[reply.Empty](s.rig, "POST", "/api/tokens/"+tok.ID+"/revoke", "{}", 200)
		turn := s.prompt(id, "text")
		s.events(id, turn)
		if c := live.closed(); c != closeCredential {
			t.Errorf("closed with %d", c)
		}
		<-time.After(time.Second)
		synctest.Wait()
		if n, _, _ := s.streams.Counts(); n != 0 {
			t.Errorf("%d streams are open after %v", n, time.Since(began))
		}
		rest, _ := io.ReadAll(res.Body)
		if strings.Contains(string(rest), turn) || strings.Contains(string(stuck.raw.bytes()), turn) || strings.Contains(string(live.raw.bytes()), turn) {
			t.Error("something was told that happened later")
		}
		if strings.Contains(string(rest), "stream:end") {
			t.Error("the end was told")
		}
	})
}

// The last position that a client receives is that of the last event it has.
func TestCursorAtTheEnd(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	s.events(id, s.prompt(id, "tools"))
	up, evs := s.subscribed(stream.FamilyUpsert, id), s.subscribed(stream.FamilyEvents, id)
	follow := s.get("/api/session/" + id + "/events")
	turn := s.roundTrip("POST", "/api/harness/turn", `{"sessionId":"`+id+`","message":"hang"}`)
	r, tr := bufio.NewReader(follow.Body), bufio.NewReader(turn.Body)
	for f, err := readFrame(r); f.name != "item_delta"; f, err = readFrame(r) { // events before the turn hangs
		if err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	for _, r := range []io.Reader{r, tr} {
		all.Go(func() {
			last := ending(r, 2)
			var m frame
			if len(last) != 2 || last[1].name != "stream:end" || json.Unmarshal(last[1].data, &m) != nil || m.Reason != "server_shutdown" || m.SessionID != id || m.Seq < last[0].id {
				t.Errorf("ends with %+v", last)
			}
			if st, _ := s.log.State(t.Context(), id); m.Seq > st.Head {
				t.Errorf("told %d, the log ends at %d", m.Seq, st.Head)
			}
		})
	}
	readToEnd := func(p *peer) {
		seen, end := int64(0), frame{}
		for {
			_, data, err := p.conn.Read(t.Context())
			if err != nil {
				if c := websocket.CloseStatus(err); c != closeShutdown {
					t.Errorf("closed with %d", c)
				}
				break
			}
			var f struct {
				Type    string
				Seq     int64
				Payload struct{ Seq int64 }
			}
			if err := json.Unmarshal(data, &f); err != nil {
				t.Fatal(err)
			}
			if f.Type == "session:end" {
				_ = json.Unmarshal(data, &end)
				continue
			}
			if end.Type != "" {
				t.Errorf("%s after the end", f.Type)
			}
			seen = max(seen, f.Seq, f.Payload.Seq)
		}
		if end.SessionID != id || end.Reason != "server_shutdown" || seen > 0 && end.Seq != seen {
			t.Errorf("told %+v, has seen %d", end, seen)
		}
	}
	all.Go(func() { readToEnd(up) })
	all.Go(func() { readToEnd(evs) })
	if err := s.EndStreams(t.Context()); err != nil {
		t.Fatal(err)
	}
	all.Wait()
}
