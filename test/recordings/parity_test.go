package recordings

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/loadtest"
	"github.com/runnel-dev/runnel/internal/recordtest"
	"github.com/runnel-dev/runnel/provider/all"
	"github.com/runnel-dev/runnel/provider/providertest"
)

// A keeper reads what an agent stored of a recorded conversation.
type keeper struct {
	folder     string // holds the recordings
	recordings int    // the folder has at least so many
	positional bool   // the provider derives turn ids from positions

	// stored returns the conversations that the agent stored, oldest first, and
	// the function that reads their events. It returns none if the agent stored
	// nothing.
	stored func(t *testing.T, a *txtar.Archive) ([]runnel.Conversation, loadtest.History)
}

// keepers has the keeper of each agent by the name of its provider. Gemini CLI
// replays no conversation.
func keepers() map[string]keeper {
	all := map[string]keeper{
		"claude-code": {folder: "claude/testdata", recordings: 100, stored: ofClaude},
		"codex":       {folder: "codex/testdata", recordings: 40, stored: ofCodex},
	}
	for _, name := range []string{"claude-agent-acp", "codex-acp", "copilot", "opencode", "qwen"} {
		all[name] = keeper{folder: "acp/testdata/" + name, recordings: 15, positional: true, stored: replayed(name)}
	}
	return all
}

// provider returns the provider of this name.
func provider(t *testing.T, name string) runnel.Provider {
	t.Helper()
	for _, p := range all.Providers() {
		if p.Name() == name {
			return p
		}
	}
	t.Fatalf("no provider %s", name)
	return nil
}

// eachStored calls test with every recording of a conversation that the agent
// stored.
func eachStored(t *testing.T, name string, k keeper, test func(t *testing.T, path string, live []event.Event, cs []runnel.Conversation, history loadtest.History)) {
	found := 0
	recordtest.Each(t, filepath.Join("../../provider", k.folder), nil, func(t *testing.T, _ struct{}, path string, a *txtar.Archive) {
		cs, history := k.stored(t, a)
		if len(cs) == 0 {
			return
		}
		found++
		test(t, path, recordtest.Replayed(t, provider(t, name), recordtest.All(t, recordtest.Section(a, "in"))), cs, history)
	})
	if found < k.recordings {
		t.Errorf("%d recordings of %s in %s have a stored conversation, fewer than %d", found, name, k.folder, k.recordings)
	}
}

// TestHistoryEqualsLive compares the events of each recording with those that
// are loaded from the agent's own history. [providertest.Differences] lists the
// allowed differences and their reasons.
func TestHistoryEqualsLive(t *testing.T) {
	for name, k := range keepers() {
		t.Run(name, func(t *testing.T) {
			parity := providertest.NewParity(name)
			eachStored(t, name, k, func(t *testing.T, path string, live []event.Event, cs []runnel.Conversation, history loadtest.History) {
				var stored []event.Event
				for _, ref := range cs {
					stored = append(stored, loadtest.Loaded(t, name, ref, history)...)
				}
				agentrig.Sound(t, stored)
				if k.positional {
					stored = underIDs(live, stored)
				}
				parity.Compare(t, path, live, stored)
			})
			parity.Unused(t)
		})
	}
}

// The test loads each recorded conversation into a session whose log already
// has all turns.
func TestLoadAddsNothingToTheLogOfTheLiveSession(t *testing.T) {
	for name, k := range keepers() {
		t.Run(name, func(t *testing.T) {
			eachStored(t, name, k, func(t *testing.T, _ string, live []event.Event, cs []runnel.Conversation, history loadtest.History) {
				var kept []event.Event
				for ev, err := range history(t.Context(), cs[len(cs)-1]) {
					if err != nil {
						t.Fatal(err)
					}
					kept = append(kept, ev)
				}
				if k.positional {
					live = afterLoad(t, name, live, kept)
				}
				loadtest.NothingAdded(t, name, live, kept, k.positional)
			})
		})
	}
}

// afterLoad returns the log of a session whose first turn comes from an earlier
// load and the others from the live session.
func afterLoad(t *testing.T, name string, live, kept []event.Event) []event.Event {
	t.Helper()
	ends := func(evs []event.Event) (all []int) {
		for i, ev := range evs {
			if event.Ends(ev.Body) {
				all = append(all, i)
			}
		}
		return all
	}
	ours, theirs := ends(live), ends(kept)
	copied := theirs[max(len(theirs)-len(ours), 0)] // a recording may lack turns of another process
	first := loadtest.Events(t, name, kept[:copied+1])
	return append(slices.Clone(first), live[ours[0]+1:]...)
}
