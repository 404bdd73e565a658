// Package recordtest is what the tests of providers share that have recordings
// of real agents: keeping what passes, reading it again, and what every
// translator is held to over all of them.
//
// A recording is a txtar archive: prose, "in" with the lines that passed
// between us and the agent, what else the provider keeps of the conversation,
// and "want" with the events that it gives, one a line.
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

// Start is when every recording begins.
var Start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// A Line is a line of a recording's file.
type Line struct {
	T    int64      `json:"t"` // ms since Start: its place, so that it is the same each time
	Dir  runnel.Dir `json:"dir"`
	Line string     `json:"line"`
}

// A Recorder keeps the lines that pass, but for what the agent says beside the
// protocol.
type Recorder struct {
	mu    sync.Mutex
	lines []Line
}

// Tap is a runnel.Options.Tap.
func (r *Recorder) Tap(dir runnel.Dir, line []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if dir != runnel.DirErr { // the agent's moods
		r.lines = append(r.lines, Line{int64(len(r.lines)), dir, string(line)})
	}
}

// Take returns what was kept and forgets it.
func (r *Recorder) Take() []Line {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.lines
	r.lines = nil
	return lines
}

// Encode writes one line of JSON without escapes that make it hard to read.
func Encode(t testing.TB, w *bytes.Buffer, v any) {
	t.Helper()
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
}

// Section returns a file of a recording, nil if it has none of this name.
func Section(a *txtar.Archive, name string) []byte {
	for _, f := range a.Files {
		if f.Name == name {
			return f.Data
		}
	}
	return nil
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

// Events returns the events that lines give.
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

// Translated returns the events of a section.
func Translated(t testing.TB, p runnel.Translator, data []byte) []event.Event {
	t.Helper()
	return Events(t, p, All(t, data))
}

// Want returns the "want" of a recording that has one section of lines, "in".
func Want(t testing.TB, p runnel.Provider, a *txtar.Archive) []byte {
	t.Helper()
	var out bytes.Buffer
	Write(t, &out, Replayed(t, p, All(t, Section(a, "in"))))
	return out.Bytes()
}

// Write writes events, one a line.
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

// Home makes the directory in which a conversation is recorded. It is the same
// each time, since paths are part of what is said. The test's end removes it.
func Home(t *testing.T, root string) {
	t.Helper()
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err) // also if another recording runs
	}
	t.Cleanup(func() { os.RemoveAll(root) })
}

// resultsVar names the directory into which recordings are written instead of
// testdata, in a folder with the name of the provider's package.
const resultsVar = "RUNNEL_RESULTS_DIR"

// Save writes a recording. path is relative to the provider's package.
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

// Named returns things by their names.
func Named[T any](all []T, name func(T) string) map[string]T {
	named := make(map[string]T)
	for _, one := range all {
		named[name(one)] = one
	}
	return named
}

// Each runs test with every recording in a directory, and the one of known that
// has the name of its conversation. It returns the recordings' names:
// conversation@version.
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

// Compare holds "want" of the recording in a file against what it gives; with
// update it is written anew.
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
