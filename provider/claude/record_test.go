package claude

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
)

// Recordings are in testdata, one per conversation and version of the agent:
// what passed between us and it ("in"), the files it left ("stored/…"), and the
// events that both make ("want").
//
//	go test ./provider/claude -run TestRecord -record   records them anew with the real agents
//	go test ./provider/claude -run TestRecordings -update    writes "want" from what is recorded
var (
	record = flag.Bool("record", false, "record testdata anew with the real agents")
	update = flag.Bool("update", false, "write what is wanted from what is recorded")
)

// wireLine is a line of a recording's file.
type wireLine struct {
	T    int64      `json:"t"` // ms since the start
	Dir  runnel.Dir `json:"dir"`
	Line string     `json:"line"`
}

// recorder keeps the lines that pass.
type recorder struct {
	mu    sync.Mutex
	lines []wireLine
}

func (rec *recorder) tap(dir runnel.Dir, line []byte) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.lines = append(rec.lines, wireLine{int64(len(rec.lines)), dir, string(line)})
}

func (rec *recorder) reset() {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.lines = nil
}

// fixtureDir is where conversations are recorded: always the same, since paths
// are part of what is said.
var fixtureDir = filepath.Join(os.TempDir(), "runnel-fixture")

func TestRecord(t *testing.T) {
	if !*record {
		t.Skip("records only with -record")
	}
	for _, b := range realagents.Claude(t) {
		for _, f := range fixtures() {
			t.Run(f.name+"@"+b.Version, func(t *testing.T) { recordFixture(t, b, f) })
		}
	}
}

func recordFixture(t *testing.T, b realagents.Binary, f fixture) {
	if err := os.Mkdir(fixtureDir, 0o700); err != nil {
		t.Fatal(err) // also if another recording runs
	}
	t.Cleanup(func() { os.RemoveAll(fixtureDir) })
	model, err := fakemodel.Start(fakemodel.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { model.Close() })
	home := realagents.NewHomeIn(t, fixtureDir, model.URL())
	var rec recorder
	r := &rig{t: t, model: model, home: home, cut: rec.reset, opt: runnel.Options{
		Path: b.Path, Dir: home.Project, Env: append(home.Environ(), "CLAUDE_CODE_MAX_RETRIES=1"), Tap: rec.tap,
	}}
	f.play(r)
	r.conn.Close()
	for {
		if _, err := r.conn.Next(t.Context()); err != nil {
			break
		}
	}
	a := &txtar.Archive{Comment: []byte(f.prose + "\n\nRecorded with Claude Code " + b.Version + ".\n")}
	stored := readStored(t, home.Config)
	slices.SortStableFunc(stored, func(a, b txtar.File) int { return strings.Compare(filepath.Ext(b.Name), filepath.Ext(a.Name)) })
	var all []string
	for _, l := range rec.lines {
		all = append(all, l.Line)
	}
	for _, s := range stored {
		all = append(all, string(s.Data))
	}
	n := newNormaliser(all)
	var in bytes.Buffer
	for _, l := range rec.lines {
		if l.Dir == runnel.DirErr {
			continue // the agent's moods
		}
		l.Line = n.line(l.Line, int(l.T))
		encode(t, &in, l)
	}
	a.Files = append(a.Files, txtar.File{Name: "in", Data: in.Bytes()})
	a.Files = append(a.Files, n.stored(stored)...)
	a.Files = append(a.Files, txtar.File{Name: "want", Data: want(t, a)})
	if err := os.WriteFile(filepath.Join("testdata", strings.ReplaceAll(t.Name(), "TestRecord/", "")+".txtar"), txtar.Format(a), 0o644); err != nil {
		t.Fatal(err)
	}
}

// stored normalises the files that the agent left. Their lines keep the order
// in time that they have among all files.
func (n *normaliser) stored(files []txtar.File) []txtar.File {
	type line struct {
		text, at string
		file     int
	}
	var lines []*line
	out := make([]txtar.File, len(files))
	for i, f := range files {
		out[i].Name = n.line(f.Name, 0)
		for text := range strings.Lines(string(f.Data)) {
			if keepStored(text) {
				lines = append(lines, &line{strings.TrimSuffix(text, "\n"), timeRE.FindString(text), i})
			}
		}
	}
	byTime := slices.Clone(lines)
	slices.SortStableFunc(byTime, func(a, b *line) int { return strings.Compare(a.at, b.at) })
	for k, l := range byTime {
		l.text = n.line(l.text, k)
	}
	for _, l := range lines {
		out[l.file].Data = append(out[l.file].Data, l.text+"\n"...)
	}
	return out
}

// encode writes one line of JSON without escapes that make it hard to read.
func encode(t testing.TB, w *bytes.Buffer, v any) {
	t.Helper()
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
}

// readStored returns the files of the conversations that the agent left.
func readStored(t testing.TB, config string) (files []txtar.File) {
	t.Helper()
	root := filepath.Join(config, "projects")
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || (!strings.HasSuffix(path, ".jsonl") && !strings.HasSuffix(path, ".meta.json")) {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		files = append(files, txtar.File{Name: "stored/" + filepath.ToSlash(rel), Data: data})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func section(a *txtar.Archive, name string) []byte {
	for _, f := range a.Files {
		if f.Name == name {
			return f.Data
		}
	}
	return nil
}

// recorded yields the lines of a recording.
func recorded(t testing.TB, data []byte) iter.Seq2[runnel.Line, error] {
	return func(yield func(runnel.Line, error) bool) {
		for line := range bytes.Lines(data) {
			var l wireLine
			if err := json.Unmarshal(line, &l); err != nil {
				t.Errorf("recording: %v", err)
				return
			}
			if !yield(runnel.Line{At: fixtureStart.Add(time.Duration(l.T) * time.Millisecond), Dir: l.Dir, Text: []byte(l.Line)}, nil) {
				return
			}
		}
	}
}

func translated(t testing.TB, a *txtar.Archive) []event.Event {
	t.Helper()
	var evs []event.Event
	for ev, err := range New().Translate(recorded(t, section(a, "in"))) {
		if err != nil {
			t.Fatal(err)
		}
		evs = append(evs, ev)
	}
	return evs
}

// want writes the events of a recording, one a line.
func want(t testing.TB, a *txtar.Archive) []byte {
	t.Helper()
	var out bytes.Buffer
	for _, ev := range translated(t, a) {
		body, err := event.MarshalBody(ev.Body)
		if err != nil {
			t.Fatal(err)
		}
		turn := "-"
		if ev.Turn != "" {
			turn = ev.Turn[len(ev.Turn)-4:]
		}
		fmt.Fprintf(&out, "%s %s\n", turn, body)
	}
	return out.Bytes()
}

// eachRecording runs a test with every recording there is.
func eachRecording(t *testing.T, test func(t *testing.T, f fixture, path string, a *txtar.Archive)) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]fixture{}
	for _, f := range fixtures() {
		known[f.name] = f
		for _, v := range []string{"2.1.197", "2.1.329"} {
			if !slices.Contains(paths, filepath.Join("testdata", f.name+"@"+v+".txtar")) {
				t.Errorf("%s was not recorded with %s", f.name, v)
			}
		}
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".txtar")
		t.Run(name, func(t *testing.T) {
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			of, _, _ := strings.Cut(name, "@")
			test(t, known[of], path, a)
		})
	}
}

func TestRecordings(t *testing.T) {
	eachRecording(t, func(t *testing.T, _ fixture, path string, a *txtar.Archive) {
		got := want(t, a)
		if *update {
			for i := range a.Files {
				if a.Files[i].Name == "want" {
					a.Files[i].Data = got
				}
			}
			if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if d := cmp.Diff(string(section(a, "want")), string(got)); d != "" {
			t.Errorf("%s (-want +got; accept with -update)", d)
		}
		sound(t, translated(t, a))
	})
}
