package claude

import (
	"bytes"
	"flag"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/internal/recordtest"
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
	var rec recordtest.Recorder
	r := &rig{t: t, model: model, home: home, cut: func() { rec.Take() }, opt: runnel.Options{
		Path: b.Path, Dir: home.Project, Env: append(home.Environ(), "CLAUDE_CODE_MAX_RETRIES=1"), Tap: rec.Tap,
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
	lines := rec.Take()
	var all []string
	for _, l := range lines {
		all = append(all, l.Line)
	}
	for _, s := range stored {
		all = append(all, string(s.Data))
	}
	n := newNormaliser(all)
	var in bytes.Buffer
	for _, l := range lines {
		l.Line = n.line(l.Line, int(l.T))
		recordtest.Encode(t, &in, l)
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

func section(a *txtar.Archive, name string) []byte { return recordtest.Section(a, name) }

// recorded yields the lines of a recording.
func recorded(t testing.TB, data []byte) iter.Seq2[runnel.Line, error] {
	return recordtest.Lines(t, data)
}

func translated(t testing.TB, a *txtar.Archive) []event.Event {
	t.Helper()
	return recordtest.Translated(t, New(), section(a, "in"))
}

// want writes the events of a recording, one a line.
func want(t testing.TB, a *txtar.Archive) []byte {
	t.Helper()
	var out bytes.Buffer
	recordtest.Write(t, &out, translated(t, a))
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
		recordtest.Compare(t, path, a, want(t, a), *update)
		sound(t, translated(t, a))
	})
}
