// Package recordtest contains what provider tests with recordings of real
// agents share: recording and reading lines, and checks that every translator
// must pass for every recording.
//
// A recording is a txtar archive. It starts with a description. The file "in"
// has the lines between Runnel and the agent. "want" has the expected events,
// one per line. Other files contain what the agent stored of the conversation.
package recordtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// Start is the time at which every recording begins.
var Start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// A Line is a line of the file "in".
type Line struct {
	T    int64      `json:"t"` // ms since Start; the line's index, so that it is reproducible
	Dir  runnel.Dir `json:"dir"`
	Line string     `json:"line"`
}

// A Recorder keeps the lines between Runnel and an agent, except the agent's
// standard error and marks.
type Recorder struct {
	mu    sync.Mutex
	lines []Line
}

// Tap keeps a line. It is for runnel.Options.Tap.
func (r *Recorder) Tap(dir runnel.Dir, line []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if dir == runnel.DirIn || dir == runnel.DirOut { // standard error varies between runs
		r.lines = append(r.lines, Line{int64(len(r.lines)), dir, string(line)})
	}
}

// Take removes and returns the kept lines.
func (r *Recorder) Take() []Line {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.lines
	r.lines = nil
	return lines
}

// Encode writes one line of JSON without HTML escapes, so that it is readable.
func Encode(t testing.TB, w *bytes.Buffer, v any) {
	t.Helper()
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
}

// Section returns a file of a recording, nil if the recording has no file of
// this name.
func Section(a *txtar.Archive, name string) []byte {
	for _, f := range a.Files {
		if f.Name == name {
			return f.Data
		}
	}
	return nil
}

// Unpack writes the files that the agent stored of a recording to a folder.
func Unpack(t testing.TB, a *txtar.Archive, folder string) {
	t.Helper()
	for _, f := range a.Files {
		name, ok := strings.CutPrefix(f.Name, "stored/")
		if !ok {
			continue
		}
		path := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Lines yields the lines of a section.
func Lines(t testing.TB, data []byte) iter.Seq2[runnel.Line, error] {
	return func(yield func(runnel.Line, error) bool) {
		for line := range bytes.Lines(data) {
			var l Line
			if err := json.Unmarshal(line, &l); err != nil {
				t.Errorf("recording: %v", err)
				return
			}
			if !yield(runnel.Line{At: Start.Add(time.Duration(l.T) * time.Millisecond), Dir: l.Dir, Text: []byte(l.Line)}, nil) {
				return
			}
		}
	}
}

// All returns the lines of a section.
func All(t testing.TB, data []byte) (lines []runnel.Line) {
	t.Helper()
	for l, err := range Lines(t, data) {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	return lines
}

// Events returns the events that a provider translates lines to.
func Events(t testing.TB, p runnel.Translator, lines []runnel.Line) (evs []event.Event) {
	t.Helper()
	for ev, err := range p.Translate(func(yield func(runnel.Line, error) bool) {
		for _, l := range lines {
			if !yield(l, nil) {
				return
			}
		}
	}) {
		if err != nil {
			t.Fatal(err)
		}
		evs = append(evs, ev)
	}
	return evs
}

// Translated returns the events that a provider translates a section to.
func Translated(t testing.TB, p runnel.Translator, data []byte) []event.Event {
	t.Helper()
	return Events(t, p, All(t, data))
}

// Want returns the file "want" for the lines in the file "in".
func Want(t testing.TB, p runnel.Provider, a *txtar.Archive) []byte {
	t.Helper()
	var out bytes.Buffer
	Write(t, &out, Replayed(t, p, All(t, Section(a, "in"))))
	return out.Bytes()
}

// Write writes events, one per line.
func Write(t testing.TB, w *bytes.Buffer, evs []event.Event) {
	t.Helper()
	for _, ev := range evs {
		body, err := event.MarshalBody(ev.Body)
		if err != nil {
			t.Fatal(err)
		}
		turn := "-"
		if ev.Turn != "" {
			turn = ev.Turn[len(ev.Turn)-4:]
		}
		fmt.Fprintf(w, "%s %s\n", turn, body)
	}
}

// Home creates the directory in which a conversation is recorded. It fails if
// the directory exists. The directory is the same each time, because recorded
// lines contain paths. The end of the test removes it.
func Home(t *testing.T, root string) {
	t.Helper()
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err) // another recording may be running
	}
	t.Cleanup(func() { os.RemoveAll(root) })
}

// resultsVar is the variable with the directory in which recordings are saved
// instead of testdata. They are saved in a subfolder named after the provider's
// package.
const resultsVar = "RUNNEL_RESULTS_DIR"

// Save writes a recording to a file. path is relative to the provider's
// package.
func Save(t *testing.T, path string, a *txtar.Archive) {
	t.Helper()
	if elsewhere := os.Getenv(resultsVar); elsewhere != "" {
		dir, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		path = filepath.Join(elsewhere, filepath.Base(dir), path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Named returns a map from names to the elements of all.
func Named[T any](all []T, name func(T) string) map[string]T {
	named := make(map[string]T)
	for _, one := range all {
		named[name(one)] = one
	}
	return named
}

// Each runs test with every recording in a directory. A recording is named
// conversation@version; test receives the element of known that has the
// conversation's name. Each returns the recordings' names.
func Each[T any](t *testing.T, dir string, known map[string]T, test func(t *testing.T, of T, path string, a *txtar.Archive)) (names []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".txtar")
		names = append(names, name)
		conversation, _, _ := strings.Cut(name, "@")
		t.Run(name, func(t *testing.T) {
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			test(t, known[conversation], path, a)
		})
	}
	return names
}

// Compare fails the test if a recording's "want" differs from got. If update is
// true, it first replaces "want" in the recording's file.
func Compare(t *testing.T, path string, a *txtar.Archive, got []byte, update bool) {
	t.Helper()
	if update {
		for i := range a.Files {
			if a.Files[i].Name == "want" {
				a.Files[i].Data = got
			}
		}
		if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(string(Section(a, "want")), string(got)); d != "" {
		t.Errorf("%s (-want +got; accept with -update)", d)
	}
}
