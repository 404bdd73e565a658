package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/testload"
	"github.com/runnel-dev/runnel/store"
	"github.com/runnel-dev/runnel/store/sqlite"
)

// A searched index reports every change of the index below.
type searched struct {
	store.SearchIndex
	changes chan struct{}
	fail    func() error // nil: nothing fails
}

func (x *searched) AddItems(ctx context.Context, s store.SearchSession, after, seq int64, items ...store.SearchItem) error {
	if x.fail != nil {
		if err := x.fail(); err != nil {
			return err
		}
	}
	err := x.SearchIndex.AddItems(ctx, s, after, seq, items...)
	x.changes <- struct{}{}
	return err
}

func (x *searched) Forget(ctx context.Context, ids ...string) error {
	err := x.SearchIndex.Forget(ctx, ids...)
	x.changes <- struct{}{}
	return err
}

func searchIn(t *testing.T, dir string) *searched {
	t.Helper()
	x, err := sqlite.OpenSearch(t.Context(), dir, "log", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	return &searched{SearchIndex: x, changes: make(chan struct{}, 1000)}
}

func (x *searched) use(c *Config) { c.Search = x }

// finds waits until a query finds want, each as "kind: snippet".
func (x *searched) finds(t *testing.T, g *Gateway, ctx context.Context, q SearchQuery, want ...string) []SearchHit {
	t.Helper()
	q.Limit = 100
	late := time.After(2 * time.Minute) // changed conversations are looked for once a minute
	for {
		page, err := SearchOf(g).Query(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		got := []string{}
		for _, h := range page.Hits {
			text := ""
			for _, p := range h.Snippet {
				text += p.Text
			}
			got = append(got, fmt.Sprintf("%s: %s", h.Kind, text))
		}
		if fmt.Sprint(got) == fmt.Sprint(append([]string{}, want...)) {
			return page.Hits
		}
		select {
		case <-x.changes:
		case <-late:
			t.Fatalf("search %+v:\n got %q\nwant %q", q, got, want)
		}
	}
}

func TestSearchFindsWhatASessionDid(t *testing.T) {
	d, x := newDisk(t), searchIn(t, t.TempDir())
	g := d.open(t, x.use)
	defer func() { closeIt(t, g) }()
	id := d.create(t, g)
	sent := send(t, g, id, "text zebra one")
	d.ends(t, sent)
	hits := x.finds(t, g, t.Context(), SearchQuery{Text: "zebra", Kinds: []store.SearchKind{store.SearchPrompt}}, "prompt: text zebra one")
	if h := hits[0]; h.SessionID != id || h.TurnID != sent.TurnID || h.CLIType != "script" || h.ProjectDir != d.dir || h.Title != "text zebra one" || h.Seq <= sent.After || h.At.IsZero() {
		t.Errorf("hit %+v", h)
	}
	item := ""
	for ev, err := range d.log.Read(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Seq == hits[0].Seq {
			item = ev.Body.(event.ItemDone).ItemID
		}
	}
	if hits[0].ItemID != item {
		t.Errorf("item %q, want %q", hits[0].ItemID, item)
	}

	// A restarted server finds old and new items once.
	closeIt(t, g)
	g = d.open(t, x.use)
	d.ends(t, send(t, g, id, "text zebra two"))
	x.finds(t, g, t.Context(), SearchQuery{Text: "zebra", Kinds: []store.SearchKind{store.SearchPrompt}}, "prompt: text zebra two", "prompt: text zebra one")

	remove(t, g, id)
	x.finds(t, g, t.Context(), SearchQuery{Text: "zebra"})
	for {
		at, err := x.Indexed(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(at) == 0 {
			break
		}
		<-x.changes
	}
}

func TestSearchStaysInTheProjectOfAToken(t *testing.T) {
	d, x := newDisk(t), searchIn(t, t.TempDir())
	g := d.open(t, x.use)
	defer closeIt(t, g)
	d.ends(t, send(t, g, d.create(t, g), "text zebra one"))
	first := d.dir
	d.dir = canonical(t.TempDir())
	d.ends(t, send(t, g, d.create(t, g), "text zebra two"))
	prompts := SearchQuery{Text: "zebra", Kinds: []store.SearchKind{store.SearchPrompt}}
	x.finds(t, g, t.Context(), prompts, "prompt: text zebra two", "prompt: text zebra one")
	own := WithProject(t.Context(), first)
	x.finds(t, g, own, prompts, "prompt: text zebra one")
	prompts.ProjectDir = d.dir
	x.finds(t, g, t.Context(), prompts, "prompt: text zebra two")
	x.finds(t, g, own, prompts)
	prompts.ProjectDir, prompts.ProjectID = "", ProjectID(d.dir)
	x.finds(t, g, t.Context(), prompts, "prompt: text zebra two")
	x.finds(t, g, own, prompts)

	// The directory of the token becomes a link to the other project.
	prompts.ProjectID = ""
	if err := os.Remove(first); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(d.dir, first); err != nil {
		t.Fatal(err)
	}
	x.finds(t, g, own, prompts, "prompt: text zebra one")
}

// The index may be lost, or its disk full, without any effect on sessions.
func TestSearchCatchesUpAfterAnError(t *testing.T) {
	testload.TakesLong(t)
	d, x := newDisk(t), searchIn(t, t.TempDir())
	broken := make(chan struct{})
	failed := make(chan struct{}, 100)
	x.fail = func() error {
		select {
		case <-broken:
			return nil
		default:
			failed <- struct{}{}
			return errors.New("the disk is full")
		}
	}
	g := d.open(t, x.use)
	defer closeIt(t, g)
	id := d.create(t, g)
	d.ends(t, send(t, g, id, "text zebra one"))
	<-failed
	x.finds(t, g, t.Context(), SearchQuery{Text: "zebra"})
	d.ends(t, send(t, g, id, "text zebra two"))
	close(broken)
	prompts := SearchQuery{Text: "zebra", Kinds: []store.SearchKind{store.SearchPrompt}}
	x.finds(t, g, t.Context(), prompts, "prompt: text zebra two", "prompt: text zebra one")
}

func TestSearchIndexIsRebuiltWhileTheServerRuns(t *testing.T) {
	testload.TakesLong(t)
	d, x := newDisk(t), searchIn(t, t.TempDir())
	g := d.open(t, x.use)
	defer closeIt(t, g)
	one, two := d.create(t, g), d.create(t, g)
	prompts := SearchQuery{Text: "zebra", Kinds: []store.SearchKind{store.SearchPrompt}}
	d.ends(t, send(t, g, one, "text zebra one"))
	x.finds(t, g, t.Context(), prompts, "prompt: text zebra one") // the indexer takes sessions that changed together in any order
	d.ends(t, send(t, g, two, "text zebra two"))
	x.finds(t, g, t.Context(), prompts, "prompt: text zebra two", "prompt: text zebra one")
	if err := x.SearchIndex.Forget(t.Context(), one, two); err != nil { // as if the index had been made again
		t.Fatal(err)
	}
	d.ends(t, send(t, g, one, "text zebra three"))
	x.finds(t, g, t.Context(), prompts, "prompt: text zebra three", "prompt: text zebra two", "prompt: text zebra one")
}

// slowSearch is an index whose searches take longer than anybody waits.
type slowSearch struct{ store.SearchIndex }

func (slowSearch) Search(ctx context.Context, _ store.SearchQuery) (store.SearchPage, error) {
	<-ctx.Done()
	return store.SearchPage{}, ctx.Err()
}

func (slowSearch) Indexed(context.Context) (map[string]store.SearchPosition, error) { return nil, nil }

func TestSearchTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t)
		g := d.open(t, func(c *Config) { c.Search = slowSearch{} })
		defer closeIt(t, g)
		began := time.Now()
		_, err := SearchOf(g).Query(t.Context(), SearchQuery{Text: "word", Limit: 1})
		wantCode(t, err, runnel.Timeout)
		if took := time.Since(began); took != searchTime {
			t.Errorf("it took %v", took)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := SearchOf(g).Query(ended, SearchQuery{Text: "word", Limit: 1}); !errors.Is(err, context.Canceled) {
			t.Errorf("a client that has left gets %v", err)
		}
	})
}

func TestSearchIsDisabledWithoutAnIndex(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	defer closeIt(t, g)
	if page, err := SearchOf(g).Query(t.Context(), SearchQuery{Text: "word", Limit: 1}); err != nil || !page.Disabled || page.Hits == nil {
		t.Errorf("%+v, %v", page, err)
	}
}

func TestSearchReadsThePartsOfItems(t *testing.T) {
	done := func(item string, f event.FinalItem) event.Event {
		return event.Event{Turn: "t", Seq: 7, Body: event.ItemDone{ItemID: item, FinalItem: f}}
	}
	change := event.Change{Path: "src/a.go", Kind: event.ChangeUpdate, Hunks: []event.Hunk{{Lines: []string{" same", "-old", "+new"}}}}
	long := "begin " + strings.Repeat("x ", maxSearched) + "end"
	for _, c := range []struct {
		ev   event.Event
		want string
	}{
		{done("t:1:0", event.Message{Content: " ask\x1b[31m red\x1b[0m ", Origin: event.OriginUser, Attachments: []event.Attachment{{Name: "plan.pdf"}}}), "t:1:0 prompt ask red \nplan.pdf"},
		{done("t:1:0", event.Message{Content: "reply", Origin: event.OriginAgent}), "t:1:0 answer reply"},
		{done("t:1:0", event.Message{Content: "compacted", Origin: event.OriginSystem}), ""},
		{done("t:1:0", event.Reasoning{Content: "thoughts"}), ""},
		{done("t:1:0", event.FunctionCall{Name: "Bash", Arguments: json.RawMessage(`{"command":"go test","env":{"A":["b",1,true]}}`)}), "t:1:0 command Bash\ngo test\nb"},
		{done("t:1:0", event.FunctionCall{Name: "Bash", Title: "Run it", Arguments: json.RawMessage(`{`)}), "t:1:0 command Bash\nRun it"},
		{done("t:1:0", event.FunctionCall{Name: "Edit", Kind: event.KindEdit, Arguments: json.RawMessage(`{"new":"text"}`), Locations: []event.Location{{Path: "a.go"}}}), "t:1:0 command Edit\na.go"},
		{done("t:1:0:output", event.FunctionCallOutput{Output: "ok", Changes: []event.Change{change}}), "t:1:0 command ok t:1:0 diff src/a.go\n-old\n+new"},
		{done("t:1:0:output", event.FunctionCallOutput{Output: " "}), ""},
		{event.Event{Body: event.ItemDelta{ItemID: "t:1:0", DeltaContent: "text"}}, ""},
	} {
		var got []string
		for _, it := range searchItems(c.ev) {
			got = append(got, it.Item+" "+string(it.Kind)+" "+it.Text)
			if it.Turn != "t" || it.Seq != 7 {
				t.Errorf("item %+v", it)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v:\n got %q\nwant %q", c.ev.Body, got, c.want)
		}
	}
	for _, it := range searchItems(done("o", event.FunctionCallOutput{Output: long})) {
		if len(it.Text) > maxSearched || !strings.HasPrefix(it.Text, "begin") || !strings.HasSuffix(it.Text, "end") {
			t.Errorf("%d bytes, %.20q … %q", len(it.Text), it.Text, it.Text[len(it.Text)-20:])
		}
	}
}
