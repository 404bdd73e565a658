package claude

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/recordtest"
	"github.com/runnel-dev/runnel/provider/providertest"
)

// unpack writes the stored files of a recording to a new configuration
// directory. It returns the conversations in the directory, oldest first.
func unpack(t *testing.T, a *txtar.Archive) (found []runnel.Conversation) {
	t.Helper()
	config := t.TempDir()
	t.Setenv("CLAUDE_CONFIG_DIR", config)
	for _, f := range a.Files {
		name, ok := strings.CutPrefix(f.Name, "stored/")
		if !ok {
			continue
		}
		path := filepath.Join(config, "projects", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for c, err := range New().Discover(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, c)
	}
	if len(found) == 0 {
		t.Fatal("no conversation was discovered")
	}
	slices.SortFunc(found, func(a, b runnel.Conversation) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return found
}

func history(t *testing.T, cs ...runnel.Conversation) []event.Event {
	t.Helper()
	var evs []event.Event
	for _, c := range cs {
		for ev, err := range New().History(t.Context(), c) {
			if err != nil {
				t.Fatal(err)
			}
			evs = append(evs, ev)
		}
	}
	return evs
}

// TestHistoryEqualsLive compares the events of each recording with the history
// from the files that the agent stored. [providertest.Differences] lists the
// allowed differences and their reasons.
func TestHistoryEqualsLive(t *testing.T) {
	providertest.EachParity(t, providerID, eachRecording, func(t *testing.T, a *txtar.Archive) (live, stored []event.Event, ok bool) {
		for _, ref := range unpack(t, a) {
			stored = append(stored, recordtest.Loaded(t, providerID, ref, New().History)...)
		}
		sound(t, stored)
		return recordtest.Replayed(t, New(), recordtest.All(t, section(a, "in"))), stored, true
	})
}

// The test loads each recorded conversation into the log of the live session.
func TestLoadAddsNothingToTheLogOfTheLiveSession(t *testing.T) {
	eachRecording(t, func(t *testing.T, _ fixture, _ string, a *txtar.Archive) {
		live := recordtest.Replayed(t, New(), recordtest.All(t, recordtest.Section(a, "in")))
		found := unpack(t, a)
		recordtest.NothingAdded(t, providerID, live, history(t, found[len(found)-1:]...), false)
	})
}

func TestDiscoverDescribesAConversation(t *testing.T) {
	a, err := txtar.ParseFile("testdata/text@2.1.330.txtar")
	if err != nil {
		t.Fatal(err)
	}
	c := unpack(t, a)[0]
	if c.Dir != "/tmp/runnel-fixture/project" || c.Title == "" || c.CreatedAt.Before(fixtureStart) || c.Size == 0 || time.Since(c.UpdatedAt) > time.Hour {
		t.Errorf("%+v", c)
	}
	for range New().Discover(t.Context(), t.TempDir()) {
		t.Error("a conversation of another directory was found")
	}
}
