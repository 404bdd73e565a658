package gateway

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/provider/script"
)

// rename renames a session and returns the title that clients see.
func rename(t *testing.T, g *Gateway, id, title string) string {
	t.Helper()
	st, err := HousekeepingOf(g).Rename(t.Context(), id, title)
	if err != nil {
		t.Fatal(err)
	}
	return st.Title
}

// archive archives a session or takes it out of the archive.
func archive(t *testing.T, g *Gateway, id string, archived bool) {
	t.Helper()
	if st, err := HousekeepingOf(g).Archive(t.Context(), id, archived); err != nil || st.Archived != archived {
		t.Fatalf("archived %v, %v", st.Archived, err)
	}
}

// titles returns the titles in a session's log, with who chose each.
func (d *disk) titles(t *testing.T, id string) (out []string) {
	t.Helper()
	for ev, err := range d.log.Read(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if b, ok := ev.Body.(event.SessionUpdated); ok && (b.Title != "" || b.TitleBy != "") {
			out = append(out, string(b.TitleBy)+":"+b.Title)
		}
	}
	return out
}

// wantTitle checks the title in the status and in both lists of sessions.
func wantTitle(t *testing.T, g *Gateway, id, want string) {
	t.Helper()
	st, err := g.Status(t.Context(), id)
	if err != nil || st.Title != want {
		t.Errorf("the title is %q, want %q (%v)", st.Title, want, err)
	}
	sameLists(t, g, Filter{Dead: true, Archived: true}, "a change of the title")
	list, err := g.List(t.Context(), Filter{Dead: true, Archived: true})
	if i := slices.IndexFunc(list, func(st Status) bool { return st.SessionID == id }); i < 0 || list[i].Title != want {
		t.Errorf("listed %+v, %v", list, err)
	}
}

// titling is the scripted agent as an agent that reports a title for each
// prompt that begins with "title ".
type titling struct{ script.Provider }

func (p *titling) Open(ctx context.Context, o runnel.Options) (runnel.Conn, error) {
	c, err := p.Provider.Open(ctx, o)
	return &titlingConn{Conn: c}, err
}

type titlingConn struct {
	runnel.Conn
	news []event.Event
}

func (c *titlingConn) Next(ctx context.Context) (event.Event, error) {
	if len(c.news) > 0 {
		ev := c.news[0]
		c.news = nil
		return ev, nil
	}
	ev, err := c.Conn.Next(ctx)
	if b, ok := ev.Body.(event.ItemDone); ok && err == nil {
		if f, ok := b.FinalItem.(event.Message); ok && strings.HasPrefix(f.Content, "title ") {
			c.news = []event.Event{{At: ev.At, Turn: ev.Turn, Body: event.SessionUpdated{Title: f.Content}}}
		}
	}
	return ev, err
}

func TestChosenTitleStaysUntilItIsRemoved(t *testing.T) {
	d := newDisk(t)
	titles := func(c *Config) { c.Providers = []runnel.Provider{&titling{}} }
	g := d.open(t, titles)
	id := d.create(t, g)
	if got := rename(t, g, id, "Before the first prompt"); got != "Before the first prompt" {
		t.Errorf("renamed to %q", got)
	}
	d.ends(t, send(t, g, id, "text the prompt"))
	wantTitle(t, g, id, "Before the first prompt")
	if got := rename(t, g, id, "  Mine \t"); got != "Mine" {
		t.Errorf("renamed to %q", got)
	}
	d.ends(t, send(t, g, id, `{"steps":[{"text":"title by the agent"}]}`))
	wantTitle(t, g, id, "Mine")
	closeIt(t, g)

	g = d.open(t, titles)
	wantTitle(t, g, id, "Mine")
	rename(t, g, id, "Mine") // no change, so no event
	d.ends(t, send(t, g, id, `{"steps":[{"text":"title again by the agent"}]}`))
	wantTitle(t, g, id, "Mine")
	if err := g.Kill(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	wantTitle(t, g, id, "Mine")
	if _, err := g.Load(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	wantTitle(t, g, id, "Mine")
	if got := rename(t, g, id, " "); got != "title again by the agent" {
		t.Errorf("without a title of its own: %q", got)
	}
	d.ends(t, send(t, g, id, `{"steps":[{"text":"title at last"}]}`))
	wantTitle(t, g, id, "title at last")
	closeIt(t, g)
	want := []string{
		"user:Before the first prompt", "user:Mine", ":title by the agent", ":title again by the agent",
		"agent:title again by the agent", ":title at last",
	}
	if got := d.titles(t, id); !slices.Equal(got, want) {
		t.Errorf("the log has %q, want %q", got, want)
	}
}

// A session that is not open, or has ended, is renamed without its agent.
func TestRenameOfASessionThatIsNotOpen(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	id := d.create(t, g)
	d.ends(t, send(t, g, id, "text"))
	if err := g.Kill(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	rename(t, g, id, "Ended")
	wantTitle(t, g, id, "Ended")
	if st, err := g.Status(t.Context(), id); err != nil || st.State != event.StateDead {
		t.Errorf("%+v, %v", st, err)
	}
	if _, err := g.Load(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	d.ends(t, send(t, g, id, "text"))
	closeIt(t, g)
	g = d.open(t)
	defer closeIt(t, g)
	rename(t, g, id, "Dormant")
	if g.sessions.peek(id) != nil {
		t.Error("the session was opened")
	}
	d.ends(t, send(t, g, id, "text"))
	wantTitle(t, g, id, "Dormant")
	if got := d.titles(t, id); !slices.Equal(got, []string{"user:Ended", "user:Dormant"}) {
		t.Errorf("the log has %q", got)
	}
}

// A title that is chosen while a turn runs is an event of that turn, and the
// turn goes on.
func TestRenameWhileATurnRuns(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	defer closeIt(t, g)
	id := d.create(t, g)
	sent := send(t, g, id, "hang")
	d.until(t, id, is[event.ItemDelta])
	rename(t, g, id, "Mine")
	named := d.until(t, id, func(ev event.Event) bool { b, ok := ev.Body.(event.SessionUpdated); return ok && b.TitleBy != "" })
	if named.Turn != sent.TurnID {
		t.Errorf("got %+v", named)
	}
	if err := g.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if b, ok := d.ends(t, sent).Body.(event.ResponseDone); !ok || b.Status != event.StatusCancelled {
		t.Errorf("the turn ended with %+v", b)
	}
}

func TestTitleIsOneShortLineWithoutSecrets(t *testing.T) {
	d := newDisk(t)
	g := d.open(t, func(c *Config) { c.Filter = func(runnel.Options) runnel.Filter { return hiding{} } })
	defer closeIt(t, g)
	id := d.create(t, g)
	for _, title := range []string{"a\nb", "a\x00", "a\x1b[1m", "a\u0085b", strings.Repeat("x", MaxChosenTitle+1)} {
		_, err := HousekeepingOf(g).Rename(t.Context(), id, title)
		wantCode(t, err, runnel.InvalidRequest)
	}
	for title, want := range map[string]string{
		"my hunter2 is a secret": "my [redacted] is a secret",
		"turned \u202eround":     "turned round",
		strings.Repeat("ä", 100): strings.Repeat("ä", 100),
	} {
		if got := rename(t, g, id, title); got != want {
			t.Errorf("%q became %q, want %q", title, got, want)
		}
	}
	_, err := HousekeepingOf(g).Rename(t.Context(), "0b5d3c1e-0000-7000-8000-000000000000", "x")
	wantCode(t, err, runnel.SessionNotFound)
}

// A store that fails changes nothing.
func TestFailedRenameChangesNothing(t *testing.T) {
	d := newDisk(t)
	log := &failingLog{Log: &d.log}
	g := d.open(t, func(c *Config) { c.Log = log })
	defer closeIt(t, g)
	id := d.create(t, g)
	d.ends(t, send(t, g, id, "text"))
	if err := g.Kill(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	log.full.Store(true)
	_, err := HousekeepingOf(g).Rename(t.Context(), id, "Mine")
	wantCode(t, err, runnel.StoreUnavailable)
	wantTitle(t, g, id, "text")
	log.full.Store(false)
	rename(t, g, id, "Mine")
}

func TestArchivedSessionIsListedOnlyOnRequest(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	id, other := d.create(t, g), d.create(t, g)
	d.ends(t, send(t, g, id, "text"))
	archive(t, g, id, true)
	archive(t, g, id, true)
	lists := func(when string, f Filter, want ...string) {
		t.Helper()
		sameLists(t, g, f, when)
		list, err := g.List(t.Context(), f)
		var got []string
		for _, st := range list {
			got = append(got, st.SessionID)
		}
		slices.Sort(got)
		if slices.Sort(want); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s, %+v: listed %v, want %v (%v)", when, f, got, want, err)
		}
	}
	for _, when := range []string{"open", "after a restart", "ended"} {
		lists(when, Filter{}, other)
		lists(when, Filter{Dead: true}, other)
		lists(when, Filter{Archived: true}, id, other)
		lists(when, Filter{Dead: true, Archived: true, ProjectDir: d.dir}, id, other)
		switch when {
		case "open":
			closeIt(t, g)
			g = d.open(t)
			defer closeIt(t, g)
		case "after a restart":
			if err := g.Kill(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
	}
	archive(t, g, id, false)
	lists("out of the archive", Filter{}, other)
	lists("out of the archive", Filter{Dead: true}, id, other)
}

// A turn takes its session out of the archive, whether a client or the agent
// began it. A session with a turn cannot be archived.
func TestTurnTakesASessionOutOfTheArchive(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	id := d.create(t, g)
	archive(t, g, id, true)
	sent := send(t, g, id, "hang")
	if st, err := g.Status(t.Context(), id); err != nil || st.Archived {
		t.Errorf("with a turn: %+v, %v", st, err)
	}
	_, err := HousekeepingOf(g).Archive(t.Context(), id, true)
	wantCode(t, err, runnel.TurnInProgress)
	if err := g.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	d.ends(t, sent)
	d.untilIdle(t, g, id)
	archive(t, g, id, true)
	closeIt(t, g)

	// A crash after the beginning of a turn, before the record was written.
	rec, err := d.cat.Session(t.Context(), id)
	if err != nil || !keptOf(rec.Options).Archived {
		t.Fatalf("%+v, %v", rec, err)
	}
	st, err := d.log.State(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	start := event.Event{Session: id, Seq: st.Head + 1, At: time.Now(), Turn: "0b5d3c1e-0000-4000-8000-000000000000", Body: event.ResponseStart{ModelID: "m", ProviderID: "script"}}
	if err := d.log.Append(t.Context(), id, st.Head, start); err != nil {
		t.Fatal(err)
	}
	g = d.open(t)
	defer closeIt(t, g)
	if st, err := g.Status(t.Context(), id); err != nil || st.Archived {
		t.Errorf("after the crash: %+v, %v", st, err)
	}
}

func TestForkOfAnArchivedSessionKeepsOnlyTheTitle(t *testing.T) {
	d := newDisk(t)
	g := d.open(t, func(c *Config) { c.Providers = []runnel.Provider{&forking{}} })
	defer closeIt(t, g)
	id := d.create(t, g)
	d.ends(t, send(t, g, id, "text"))
	rename(t, g, id, "Mine")
	archive(t, g, id, true)
	st, err := g.Fork(t.Context(), id)
	if err != nil || st.Archived || st.Title != "Mine (fork)" {
		t.Errorf("the copy: %+v, %v", st, err)
	}
	if st, err := g.Status(t.Context(), id); err != nil || !st.Archived {
		t.Errorf("the original: %+v, %v", st, err)
	}
}

// A failingLog refuses events while full is set.
type failingLog struct {
	runnel.Log
	full atomic.Bool
}

func (l *failingLog) Append(ctx context.Context, session string, head int64, evs ...event.Event) error {
	if l.full.Load() {
		return errors.New("the disk is full")
	}
	return l.Log.Append(ctx, session, head, evs...)
}
