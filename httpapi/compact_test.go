package httpapi

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/stream"
	"github.com/runnel-dev/runnel/internal/testload"
	"github.com/runnel-dev/runnel/upsert"
)

// whole waits for the end of a turn and returns the session's log.
func (s *site) whole(id, turn string) (evs []event.Event) {
	s.t.Helper()
	for ev, err := range runnel.Follow(s.t.Context(), s.gw.Log(), id, 0) {
		if err != nil {
			s.t.Fatal(err)
		}
		evs = append(evs, ev)
		if ev.Turn == turn && event.Ends(ev.Body) {
			return evs
		}
	}
	return nil
}

// views returns what readers of whole items receive after a position.
func (s *site) views(id string, after, to int64) (entries []string) {
	s.t.Helper()
	p, list := s.history(id, stream.FamilyUpsert, after, to)
	_ = p.conn.CloseNow()
	for _, e := range list {
		var m map[string]any
		if err := json.Unmarshal(e, &m); err != nil {
			s.t.Fatal(err)
		}
		if u, ok := m["payload"].(map[string]any); ok {
			delete(u, "emittedAt")
		}
		data, err := json.Marshal(m)
		if err != nil {
			s.t.Fatal(err)
		}
		entries = append(entries, string(data))
	}
	return entries
}

// TestCompactedLog lets readers resume, with every possible cursor, in a
// session whose deltas were removed. Whole items, exports and turns are
// unchanged, and the event stream has the remaining events.
func TestCompactedLog(t *testing.T) {
	testload.TakesLong(t)
	timed(t, minute)
	edit, st := onDisk(t, filepath.Join(t.TempDir(), "data"))
	t.Cleanup(func() { _ = st.Close() })
	s := serve(t, edit)
	id := s.create()
	var all []event.Event
	for _, prompt := range []string{
		burst(40), "tools please", `{"steps":[{"text":"before it broke"},{"fail":{"code":"RATE_LIMITED","message":"slow down"}}]}`,
		`{"steps":[{"reasoning":"hm hm hm"},{"text":"and then some"},{"crash":true}]}`, burst(5),
	} {
		s.whole(id, s.prompt(id, prompt))
	}
	// One turn is cancelled in the middle of its text, so that only its deltas
	// have the text.
	text, _ := json.Marshal(strings.Repeat("slowly ", 1000))
	turn, heard := s.prompt(id, fmt.Sprintf(`{"steps":[{"text":%s,"rate":200}]}`, text)), 0
	for ev, err := range runnel.Follow(t.Context(), st, id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if d, ok := ev.Body.(event.ItemDelta); ok && ev.Turn == turn && d.DeltaContent != "" {
			heard++
		}
		if heard > 5 {
			break
		}
	}
	if w := s.do("POST", "/api/session/"+id+"/cancel", "{}"); w.Code != 200 {
		t.Fatalf("cancel: %d %s", w.Code, w.Body)
	}
	all = s.whole(id, turn)
	last := all[len(all)-1].Seq
	// What readers of whole items receive, with items in the order of their
	// appearance.
	folded := func(evs []event.Event, after int64) []upsert.Out {
		outs, err := upsert.History(func(yield func(event.Event, error) bool) {
			for _, ev := range evs {
				if !yield(ev, nil) {
					return
				}
			}
		}, after, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		return outs
	}
	cursors := []int64{0, 1, 3, 20, last / 3, last / 2, last - 5, last}
	before := make(map[int64][]string)
	for _, after := range cursors {
		before[after] = s.views(id, after, last)
	}
	export := s.do("GET", "/api/session/"+id+"/export?format=md", "").Body.String()

	if err := st.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	left := s.whole(id, all[len(all)-1].Turn)
	if len(left) > len(all)*2/3 {
		t.Fatalf("%d of %d events are left: hardly anything was compacted", len(left), len(all))
	}
	for after := int64(0); after <= last; after++ {
		if got, want := folded(left, after), folded(all, after); !reflect.DeepEqual(got, want) {
			t.Fatalf("whole items after %d:\ngot  %+v\nwant %+v", after, got, want)
		}
		if after%7 > 0 && last-after > 3 {
			continue
		}
		got, _ := s.readSSE(id, after, last)
		i := slices.IndexFunc(left, func(ev event.Event) bool { return ev.Seq > after })
		if i < 0 {
			i = len(left)
		}
		sameLog(t, got, left[i:])
	}
	for _, after := range cursors {
		if got := s.views(id, after, last); !slices.Equal(got, before[after]) {
			t.Errorf("WebSocket after %d:\ngot  %s\nwant %s", after, got, before[after])
		}
	}
	if got := s.do("GET", "/api/session/"+id+"/export?format=md", "").Body.String(); got != export || export == "" {
		t.Errorf("export:\n%s\nwant:\n%s", got, export)
	}
	status := call[gateway.Status](s.rig, "GET", "/api/session/"+id+"/status", "", 200)
	if status.LastSeq != last {
		t.Errorf("lastSeq is %d, want %d", status.LastSeq, last)
	}
}

// TestCompactedTurnFrames makes the frames of a turn from a compacted log, also
// for a reader that was in the middle of the turn. No text is lost.
func TestCompactedTurnFrames(t *testing.T) {
	timed(t, minute)
	edit, st := onDisk(t, filepath.Join(t.TempDir(), "data"))
	t.Cleanup(func() { _ = st.Close() })
	s := serve(t, edit)
	id := s.create()
	turn := s.prompt(id, "tools please")
	all := s.whole(id, turn)
	if err := st.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	left := s.whole(id, turn)
	frames := func(evs []event.Event) (out []sseFrame) {
		tf := stream.NewTurnFrames(id, turn)
		for _, ev := range evs {
			for _, f := range tf.Push(ev) {
				data, err := json.Marshal(f.Data)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, sseFrame{ev.Seq, f.Name, data})
			}
		}
		return out
	}
	final := func(fs []sseFrame) (out []string) {
		for _, f := range fs {
			if f.name != "chat:delta" && f.name != "reasoning:delta" && f.name != "tool:progress" {
				out = append(out, f.name+" "+string(f.data))
			}
		}
		return out
	}
	want := final(frames(all))
	for cut := range all { // number of events that the reader has when the log is compacted
		evs := slices.Clone(all[:cut])
		for _, ev := range left {
			if cut == 0 || ev.Seq > all[cut-1].Seq {
				evs = append(evs, ev)
			}
		}
		got := frames(evs)
		checkFrames(t, got)
		if !slices.Equal(final(got), want) {
			t.Fatalf("cut at %d:\ngot  %s\nwant %s", cut, final(got), want)
		}
	}
}
