package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/httpapi/stream"
	"github.com/runnel-dev/runnel/internal/testload"
)

// stalled opens n WebSockets that follow a session, and then reads nothing from
// them.
func (s *site) stalled(n int, id string) {
	s.t.Helper()
	for range n {
		s.subscribed(stream.FamilyUpsert, id)
	}
}

// Other clients receive everything while some clients read nothing. The test
// measures the speed but does not check it, because it depends on the machine.
func TestSlowClients(t *testing.T) {
	testload.TakesLong(t)
	timed(t, minute)
	for _, n := range []int{0, 1, 20} {
		s := serve(t, func(c *Config, _ *gateway.Config) { c.WriteStall = time.Minute })
		id := s.create()
		s.stalled(n, id)
		const tabs = 10
		var mu sync.Mutex
		var late []time.Duration
		var all sync.WaitGroup
		for range tabs {
			p := s.subscribed(stream.FamilyEvents, id)
			all.Go(func() {
				for {
					f := p.await("session:event")
					ev := decodeEvents(t, []json.RawMessage{f.Payload})[0]
					mu.Lock()
					late = append(late, time.Since(ev.At))
					mu.Unlock()
					if event.Ends(ev.Body) {
						return
					}
				}
			})
		}
		evs := s.events(id, s.prompt(id, `{"steps":[{"text":"tick ","repeat":200,"rate":400}]}`))
		all.Wait()
		if len(late) < tabs*100 || len(late)%tabs != 0 {
			t.Errorf("beside %d stalled clients %d events of %d arrived", n, len(late), len(evs)*tabs)
		}
		slices.Sort(late)
		t.Logf("beside %2d stalled clients: p50 %v, p99 %v, of %d events", n, late[len(late)/2], late[len(late)*99/100], len(late))
	}
}

// The memory for a client that reads nothing is bounded, however many events
// there are.
func TestStalledClientHoldsLittle(t *testing.T) {
	testload.TakesLong(t)
	timed(t, minute)
	s := serve(t, func(c *Config, _ *gateway.Config) { c.WriteStall = time.Minute })
	const clients = 8
	grown := func(family string) int64 {
		id := s.create()
		before := heap()
		if family != "" {
			for range clients {
				s.subscribed(family, id)
			}
		}
		for range 4 {
			s.events(id, s.prompt(id, `{"steps":[{"text":"`+strings.Repeat("word ", 200)+`","repeat":60}]}`))
		}
		return heap() - before
	}
	alone := grown("") // memory of the log itself
	for _, family := range []string{stream.FamilyUpsert, stream.FamilyEvents} {
		each := (grown(family) - alone) / clients
		t.Logf("%s: a stalled client holds %d KB beside a log of %d MB", family, each>>10, alone>>20)
		if each > 1<<20 {
			t.Errorf("%s: a stalled client holds %d KB", family, each>>10)
		}
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A client that reads late gets fewer messages, and finally the state of each
// item as in the log. It gets all ends of turns and all approvals in order.
func TestSlowReaderGetsFewerUpserts(t *testing.T) {
	timed(t, minute)
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(c *Config, g *gateway.Config) { c.WriteStall, g.StallTimeout = 24*time.Hour, -1 })
		id := s.create()
		p := s.subscribed(stream.FamilyUpsert, id)
		var want []string
		note := func(kind, id string) { want = append(want, kind+" "+id) }
		deltas := 0
		for range 3 {
			turn := s.prompt(id, `{"steps":[{"text":"word ","repeat":3000},{"tool":{"name":"Bash","output":"x","ask":{"title":"may I"}}},{"text":"done ","repeat":1000}]}`)
			asked := s.until(id, func(ev event.Event) bool { return ev.Turn == turn && is[event.ApprovalRequested](ev) }).Body.(event.ApprovalRequested).Approval
			call[reply.Empty](s.rig, "POST", "/api/session/"+id+"/approvals/"+asked.ID, `{"choice":"allow","argumentsDigest":"`+asked.ArgumentsDigest+`"}`, 200)
			for _, ev := range s.events(id, turn) {
				if ev.Turn != turn {
					continue
				}
				switch b := ev.Body.(type) {
				case event.ItemDelta:
					deltas++
				case event.ResponseStart:
					note("turn_started", turn)
				case event.ApprovalRequested:
					note("pending", b.Approval.ID)
				case event.ApprovalResolved:
					note("resolved", b.ApprovalID)
				case event.ResponseDone:
					note("turn_complete", turn)
				}
			}
		}
		var got []string
		items := map[string]json.RawMessage{}
		upserts := 0
		for len(got) < len(want) {
			f := p.receive()
			var m struct {
				Type, Status, TurnID, ItemID string
				Approval                     event.Approval
			}
			if f.Payload != nil {
				_ = json.Unmarshal(f.Payload, &m)
			}
			switch f.Type {
			case "session:upsert":
				upserts++
				items[m.ItemID] = f.Payload
			case "session:turn":
				got = append(got, m.Type+" "+m.TurnID)
			case "session:approval":
				got = append(got, m.Status+" "+m.Approval.ID)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("turns and questions (-log +told):\n%s", d)
		}
		if upserts*20 > deltas {
			t.Errorf("%d upserts of %d deltas: a late reader gets every one", upserts, deltas)
		}
		for _, raw := range call[stream.ItemsAnswer](s.rig, "GET", "/api/session/"+id+"/items", "", 200).Items {
			var e struct {
				Type    string
				Payload map[string]any
			}
			if err := json.Unmarshal(raw, &e); err != nil {
				t.Fatal(err)
			}
			if e.Type != "session:upsert" {
				continue
			}
			var told map[string]any
			_ = json.Unmarshal(items[e.Payload["itemId"].(string)], &told)
			delete(told, "emittedAt")
			delete(e.Payload, "emittedAt")
			if d := cmp.Diff(e.Payload, told); d != "" {
				t.Errorf("an item (-log +told):\n%s", d)
			}
		}
		_ = p.conn.CloseNow()
	})
}

// A connection subscribes to a session again. The old subscription then sends
// nothing more.
func TestNewSubscriptionEndsTheOldOne(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	for range 3 {
		s.events(id, s.prompt(id, burst(400)))
	}
	head, err := s.log.State(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range []string{stream.FamilyEvents, stream.FamilyUpsert} {
		p := s.join(family)
		go func() { // reads meanwhile
			for i := range 6 {
				after := int64(0)
				if i == 5 {
					after = head.Head
				}
				_ = p.conn.Write(t.Context(), websocket.MessageText, fmt.Appendf(nil, `{"type":"session:subscribe","sessionId":%q,"after":%d}`, id, after))
			}
			s.prompt(id, "text")
		}()
		seqOf := func(payload []byte) int64 {
			var m struct {
				Seq     int64
				Payload struct{ Seq int64 }
			}
			if err := json.Unmarshal(payload, &m); err != nil {
				t.Fatal(err)
			}
			return max(m.Seq, m.Payload.Seq)
		}
		for latest, end := false, false; !end; {
			f := p.receive()
			if f.Type == "session:history" {
				if f.Resume != nil { // from the last subscription; nothing of earlier ones may follow
					latest = len(f.Entries) == 0 || seqOf(f.Entries[0]) > head.Head
				}
				for _, e := range f.Entries {
					end = end || latest && ends(e)
				}
			} else if f.Type != "session:status" {
				if seq := seqOf(f.Payload); latest && seq <= head.Head {
					t.Errorf("%s: %d of a subscription before", family, seq)
				}
				end = latest && ends(f.Payload)
			}
		}
		_ = p.conn.CloseNow()
		for st, _ := s.log.State(t.Context(), id); len(st.Open) > 0; st, _ = s.log.State(t.Context(), id) {
			<-s.log.Grown(id, st.Head)
		}
		head, _ = s.log.State(t.Context(), id)
	}
}

func ends(payload []byte) bool {
	return bytes.Contains(payload, []byte(`"response_done"`)) || bytes.Contains(payload, []byte(`"turn_complete"`))
}
