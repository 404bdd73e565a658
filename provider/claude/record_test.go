package claude

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/internal/recordtest"
)

// Recordings are in testdata, one for each conversation and version of the
// agent. A recording has the lines in both directions ("in"), the files that
// the agent stored ("stored/…"), and the expected events ("want").
//
// The first command records all conversations again with the newest agent, and
// with RUNNEL_LONG=1 also with the older one. The second command writes "want"
// from the recorded lines.
//
//	make record AGENT=claude-code
//	go test ./provider/claude -run TestRecordings -update
var (
	record = flag.Bool("record", false, "record testdata again with the real agents")
	update = flag.Bool("update", false, "write the expected events from the recorded lines")
)

// fixtureDir is the directory in which conversations are recorded. It is always
// the same, because the agent prints paths.
var fixtureDir = filepath.Join(os.TempDir(), "runnel-fixture")

func TestRecord(t *testing.T) {
	if !*record {
		t.Skip("records only with -record")
	}
	for _, b := range realagents.UsualClaude(t) {
		for _, f := range fixtures() {
			t.Run(f.name+"@"+b.Version, func(t *testing.T) { recordFixture(t, b, f) })
		}
	}
}

func recordFixture(t *testing.T, b realagents.Binary, f fixture) {
	recordtest.Home(t, fixtureDir)
	var rec recordtest.Recorder
	r := newRigIn(t, b, fixtureDir, "1")
	r.Cut, r.Opt.Tap = func() { rec.Take() }, rec.Tap
	f.play(r)
	r.Close()
	a := &txtar.Archive{Comment: []byte(f.prose + "\n\nRecorded with Claude Code " + b.Version + ".\n")}
	stored := readStored(t, r.Home.Config)
	slices.SortStableFunc(stored, func(a, b txtar.File) int { return strings.Compare(filepath.Ext(b.Name), filepath.Ext(a.Name)) })
	lines := rec.Take()
	all := recordtest.Texts(lines)
	for _, s := range stored {
		all = append(all, string(s.Data))
	}
	n := newNormaliser(all)
	a.Files = append(a.Files, recordtest.In(t, lines, func(l recordtest.Line) string { return n.line(l.Line, int(l.T)) }))
	a.Files = append(a.Files, n.stored(stored)...)
	a.Files = append(a.Files, txtar.File{Name: "want", Data: recordtest.Want(t, New(), a)})
	recordtest.Save(t, filepath.Join("testdata", strings.TrimPrefix(t.Name(), "TestRecord/")+".txtar"), a)
}

// stored normalises the files that the agent stored. The new times keep the
// order of the lines over all files.
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

// readStored returns the files in which the agent stored its conversations.
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

func translated(t testing.TB, a *txtar.Archive) []event.Event {
	t.Helper()
	return recordtest.Translated(t, New(), section(a, "in"))
}

// eachRecording runs a test with every recording. It fails if the recording of
// a fixture is missing.
func eachRecording(t *testing.T, test func(t *testing.T, f fixture, path string, a *txtar.Archive)) {
	known := recordtest.Named(fixtures(), func(f fixture) string { return f.name })
	names := recordtest.Each(t, "testdata", known, test)
	for name := range known {
		for _, v := range []string{"2.1.197", "2.1.330"} {
			if !slices.Contains(names, name+"@"+v) {
				t.Errorf("%s was not recorded with %s", name, v)
			}
		}
	}
}

func TestLiveSessionLogsTheEventsOfTheRecording(t *testing.T) {
	eachRecording(t, func(t *testing.T, _ fixture, _ string, a *txtar.Archive) {
		recordtest.SameLive(t, New(), section(a, "in"), newTranslator)
	})
}

func TestRecordings(t *testing.T) {
	eachRecording(t, func(t *testing.T, _ fixture, path string, a *txtar.Archive) {
		recordtest.Compare(t, path, a, recordtest.Want(t, New(), a), *update)
		sound(t, translated(t, a))
	})
}

// TestRecordedMessagesAreKnown checks that the translator knows every type of
// message in the recordings. Otherwise a server that runs a tested version of
// the agent would count unknown messages.
func TestRecordedMessagesAreKnown(t *testing.T) {
	eachRecording(t, func(t *testing.T, _ fixture, _ string, arc *txtar.Archive) {
		if types := recordtest.Unknown(t, newTranslator(), section(arc, "in")); len(types) > 0 {
			t.Errorf("unknown types: %q", types)
		}
	})
}
