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
	"time"

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

// storedAs returns the line of an entry.
func storedAs(kind, id, parent, content string) []byte {
	message := map[string]any{"role": kind, "content": content}
	if kind == "assistant" {
		message = map[string]any{"id": "msg_" + id, "role": kind, "model": "m", "content": []any{map[string]string{"type": "text", "text": content}}}
	}
	e := map[string]any{"type": kind, "uuid": id, "timestamp": "2026-11-24T03:23:45.134Z", "message": message}
	if parent != "" {
		e["parentUuid"] = parent
	}
	data, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return append(data, '\n')
}

// messagesIn returns the texts of the messages that have ended.
func messagesIn(evs []event.Event) (out []string) {
	for _, ev := range evs {
		if b, ok := ev.Body.(event.ItemDone); ok {
			if m, ok := b.FinalItem.(event.Message); ok {
				out = append(out, m.Content)
			}
		}
	}
	return out
}

// aFollowed returns a following of the conversation aStored, which has one
// prompt, with its file.
func aFollowed(t *testing.T) (f *following, file string, all *[]event.Event) {
	t.Helper()
	t.Setenv("CLAUDE_CONFIG_DIR", t.TempDir())
	file = filepath.Join(os.Getenv("CLAUDE_CONFIG_DIR"), "projects", "-p", aStored+".jsonl")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, storedAs("user", "u1", "", "one"), 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := New().Follow(t.Context(), runnel.Conversation{AgentSessionID: aStored})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reader.Close)
	f, all = reader.(*following), new([]event.Event)
	gains(t, f, all)
	return f, file, all
}

func gains(t *testing.T, f *following, all *[]event.Event) {
	t.Helper()
	evs, err := f.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	*all = append(*all, evs...)
}

// After a restart of the server, the log has an answer that the agent has removed
// or left for another branch. The answers after it keep their ids.
func TestFollowingKeepsTheIDsOfShownItems(t *testing.T) {
	f, file, all := aFollowed(t)
	turn := (*all)[len(*all)-1].Turn
	storedLine{path: file, data: slices.Concat(storedAs("assistant", "a2", "u1", "stays"), storedAs("assistant", "a3", "a2", "new"))}.store(t)
	f.Close()
	reader, err := New().Follow(t.Context(), runnel.Conversation{AgentSessionID: aStored, Shown: []runnel.ShownItem{
		{ID: turn + ":1:0", Native: "msg_a1"}, {ID: turn + ":2:0", Native: "msg_a2"}, {ID: turn + ":toolu_x/1:0", Native: "msg_b1"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	evs, err := reader.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, ev := range evs {
		if b, ok := ev.Body.(event.ItemDone); ok {
			got[b.FinalItem.(event.Message).Content] = strings.TrimPrefix(b.ItemID, turn)
		}
	}
	if d := gocmp.Diff(map[string]string{"one": ":0:0", "stays": ":2:0", "new": ":3:0"}, got); d != "" {
		t.Error(d)
	}
}

// The agent removes the beginning of an answer from its file when it replaces
// that answer.
func TestFollowingGoesOnWhenTheAgentRemovesAnEntry(t *testing.T) {
	for name, how := range map[string]struct{ read, renamed bool }{
		"before the next entries":     {read: true},
		"together with the next ones": {},
		"in a new file":               {renamed: true},
	} {
		t.Run(name, func(t *testing.T) {
			f, file, all := aFollowed(t)
			storedLine{path: file, data: storedAs("assistant", "a1", "u1", "removed")}.store(t)
			gains(t, f, all)
			kept := storedAs("user", "u1", "", "one")
			if how.renamed {
				if err := os.WriteFile(file+".new", kept, 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(file+".new", file); err != nil {
					t.Fatal(err)
				}
			} else if err := os.Truncate(file, int64(len(kept))); err != nil {
				t.Fatal(err)
			}
			if how.read {
				gains(t, f, all)
			}
			storedLine{path: file, data: storedAs("assistant", "a2", "u1", strings.Repeat("long ", 1000))}.store(t)
			gains(t, f, all)
			storedLine{path: file, data: storedAs("assistant", "a3", "a2", "last")}.store(t)
			gains(t, f, all)
			*all = append(*all, f.Finish()...)
			if d := gocmp.Diff([]string{"one", "removed", strings.Repeat("long ", 1000), "last"}, messagesIn(*all)); d != "" {
				t.Error(d)
			}
		})
	}
}

// The agent begins another file when the conversation is resumed in another
// folder, after it has registered its process.
func TestFollowingFindsTheFileOfAnotherFolder(t *testing.T) {
	f, file, all := aFollowed(t)
	other := filepath.Join(filepath.Dir(filepath.Dir(file)), "-q", filepath.Base(file))
	foreign := filepath.Join(filepath.Dir(filepath.Dir(file)), "-r", filepath.Base(file))
	for path, data := range map[string][]byte{
		other:   append(storedAs("user", "u1", "", "one"), storedAs("user", "u2", "u1", "two")...),
		foreign: storedAs("user", "u9", "u8", "of another project"),
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, add := range []string{"first", "second"} {
		f.listed = time.Time{} // long ago
		gains(t, f, all)
		storedLine{path: other, data: storedAs("assistant", add, "u2", add)}.store(t)
	}
	gains(t, f, all)
	*all = append(*all, f.Finish()...)
	if d := gocmp.Diff([]string{"one", "two", "first", "second"}, messagesIn(*all)); d != "" {
		t.Error(d)
	}
}

const aStored = "95db45f4-491b-4607-9186-876e7b9d13b3"
