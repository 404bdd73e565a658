package httpapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/httpapi/stream"
)

// entryKeys identifies entries of a history: an item by its id, any other entry
// by its type and position.
func entryKeys(t *testing.T, entries []json.RawMessage) (keys []string) {
	t.Helper()
	for _, data := range entries {
		var e struct {
			Type    string
			Payload struct {
				ItemID string
				Seq    int64
			}
		}
		if err := json.Unmarshal(data, &e); err != nil {
			t.Fatal(err)
		}
		if e.Payload.ItemID != "" {
			keys = append(keys, e.Payload.ItemID)
		} else {
			keys = append(keys, fmt.Sprint(e.Type, " ", e.Payload.Seq))
		}
	}
	return keys
}

func TestItemsArePagedBackward(t *testing.T) {
	rg := newRig(t)
	id := rg.create()
	for _, prompt := range []string{"text", "tools", "text"} {
		rg.events(id, rg.prompt(id, prompt))
	}
	items := func(query string) stream.ItemsAnswer {
		return call[stream.ItemsAnswer](rg, "GET", "/api/session/"+id+"/items?"+query, "", 200)
	}
	whole := items("limit=1000")
	want := entryKeys(t, whole.Items)
	var got []string
	page := items("before=0&limit=3")
	if page.Seq != whole.Seq {
		t.Errorf("the newest page ends at %d, want %d", page.Seq, whole.Seq)
	}
	for {
		if n := len(page.Items); n == 0 || n > 6 { // items that end with their turn stay together with its end
			t.Errorf("%d entries before %d", n, page.Seq+1)
		}
		got = append(entryKeys(t, page.Items), got...)
		if !page.More {
			break
		}
		next := items(fmt.Sprintf("before=%d&limit=3", page.First))
		if next.Seq != page.First-1 {
			t.Errorf("the page before %d ends at %d", page.First, next.Seq)
		}
		page = next
	}
	slices.Sort(want) // a call and what happened during it may be on different pages
	slices.Sort(got)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-whole +pages):\n%s", d)
	}
	if page.First != 1 {
		t.Errorf("the oldest page begins at %d", page.First)
	}
	beyond := items("before=1000000&limit=3")
	if d := cmp.Diff(entryKeys(t, items("before=0&limit=3").Items), entryKeys(t, beyond.Items)); d != "" {
		t.Error(d)
	}
	for _, query := range []string{"before=5&after=1", "before=-1", "before=x", "before=5&limit=x"} {
		if w := rg.do("GET", "/api/session/"+id+"/items?"+query, ""); w.Code != 400 {
			t.Errorf("%s: %d", query, w.Code)
		}
	}
}

// A subscription with limit begins with the newest entries and everything that
// is unfinished. Then it receives live upserts.
func TestSubscriptionOpensAtTheEnd(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	for range 3 {
		s.events(id, s.prompt(id, "tools"))
	}
	turn := s.prompt(id, "approve")
	s.until(id, is[event.ApprovalRequested])
	st := call[struct{ LastSeq int64 }](s.rig, "GET", "/api/session/"+id+"/status", "", 200)

	p := s.dial()
	p.send(`{"type":"session:hello"}`)
	p.await("session:hello:ack")
	p.send(`{"type":"session:subscribe","sessionId":%q,"limit":2}`, id)
	f := p.await("session:history")
	if !f.Done || f.Seq < st.LastSeq || f.First < 2 {
		t.Fatalf("the history is %+v", f)
	}
	have := map[string]bool{}
	pending := false
	for i, key := range entryKeys(t, f.Entries) {
		have[key] = true
		var e struct {
			Type    string
			Payload struct{ Status, TurnID string }
		}
		_ = json.Unmarshal(f.Entries[i], &e)
		pending = pending || e.Type == "session:approval" && e.Payload.Status == "pending" && e.Payload.TurnID == turn
	}
	if !pending {
		t.Errorf("the approval is not there: %s", f.Entries)
	}
	for before := f.First; ; {
		p.send(`{"type":"session:items","requestId":"i","sessionId":%q,"before":%d,"limit":4}`, id, before)
		var page stream.ItemsAnswer
		if err := json.Unmarshal(p.await("response").Result, &page); err != nil {
			t.Fatal(err)
		}
		for _, key := range entryKeys(t, page.Items) {
			have[key] = true
		}
		if before = page.First; !page.More {
			break
		}
	}
	for _, key := range entryKeys(t, call[stream.ItemsAnswer](s.rig, "GET", "/api/session/"+id+"/items?limit=1000", "", 200).Items) {
		if !have[key] {
			t.Errorf("%s is on no page", key)
		}
	}
	s.do("POST", "/api/session/"+id+"/cancel", "{}")
	for {
		f := p.await("session:turn")
		var end struct{ Type, TurnID string }
		if err := json.Unmarshal(f.Payload, &end); err != nil {
			t.Fatal(err)
		}
		if end.TurnID == turn && end.Type == "turn_complete" {
			break
		}
	}
	p.send(`{"type":"session:subscribe","requestId":"r","sessionId":%q,"limit":0}`, id)
	if f := p.await("error"); f.Error.Type != "INVALID_REQUEST" {
		t.Errorf("a limit of 0: %+v", f)
	}
}
