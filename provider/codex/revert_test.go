package codex

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// answers returns the agent's messages in events.
func answers(evs []event.Event) (out []string) {
	for _, b := range bodies[event.ItemDone](evs) {
		if m, ok := b.FinalItem.(event.Message); ok && m.Origin == event.OriginAgent {
			out = append(out, m.Content)
		}
	}
	return out
}

// A conversation that was reverted to an earlier turn has two files. It is
// listed once. Each of the files, in the agent's folder and elsewhere, gives
// the same history.
func TestRevertedConversationIsOneHistory(t *testing.T) {
	r := newRig(t)
	for _, s := range []string{"One.", "Two.", "Three."} {
		r.Play(says(s))
		r.FinishTurn("")
	}
	thread := r.Conn.(*conn).tr.thread
	r.Close()
	p := r.provider().(*Provider)
	err := p.query(t.Context(), runnel.Options{}, func(a *asker) error {
		if err := a.ask(methodResume, map[string]any{"threadId": thread, "excludeTurns": true}, nil); err != nil {
			return err
		}
		turns, _, err := a.turns(thread, nil)
		if err == nil && len(turns) != 3 {
			err = errors.New("there are " + strconv.Itoa(len(turns)) + " turns")
		}
		if err != nil {
			return err
		}
		return a.ask("thread/revert", map[string]any{"threadId": thread, "beforeTurnId": turns[1].ID}, nil)
	})
	if err != nil {
		t.Fatal(detail(err))
	}
	r.Opt.Resume = thread
	r.Open()
	r.Play(says("Four."))
	r.FinishTurn("")
	r.Close()

	var files []string
	err = filepath.WalkDir(filepath.Join(r.Home.Codex, "sessions"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".jsonl") {
			files = append(files, path)
		}
		return err
	})
	slices.SortFunc(files, newestRollout)
	if err != nil || len(files) != 2 {
		t.Fatalf("files: %q, %v", files, err)
	}
	beside := t.TempDir()
	refs := map[string]runnel.Conversation{"by id": {AgentSessionID: thread}}
	for i, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{beside, filepath.Join(t.TempDir())} {
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), data, 0o600); err != nil {
				t.Fatal(err)
			}
			if dir != beside && i == 0 {
				for _, err := range p.History(t.Context(), runnel.Conversation{File: filepath.Join(dir, filepath.Base(file)), Anywhere: true}) {
					if !errors.Is(err, errContinues) || runnel.CodeOf(err) != runnel.InvalidRequest {
						t.Errorf("the newer file alone: %v", err)
					}
				}
			}
		}
		refs["by file "+strconv.Itoa(i)] = runnel.Conversation{File: file}
		refs["by copy "+strconv.Itoa(i)] = runnel.Conversation{File: filepath.Join(beside, filepath.Base(file)), Anywhere: true}
	}
	for how, ref := range refs {
		var evs []event.Event
		for ev, err := range p.History(t.Context(), ref) {
			if err != nil {
				t.Fatalf("%s: %v", how, detail(err))
			}
			evs = append(evs, ev)
		}
		if d := cmp.Diff([]string{"One.", "Four."}, answers(evs)); d != "" {
			t.Errorf("%s: %s", how, d)
		}
	}

	listed := 0
	for c, err := range p.Discover(t.Context(), "") {
		if listed++; err != nil || c.AgentSessionID != thread || c.File != files[0] {
			t.Errorf("listed: %+v, %v", c, err)
		}
	}
	found, err := p.Find(t.Context(), thread)
	if listed != 1 || err != nil || found.File != files[0] || !slices.Equal(found.Older, files[1:]) {
		t.Errorf("listed %d times; found %+v, %v", listed, found, err)
	}
}

// A conversation is reverted twice, the second time to a turn before the first
// revert. Its history contains nothing of the file in between.
func TestFilesOfTwiceRevertedConversationAreJoined(t *testing.T) {
	dir := t.TempDir()
	const id = "00000000-0000-4000-8000-000000000001"
	line := func(ordinal int, rest string) string { return `{"ordinal":` + strconv.Itoa(ordinal) + rest + "}\n" }
	base := func(end int) string {
		return `,"payload":{"history_base":{"end_ordinal_exclusive":` + strconv.Itoa(end) + `}}`
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("rollout-2026-01-01T00-00-01-"+id+".jsonl", line(0, "")+line(1, "")+line(2, "")+line(3, ""))
	write("rollout-2026-01-01T00-00-02-"+id+"_00000000-0000-4000-8000-000000000002.jsonl", line(3, base(3))+line(4, `,"first":1`))
	last := write("rollout-2026-01-01T00-00-03-"+id+"_00000000-0000-4000-8000-000000000003.jsonl", line(2, base(2))+line(3, `,"second":1`))
	var out bytes.Buffer
	if err := join(&out, siblings(last, id), endless); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(line(0, "")+line(1, "")+line(3, `,"second":1`), out.String()); d != "" {
		t.Error(d)
	}
}
