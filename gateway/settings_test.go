package gateway

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// The status has the options that clients have set, even after a restart, when
// the gateway has only the session's record.
func TestStatusReportsGivenSettings(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	st, err := g.Create(t.Context(), "script", d.dir, runnel.Options{Config: runnel.Values{"pace": "fast"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	id := st.SessionID
	d.ends(t, send(t, g, id, "text"))
	if st, err = g.Set(t.Context(), id, runnel.Options{Config: runnel.Values{"thoughts": "false"}}); err != nil {
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

// After a restart no agent runs that could report its settings. The status then
// has those that the last agent reported, and not the defaults of its kind.
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

// A session keeps each file that its agents report once, in the order of the
// reports, and at most maxFiles files.
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

// counting is a log that counts its reads.
type counting struct {
	store.Log
	reads atomic.Int32
}

func (l *counting) Read(ctx context.Context, session string, after int64) iter.Seq2[event.Event, error] {
	l.reads.Add(1)
	return l.Log.Read(ctx, session, after)
}

// A log may be as large as 50 MB, so Status must not read it, whether or not
// the session is open.
func TestStatusReadsNoLog(t *testing.T) {
	d := newDisk(t)
	log := &counting{Log: &d.log}
	over := func(c *Config) { c.Log = log }
	g := d.open(t, over)
	id := d.create(t, g)
	fresh := d.create(t, g) // its agent reports nothing
	d.ends(t, send(t, g, id, `{"steps":[{"session":{"config":[{"id":"depth","name":"Depth","type":"select","value":"deep"}],"commands":[{"name":"old"}]}},`+
		`{"session":{"commands":[{"name":"compact","description":"Clears the history","hint":"focus"}]}},{"text":"x"}]}`))
	if st, err := g.Status(t.Context(), id); err != nil || len(st.Config) != 1 || st.Config[0].ID != "depth" {
		t.Fatalf("%+v, %v", st.Config, err)
	}
	d.ends(t, send(t, g, id, "text"))
	if _, err := g.Set(t.Context(), id, runnel.Options{PermissionMode: runnel.ModeAcceptEdits}); err != nil {
		t.Fatal(err)
	}
	before, err := g.Status(t.Context(), id)
	if err != nil || len(before.Config) == 0 || !slices.Equal(before.Commands, []event.AgentCommand{{Name: "compact", Description: "Clears the history", Hint: "focus"}}) {
		t.Fatalf("%+v, %+v, %v", before.Config, before.Commands, err)
	}
	if list, err := g.List(t.Context(), Filter{}); err != nil || list[0].Commands != nil || list[1].Commands != nil {
		t.Errorf("a list has the commands: %+v, %v", list, err)
	}
	closeIt(t, g)

	g = d.open(t, over)
	defer func() { closeIt(t, g) }()
	log.reads.Store(0)
	for _, open := range []bool{false, true} {
		if open {
			e, err := g.lock(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			g.unlock(e)
			log.reads.Store(0) // opening the session may read the log
		}
		for range 3 {
			st, err := g.Status(t.Context(), id)
			if err != nil || !reflect.DeepEqual(st.Config, before.Config) || !reflect.DeepEqual(st.Files, before.Files) || !slices.Equal(st.Commands, before.Commands) {
				t.Errorf("open %v: %+v, %v; want %+v", open, st, err, before)
			}
			if _, err := g.Status(t.Context(), fresh); err != nil {
				t.Error(err)
			}
		}
		if n := log.reads.Load(); n > 0 {
			t.Errorf("open %v: the log was read %d times", open, n)
		}
	}
}

// A database of a version that stored no reports has them only in the logs.
func TestStatusOfASessionWithoutAReportReadsItsLogOnce(t *testing.T) {
	d := newDisk(t)
	log := &counting{Log: &d.log}
	over := func(c *Config) { c.Log = log }
	g := d.open(t, over)
	id := d.create(t, g)
	d.ends(t, send(t, g, id, "text"))
	before, err := g.Status(t.Context(), id)
	if err != nil || len(before.Config) == 0 {
		t.Fatalf("%+v, %v", before.Config, err)
	}
	closeIt(t, g)
	old, _ := d.copied(t, id) // with only the record
	log.Log = &old.log
	g = old.open(t, over)
	defer func() { closeIt(t, g) }()
	for range 2 {
		if st, err := g.Status(t.Context(), id); err != nil || !reflect.DeepEqual(st.Config, before.Config) {
			t.Errorf("%+v, %v; want %+v", st.Config, err, before.Config)
		}
		old.ends(t, send(t, g, id, "text"))
		if err := g.records.write(t.Context(), g.sessions.peek(id)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := old.cat.Report(t.Context(), id); err != nil {
		t.Errorf("no report was written: %v", err)
	}
}
