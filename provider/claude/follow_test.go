package claude

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// A storedLine is a line of a conversation's files.
type storedLine struct {
	path, at string
	data     []byte
}

// takeLines empties the files of all conversations and returns their lines in
// the order in which the agent wrote them.
func takeLines(t *testing.T) (lines []storedLine) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(os.Getenv("CLAUDE_CONFIG_DIR"), "projects"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".jsonl") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		at := ""
		for line := range bytes.Lines(data) {
			var e struct{ Timestamp string }
			if json.Unmarshal(line, &e) == nil {
				at = max(at, e.Timestamp) // a line is written after the lines before it
			}
			lines = append(lines, storedLine{path, at, bytes.Clone(line)})
		}
		return os.WriteFile(path, nil, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(lines, func(a, b storedLine) int { return cmp.Compare(a.at, b.at) })
	return lines
}

func (l storedLine) store(t *testing.T) {
	t.Helper()
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.Write(l.data)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// followedEvents returns what a following returns while the lines are stored
// one by one.
func followedEvents(t *testing.T, f runnel.Following, lines []storedLine) (all []event.Event) {
	t.Helper()
	for _, l := range lines {
		l.store(t)
		evs, err := f.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, evs...)
	}
	return append(all, f.Finish()...)
}

// outcomes returns the final items and the ends of turns that a session logs
// for events, by id.
func outcomes(t *testing.T, evs []event.Event) map[string]string {
	t.Helper()
	out := make(map[string]string)
	add := func(id string, body any) {
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		out[id] = string(data)
	}
	var each iter.Seq2[event.Event, error] = func(yield func(event.Event, error) bool) {
		for _, ev := range evs {
			if !yield(ev, nil) {
				return
			}
		}
	}
	for ev, err := range runnel.Replay("s", providerID, each) {
		if err != nil {
			t.Fatal(err)
		}
		switch b := ev.Body.(type) {
		case event.ItemDone:
			add(b.ItemID, b.FinalItem)
		case event.ItemError, event.ItemCancelled:
			add("end of an item in "+ev.Turn, b)
		case event.ResponseDone, event.ResponseError:
			add(ev.Turn, b)
		}
	}
	return out
}

// branched are recordings in which the agent continued from an entry before the
// end of its turn. A reader of the whole conversation leaves that end out,
// because it is on another branch; a reader that follows has returned it.
var branched = []string{"api-401@2.1.197", "cut-tool@2.1.197", "login-refused@2.1.197"}

// TestFollowedRecordingEqualsItsHistory stores each recorded conversation line
// by line. A reader that follows it must return the items that a reader of the
// whole conversation returns, with the same ids, and the same ends of turns.
func TestFollowedRecordingEqualsItsHistory(t *testing.T) {
	eachRecording(t, func(t *testing.T, _ fixture, _ string, a *txtar.Archive) {
		for _, c := range unpack(t, a) {
			want := outcomes(t, history(t, c))
			lines := takeLines(t)
			f, err := New().Follow(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			got := outcomes(t, followedEvents(t, f, lines))
			f.Close()
			if slices.Contains(branched, filepath.Base(t.Name())) {
				for turn := range want {
					if strings.Count(turn, ":") == 0 {
						delete(want, turn)
						delete(got, turn)
					}
				}
			}
			if d := gocmp.Diff(want, got); d != "" {
				t.Errorf("%s:\n%s", c.AgentSessionID, d)
			}
		}
	})
}

func TestFollowingReadsOnlyCompleteLinesOnce(t *testing.T) {
	t.Setenv("CLAUDE_CONFIG_DIR", t.TempDir())
	dir := filepath.Join(os.Getenv("CLAUDE_CONFIG_DIR"), "projects", "-p")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, aStored+".jsonl")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := New().Follow(t.Context(), runnel.Conversation{AgentSessionID: aStored})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	line := `{"type":"user","uuid":"f34b2631-3856-48bf-a01f-bc8217ab38de","timestamp":"2026-11-24T03:23:45.134Z","message":{"role":"user","content":"hi"}}` + "\n"
	next := func(add string) int {
		t.Helper()
		storedLine{path: file, data: []byte(add)}.store(t)
		evs, err := f.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(evs)
	}
	if n := next(line[:50]); n != 0 {
		t.Errorf("%d events of half a line", n)
	}
	if n := next(line[50:]); n == 0 {
		t.Error("no events of a line")
	}
	if n := next(""); n != 0 {
		t.Errorf("%d events of nothing new", n)
	}
	if err := os.WriteFile(file, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if evs, err := f.Next(t.Context()); err == nil {
		t.Errorf("a file that was written anew: %d events, no error", len(evs))
	}
}

const aStored = "95db45f4-491b-4607-9186-876e7b9d13b3"
