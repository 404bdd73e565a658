package gateway

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// What was set is told whether or not the agent runs, and by a gateway that
// only has the record of it.
func TestStatusReportsGivenSettings(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	st, err := g.Create(t.Context(), "script", d.dir, runnel.Options{Config: runnel.Values{"pace": "fast"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	id := st.SessionID
	d.ends(t, send(t, g, id, "text"))
	if st, err = g.Set(t.Context(), id, runnel.Settings{Config: runnel.Values{"thoughts": "false"}}); err != nil {
		t.Fatal(err)
	}
	want := runnel.Values{"pace": "fast", "thoughts": "false"}
	if !maps.Equal(st.Given, want) {
		t.Errorf("given %v", st.Given)
	}
	closeIt(t, g)
	g = d.open(t)
	defer closeIt(t, g)
	if st, err = g.Status(t.Context(), id); err != nil || !maps.Equal(st.Given, want) {
		t.Errorf("after a restart: %+v, %v", st, err)
	}
}

// After a restart no agent runs that could say what is set: a reader sees what
// it reported last, and not the defaults of its kind.
func TestStatusReportsLastConfigAfterRestart(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	st, err := g.Create(t.Context(), "script", d.dir, runnel.Options{Config: runnel.Values{"pace": "fast"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	id := st.SessionID
	d.ends(t, send(t, g, id, "text"))
	before, err := g.Status(t.Context(), id)
	if err != nil || len(before.Config) == 0 {
		t.Fatalf("%+v, %v", before.Config, err)
	}
	closeIt(t, g)
	g = d.open(t)
	defer func() { closeIt(t, g) }()
	same := func(when string) {
		t.Helper()
		st, err := g.Status(t.Context(), id)
		if err != nil || !reflect.DeepEqual(st.Config, before.Config) {
			t.Errorf("%s: %+v, %v; want %+v", when, st.Config, err, before.Config)
		}
	}
	same("while the session is not open")
	if _, err := g.Load(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	same("while it is open without an agent")
}

// Files of its own that an agent names are known as soon as it does, and after a
// restart from the log.
func TestReportedFilesAreKeptOnce(t *testing.T) {
	plan := event.AgentFile{Path: "/home/u/.agent/plan.md", Kind: "plan"}
	skill := event.AgentFile{Path: "/p/skill.md", Kind: "skill"}
	var r reported
	for _, files := range [][]event.AgentFile{{plan}, {plan, skill}, nil} {
		r.take(event.SessionUpdated{Files: files})
	}
	if want := []event.AgentFile{plan, skill}; !slices.Equal(r.files, want) {
		t.Errorf("%+v, want %+v", r.files, want)
	}
	for i := range 2 * maxFiles {
		r.take(event.SessionUpdated{Files: []event.AgentFile{{Path: fmt.Sprint(i), Kind: "skill"}}})
	}
	if len(r.files) != maxFiles {
		t.Errorf("%d files", len(r.files))
	}
}
