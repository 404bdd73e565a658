package acp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/recordtest"
)

// storedHome writes the stored files of a recording into a home directory. It
// returns the provider for it, and the conversation's id. ok is false if the
// recording has no such files.
func storedHome(t *testing.T, a Agent, arc *txtar.Archive) (p runnel.Provider, id string, ok bool) {
	t.Helper()
	home := t.TempDir()
	p = New(a).(runnel.Programmable).WithProgram(nil, []string{"HOME=" + home, "XDG_DATA_HOME="})
	for _, f := range arc.Files {
		name, isStored := strings.CutPrefix(f.Name, "stored/")
		if !isStored {
			continue
		}
		if name == "opencode.sql" {
			fillDatabase(t, p.(keptForkingProvider).path(), string(f.Data))
			ok = true
			continue
		}
		path := filepath.Join(home, filepath.FromSlash(filing[a.Name]), filepath.FromSlash(name))
		root := filepath.Join(filepath.Dir(path), "..", ".project_root")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		for path, data := range map[string][]byte{path: f.Data, root: []byte(filepath.Join(fixtureDir(a.Name), "project"))} {
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		ok = true
	}
	if !ok {
		return nil, "", false
	}
	for _, c := range summaries(t, p) {
		id = c.AgentSessionID
	}
	return p, id, id != ""
}

// A placed item is a finished item at its place in the conversation.
type placed struct {
	Turn  int
	Place string // the item's id without that of its turn
	Item  event.FinalItem
}

// placedItems returns the finished items of events.
func placedItems(evs []event.Event) (items []placed) {
	turns := make(map[string]int)
	for _, ev := range evs {
		if ev.Turn != "" && turns[ev.Turn] == 0 {
			turns[ev.Turn] = len(turns) + 1
		}
		if b, ok := ev.Body.(event.ItemDone); ok {
			items = append(items, placed{turns[ev.Turn], strings.TrimPrefix(b.ItemID, ev.Turn), b.FinalItem})
		}
	}
	return items
}

// history returns the events of a stored conversation, without starting the
// agent.
func history(t *testing.T, p runnel.Provider, id string) (evs []event.Event) {
	t.Helper()
	read := p.(runnel.Historian).History
	if r, ok := p.(runnel.StoredReader); ok {
		read = r.ReadStored
	}
	for ev, err := range read(t.Context(), runnel.Conversation{AgentSessionID: id}) {
		if err != nil {
			t.Fatal(err)
		}
		evs = append(evs, ev)
	}
	return evs
}

// storedLess has the recordings whose items the agent does not store as it
// reports them, with the reasons.
var storedLess = map[string]string{
	"gemini approval-denied":    "of a call that was denied, the agent stores only the tool",
	"gemini denied-stop":        "the agent does not store the call that ended the turn",
	"gemini interrupt-approval": "the agent does not store the call that was asked for",
	"gemini interrupt-early":    "the agent does not store the prompt",
	"gemini image":              "the agent stores neither images nor media types",
	"gemini resume":             "the recording has only the lines of the second process",
}

// The items of a stored conversation are those of the live one, with the same
// ids. Those of Gemini CLI have more: it reports neither the arguments nor the
// output of most calls while they run.
func TestStoredConversationHasTheItemsOfTheLiveOne(t *testing.T) {
	n := 0
	eachRecording(t, func(t *testing.T, a Agent, f fixture, _ string, arc *txtar.Archive) {
		p, id, ok := storedHome(t, a, arc)
		if !ok {
			return
		}
		n++
		part := "load"
		if section(arc, part) == nil {
			part = "in"
		}
		live := placedItems(recordtest.Events(t, New(a).(runnel.Translator), recordtest.All(t, section(arc, part))))
		got := history(t, p, id)
		closed(t, got)
		stored := placedItems(got)
		if part == "in" {
			for i := range live {
				live[i].Item = lessened(live[i].Item)
			}
			for i := range stored {
				stored[i].Item = lessened(stored[i].Item)
			}
		}
		d, why := cmp.Diff(live, stored), storedLess[a.Name+" "+f.name]
		if d != "" && why == "" {
			t.Errorf("live and stored differ:\n%s", d)
		}
		if d == "" && why != "" {
			t.Errorf("live and stored are equal, although %s", why)
		}
	})
	if n < 20 {
		t.Errorf("only %d recordings have stored files", n)
	}
}

// lessened returns an item of Gemini CLI without what the agent does not report
// while a call runs.
func lessened(item event.FinalItem) event.FinalItem {
	switch f := item.(type) {
	case event.FunctionCall:
		f.Arguments = json.RawMessage("{}")
		return f
	case event.FunctionCallOutput:
		f.Output = ""
		return f
	}
	return item
}
