package gateway

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel/store"
)

// sameLists fails the test unless the list as JSON is the list of statuses.
func sameLists(t *testing.T, g *Gateway, f Filter, after string) {
	t.Helper()
	list, err := g.List(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := g.Listed(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, st := range list {
		data, err := json.Marshal(st)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, string(data))
	}
	for _, l := range encoded {
		got = append(got, string(l.JSON))
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("after %s, %+v (-statuses +JSON):\n%s", after, f, d)
	}
}

// The kept list equals a list that is read from the catalogue, whatever happens
// to sessions.
func TestKeptListFollowsSessions(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	check := func(after string) {
		t.Helper()
		for _, f := range []Filter{{}, {Dead: true}, {ProjectDir: d.dir}, {ProjectDir: d.dir, Dead: true}, {ProjectID: "none"}} {
			sameLists(t, g, f, after)
		}
	}
	check("the start")
	first := d.create(t, g)
	second := d.create(t, g)
	check("two sessions were created")
	d.ends(t, send(t, g, first, "text"))
	d.untilIdle(t, g, first)
	check("a turn")
	if err := g.Kill(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	check("the first was ended")
	if _, err := g.Load(t.Context(), first, ""); err != nil {
		t.Fatal(err)
	}
	check("it was opened again")
	d.ends(t, send(t, g, first, "text"))
	d.untilIdle(t, g, first)
	if err := g.Delete(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	check("the second was deleted")
	closeIt(t, g)
	g = d.open(t)
	defer closeIt(t, g)
	check("a restart")
	d.ends(t, send(t, g, first, "text"))
	d.untilIdle(t, g, first)
	check("a turn after the restart")
}

// A countedCatalogue counts the records that are read.
type countedCatalogue struct {
	store.Catalogue
	one, all int
}

func (c *countedCatalogue) Session(ctx context.Context, id string) (store.Session, error) {
	c.one++
	return c.Catalogue.Session(ctx, id)
}

func (c *countedCatalogue) Sessions(ctx context.Context, f store.SessionFilter) ([]store.Session, error) {
	if f.State == "" {
		c.all++
	}
	return c.Catalogue.Sessions(ctx, f)
}

func TestListReadsOnlyRecordsThatHaveChanged(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	var ids []string
	for range 5 {
		ids = append(ids, d.create(t, g))
	}
	closeIt(t, g)
	cat := &countedCatalogue{Catalogue: d.cat}
	g = d.open(t, func(c *Config) { c.Catalogue = cat })
	defer closeIt(t, g)
	list := func(all, one int) {
		t.Helper()
		if _, err := g.Listed(t.Context(), Filter{}); err != nil || cat.all != all || cat.one != one {
			t.Errorf("read %d lists and %d records, want %d and %d, %v", cat.all, cat.one, all, one, err)
		}
	}
	list(1, 0)
	list(1, 0)
	rec, err := d.cat.Session(t.Context(), ids[0])
	if err != nil {
		t.Fatal(err)
	}
	rec.Title = "another"
	if err := g.cfg.Catalogue.PutSession(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	list(1, 1)
	list(1, 1)
}
