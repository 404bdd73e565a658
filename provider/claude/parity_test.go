package claude

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/recordtest"
)

// unpack writes the stored files of a recording to a new configuration
// directory. It returns the conversations in the directory, oldest first.
func unpack(t *testing.T, a *txtar.Archive) (found []runnel.Conversation) {
	t.Helper()
	config := t.TempDir()
	t.Setenv("CLAUDE_CONFIG_DIR", config)
	recordtest.Unpack(t, a, filepath.Join(config, "projects"))
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
