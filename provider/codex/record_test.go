package codex

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/internal/recordtest"
)

// testdata has one recording per conversation: the lines between Runnel and the
// agent ("in"), the turns that the agent stored ("kept"), and the events
// expected from both ("want").
//
// The first command records all conversations with the real agent. The second
// command rewrites "want" from the recorded lines:
//
//	make record AGENT=codex
//	go test ./provider/codex -run TestRecordings -update
var (
	record = flag.Bool("record", false, "record testdata anew with the real agent")
	update = flag.Bool("update", false, "write what is wanted from what is recorded")
)

// kept is one line of "kept": the stored turns of one thread.
type kept struct {
	Thread string            `json:"thread"`
	Turns  []json.RawMessage `json:"turns"`
}

// fixtureDir is the directory in which conversations are recorded. It is the
// same each time, because recorded lines contain paths.
var fixtureDir = filepath.Join(os.TempDir(), "runnel-fixture-codex")

func TestRecord(t *testing.T) {
	if !*record {
		t.Skip("records only with -record")
	}
	version := realagents.Codex(t).Version
	for _, f := range fixtures() {
		t.Run(f.name+"@"+version, func(t *testing.T) { recordFixture(t, version, f) })
	}
}

func recordFixture(t *testing.T, version string, f fixture) {
	recordtest.Home(t, fixtureDir)
	var rec recordtest.Recorder
	r := newRigIn(t, fixtureDir)
	r.Cut, r.Opt.Tap = func() { rec.Take() }, rec.Tap
	f.play(r)
	thread := r.Conn.(*conn).tr.thread
	r.Close()
	store := r.keptTurns(thread)
	lines := rec.Take()
	n := newNormaliser(append(recordtest.Texts(lines), strings.Join(store, "\n")))
	a := &txtar.Archive{Comment: []byte(f.prose + "\n\nRecorded with Codex " + version + ".\n")}
	in := recordtest.In(t, lines, func(l recordtest.Line) string { return n.line(l.Line) })
	var out bytes.Buffer
	for _, line := range store {
		out.WriteString(n.line(line) + "\n")
	}
	a.Files = append(a.Files, in, txtar.File{Name: "kept", Data: out.Bytes()})
	a.Files = append(a.Files, txtar.File{Name: "want", Data: recordtest.Want(t, New(), a)})
	recordtest.Save(t, filepath.Join("testdata", strings.TrimPrefix(t.Name(), "TestRecord/")+".txtar"), a)
}

// keptTurns returns the stored turns of a thread and of its subagents, one line
// per thread.
func (r *rig) keptTurns(thread string) (lines []string) {
	r.T.Helper()
	err := r.provider().(*Provider).query(r.T.Context(), runnel.Options{}, func(a *asker) error {
		h := newHistorian(thread, func(id string, cursor *string) ([]nativeTurn, *string, error) {
			var p struct {
				Data []json.RawMessage `json:"data"`
			}
			err := a.ask(methodTurns, map[string]any{"threadId": id, "limit": 1000, "sortDirection": "asc", "itemsView": "full"}, &p)
			if e, ok := errors.AsType[*jsonrpc.Error](err); ok && e.Code == jsonrpc.CodeMethodNotFound {
				return nil, nil, nil
			}
			if err != nil {
				return nil, nil, err
			}
			var b bytes.Buffer
			recordtest.Encode(r.T, &b, kept{id, p.Data})
			lines = append(lines, strings.TrimSuffix(b.String(), "\n"))
			var turns []nativeTurn
			for _, raw := range p.Data {
				turns = append(turns, decodeLenient[nativeTurn](raw))
			}
			return turns, nil, nil
		})
		return h.all(func([]event.Event) error { return nil })
	})
	if err != nil {
		r.T.Fatal(err)
	}
	return lines
}

func translated(t testing.TB, a *txtar.Archive) []event.Event {
	t.Helper()
	return recordtest.Translated(t, New(), section(a, "in"))
}

// eachRecording runs a test for every recording in testdata.
func eachRecording(t *testing.T, test func(t *testing.T, f fixture, path string, a *txtar.Archive)) {
	known := recordtest.Named(fixtures(), func(f fixture) string { return f.name })
	names := recordtest.Each(t, "testdata", known, test)
	for name := range known {
		if !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, name+"@") }) {
			t.Errorf("%s was not recorded", name)
		}
	}
}

func TestLiveSessionLogsSameEventsAsReplay(t *testing.T) {
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

// sameItems compares items without times and positions.
var sameItems = cmp.Options{cmpopts.IgnoreFields(event.Item{}, "StartedAt", "UpdatedAt", "Seq"), cmpopts.EquateEmpty()}

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
