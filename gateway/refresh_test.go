package gateway

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/provider/script"
	"github.com/runnel-dev/runnel/store"
)

// keeper is the scripted agent with one stored conversation that gains turns
// outside of the session.
type keeper struct {
	fake
	history []event.Event
	fails   error // error at the end of the history
	read    int   // how often the history was read
}

func newKeeper(d *disk) *keeper {
	k := &keeper{}
	k.name = "script"
	k.open = func(o runnel.Options) (runnel.Conn, error) { return script.New().Open(context.Background(), o) }
	k.kept = []runnel.Conversation{{AgentSessionID: "abc", Dir: d.dir, File: "/agent/abc"}}
	return k
}

func (k *keeper) History(context.Context, runnel.Conversation) iter.Seq2[event.Event, error] {
	k.read++
	return func(yield func(event.Event, error) bool) {
		for _, ev := range k.history {
			if !yield(ev, nil) {
				return
			}
		}
		if k.fails != nil {
			yield(event.Event{}, k.fails)
		}
	}
}

// placed is a keeper whose history is positional.
type placed struct{ *keeper }

func (placed) PositionalTurns() {}

// derived returns the turn id that a history reader makes from an agent's
// native id.
func derived(native string) string { return uuid.NewSHA1(uuid.NameSpaceOID, []byte(native)).String() }

// turnWith returns the events of a turn with a prompt and items. An item is a
// text, "call NAME" (a call without an output) or "called NAME" (a call with an
// output). If the last item is "…", the turn has no end.
func turnWith(id, prompt string, items ...string) (evs []event.Event) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	add := func(bodies ...event.Body) {
		for _, b := range bodies {
			evs = append(evs, event.Event{At: at, Turn: id, Body: b})
		}
	}
	if prompt != "" {
		add(event.ItemStart{ItemID: id + ":0:0", ItemType: event.TypeMessage},
			event.ItemDone{ItemID: id + ":0:0", FinalItem: event.Message{Content: prompt, Origin: event.OriginUser}})
	}
	add(event.ResponseStart{ModelID: "m", ProviderID: "script"})
	for i, text := range items {
		item := fmt.Sprintf("%s:%d:0", id, i+1)
		_, name, isCall := strings.Cut(text, " ")
		switch {
		case text == "…":
			return evs
		case isCall && strings.HasPrefix(text, "call"):
			add(event.ItemStart{ItemID: item, ItemType: event.TypeFunctionCall, Name: name, CallID: name},
				event.ItemDone{ItemID: item, FinalItem: event.FunctionCall{Name: name, CallID: name, Arguments: []byte("{}")}})
			if strings.HasPrefix(text, "called") {
				add(event.ItemStart{ItemID: item + ":output", ItemType: event.TypeFunctionCallOutput, CallID: name},
					event.ItemDone{ItemID: item + ":output", FinalItem: event.FunctionCallOutput{CallID: name, Output: "out"}})
			}
		default:
			add(event.ItemStart{ItemID: item, ItemType: event.TypeMessage},
				event.ItemDone{ItemID: item, FinalItem: event.Message{Content: text, Origin: event.OriginAgent}})
		}
	}
	add(event.ResponseDone{Status: event.StatusCompleted})
	return evs
}

// shown describes the log of a session, with one line for each turn.
func (d *disk) shown(t *testing.T, id string) (lines []string) {
	t.Helper()
	turns := make(map[string]int)
	seen := make(map[string]bool)
	for ev, err := range d.log.Read(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Turn == "" {
			continue
		}
		i, ok := turns[ev.Turn]
		if !ok {
			i = len(lines)
			turns[ev.Turn], lines = i, append(lines, "")
		}
		switch b := ev.Body.(type) {
		case event.ItemDone:
			if seen[b.ItemID] || !strings.HasPrefix(b.ItemID, ev.Turn+":") {
				t.Errorf("item %s of turn %s", b.ItemID, ev.Turn)
			}
			seen[b.ItemID] = true
			switch f := b.FinalItem.(type) {
			case event.Message:
				lines[i] += f.Content + "; "
			case event.FunctionCall:
				lines[i] += "call " + f.Name + "; "
			case event.FunctionCallOutput:
				lines[i] += f.Output + "; "
			}
		case event.ResponseDone:
			lines[i] += string(b.Status)
		case event.ResponseError:
			lines[i] += b.Error.Code
		}
	}
	return lines
}

func load(t *testing.T, g *Gateway, ref string) string {
	t.Helper()
	st, err := g.Load(t.Context(), ref, "")
	if err != nil {
		t.Fatal(err)
	}
	return st.SessionID
}

func TestLoadAgainAddsWhatTheConversationGained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t)
		k := newKeeper(d)
		g := d.open(t, func(c *Config) { c.Providers = []runnel.Provider{k} })
		one, two, three := turnWith(derived("1"), "one", "first answer"), turnWith(derived("2"), "two", "called ls", "second"), turnWith(derived("3"), "three", "third")
		k.history = one
		id := load(t, g, "script:abc")
		want := []string{"one; first answer; completed"}
		check := func(what string) {
			t.Helper()
			synctest.Wait()
			if d := cmp.Diff(want, d.shown(t, id)); d != "" {
				t.Errorf("%s: %s", what, d)
			}
		}
		check("copied")

		k.history = slices.Concat(one, two)
		if again := load(t, g, "script:abc"); again != id {
			t.Errorf("another session: %s", again)
		}
		want = append(want, "two; call ls; out; second; completed")
		check("by the agent's id")
		load(t, g, id)
		check("nothing twice")
		if st, err := g.Status(t.Context(), id); err != nil || st.LastLine != "second" || st.State != event.StateOpen {
			t.Errorf("%+v, %v", st, err)
		}

		closeIt(t, g)
		g = d.open(t, func(c *Config) { c.Providers = []runnel.Provider{k} })
		defer closeIt(t, g)
		k.history = slices.Concat(one, two, three)
		load(t, g, id)
		want = append(want, "three; third; completed")
		check("by our id, after a restart")
	})
}

func TestLoadAgainKeepsWhatWeRecorded(t *testing.T) {
	for _, positional := range []bool{false, true} {
		t.Run(fmt.Sprintf("positional=%v", positional), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDisk(t)
				k := newKeeper(d)
				p := runnel.Provider(k)
				if positional {
					p = placed{k}
				}
				g := d.open(t, func(c *Config) { c.Providers = []runnel.Provider{p} })
				defer closeIt(t, g)
				k.history = turnWith(derived("1"), "one", "first answer")
				id := load(t, g, "script:abc")
				ours := send(t, g, id, "text please")
				d.ends(t, ours)
				synctest.Wait()
				want := d.shown(t, id)
				if len(want) != 2 {
					t.Fatal(want)
				}

				stored := ours.TurnID // the agent stores our id, unless its history is positional
				if positional {
					stored = derived("2")
				}
				before, err := g.Status(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				k.history = slices.Concat(k.history, turnWith(stored, "text please", "as the agent keeps it"), turnWith(derived("3"), "text please", "elsewhere"),
					[]event.Event{{Body: event.SessionUpdated{AgentSessionID: "other", PermissionMode: "plan", Title: "Title from elsewhere"}}})
				load(t, g, id)
				if st, err := g.Status(t.Context(), id); err != nil || st.PermissionMode != before.PermissionMode || st.AgentSessionID != "abc" || st.Title != "Title from elsewhere" {
					t.Errorf("%+v, %v", st, err)
				}
				want = append(want, "text please; elsewhere; completed")
				load(t, g, id)
				if d := cmp.Diff(want, d.shown(t, id)); d != "" {
					t.Error(d)
				}
				if k.resumed.Load() != "abc" {
					t.Fatalf("resumed %q", k.resumed.Load())
				}
				if st, err := g.Status(t.Context(), id); err != nil || st.IsAlive {
					t.Errorf("the agent that lacks the new turn still runs: %+v, %v", st, err)
				}
			})
		})
	}
}

func TestLoadAgainWhileATurnRunsChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t)
		k := newKeeper(d)
		g := d.open(t, func(c *Config) { c.Providers = []runnel.Provider{k} })
		defer closeIt(t, g)
		k.history = turnWith(derived("1"), "one", "first answer")
		id := load(t, g, "script:abc")
		send(t, g, id, "hang")
		k.history = slices.Concat(k.history, turnWith(derived("2"), "two", "second"))
		before := k.read
		load(t, g, id)
		if got := d.shown(t, id); len(got) != 2 || k.read != before {
			t.Errorf("read %d times: %q", k.read-before, got)
		}
		if err := g.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		load(t, g, id)
		if got := d.shown(t, id); len(got) != 3 || got[2] != "two; second; completed" {
			t.Errorf("after the turn: %q", got)
		}
	})
}

func TestLoadAgainAddsTheRestOfATurnThatRanElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t)
		k := newKeeper(d)
		g := d.open(t, func(c *Config) { c.Providers = []runnel.Provider{k} })
		defer closeIt(t, g)
		turn := derived("1")
		k.history = turnWith(turn, "one", "begun", "call ls", "…")
		id := load(t, g, "script:abc")
		k.history = turnWith(turn, "one", "begun", "called ls", "more", "…")
		load(t, g, id)
		k.history = slices.Concat(turnWith(turn, "one", "begun", "called ls", "more", "the end"), turnWith(derived("2"), "two", "second"))
		load(t, g, id)
		load(t, g, id)
		want := []string{"one; begun; call ls; PROCESS_CRASH", "call ls; out; more; PROCESS_CRASH", "the end; completed", "two; second; completed"}
		if d := cmp.Diff(want, d.shown(t, id)); d != "" {
			t.Error(d)
		}
	})
}

// An agent that stores a call when it ends may add a call before others, whose
// places change then.
func TestLoadAgainAddsACallThatEndedAfterLaterOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t)
		k := newKeeper(d)
		g := d.open(t, func(c *Config) { c.Providers = []runnel.Provider{k} })
		defer closeIt(t, g)
		turn := derived("1")
		k.history = withNativeIDs(turnWith(turn, "one", "called short", "…"))
		id := load(t, g, "script:abc")
		k.history = withNativeIDs(turnWith(turn, "one", "called long", "called short", "more", "…"))
		load(t, g, id)
		k.history = withNativeIDs(turnWith(turn, "one", "called longest", "called long", "called short", "more", "the end"))
		load(t, g, id)
		load(t, g, id)
		want := []string{"one; call short; out; PROCESS_CRASH", "call long; out; more; PROCESS_CRASH", "call longest; out; the end; completed"}
		if d := cmp.Diff(want, d.shown(t, id)); d != "" {
			t.Error(d)
		}
	})
}

// withNativeIDs gives every item but outputs a native id that its place does not
// determine.
func withNativeIDs(evs []event.Event) []event.Event {
	out := slices.Clone(evs)
	for i, ev := range out {
		start, isStart := ev.Body.(event.ItemStart)
		if !isStart || start.ItemType == event.TypeFunctionCallOutput {
			continue
		}
		id := start.CallID
		if done, ok := out[i+1].Body.(event.ItemDone); ok && id == "" {
			id = done.FinalItem.(event.Message).Content
		}
		start.Native = map[string]string{"itemId": id}
		out[i].Body = start
	}
	return out
}

func TestLoadAgainWithoutTheConversationStillLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t)
		k := newKeeper(d)
		g := d.open(t, func(c *Config) { c.Providers = []runnel.Provider{k} })
		defer closeIt(t, g)
		k.history = turnWith(derived("1"), "one", "first answer")
		id := load(t, g, "script:abc")
		want := d.shown(t, id)
		k.history, k.fails = append(k.history, turnWith(derived("2"), "two", "second")...), errors.New("gone")
		load(t, g, id)
		if d := cmp.Diff(want, d.shown(t, id)); d != "" {
			t.Errorf("of a history that breaks off: %s", d)
		}
		_, err := g.Load(t.Context(), id, "/agent/other")
		wantCode(t, err, runnel.SessionNotFound)
	})
}

func TestLoadAgainOfAStrangeHistoryAddsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t)
		k := newKeeper(d)
		g := d.open(t, func(c *Config) { c.Providers = []runnel.Provider{k} })
		defer closeIt(t, g)
		one := turnWith(derived("1"), "one", "first answer")
		k.history = one
		id := load(t, g, "script:abc")
		want := d.shown(t, id)
		for what, history := range map[string][]event.Event{
			"nothing is known":                 turnWith(derived("9"), "nine", "strange"),
			"a turn before one that is known":  slices.Concat(turnWith(derived("0"), "zero", "strange"), one),
			"work in the background behind it": slices.Concat(one, turnWith(derived("task"), "", "strange")),
		} {
			k.history = history
			load(t, g, id)
			if d := cmp.Diff(want, d.shown(t, id)); d != "" {
				t.Errorf("%s: %s", what, d)
			}
		}
	})
}

// A turn whose agent does not report the model does not change the session's
// model.
func TestUnknownModelOfATurnIsNoModelOfTheSession(t *testing.T) {
	e := &entry{rec: store.Session{ModelID: "m"}}
	e.note(event.Event{Turn: "t", Body: event.ResponseStart{ModelID: runnel.UnknownModel, ProviderID: "script"}})
	if e.rec.ModelID != "m" {
		t.Errorf("the model is %q", e.rec.ModelID)
	}
	e.note(event.Event{Turn: "t", Body: event.ResponseStart{ModelID: "n", ProviderID: "script"}})
	if e.rec.ModelID != "n" {
		t.Errorf("the model is %q", e.rec.ModelID)
	}
}
