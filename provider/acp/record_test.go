package acp

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/recordtest"
)

// Recordings are in testdata, in one folder per agent. A recording is one
// conversation with one version of the agent. Its file "in" has the lines
// between Runnel and the agent. If the agent supports loading, its file "load"
// has the lines of another process of the agent that loaded the conversation.
// Its file "want" has the events of both.
//
// The first command makes all recordings again with the real agents. The second
// command writes "want" from the recorded lines:
//
//	make record AGENT=NAME
//	go test ./provider/acp -run TestRecordings -update
var (
	record  = flag.Bool("record", false, "record testdata anew with the real agents")
	rewrite = flag.Bool("update", false, "write what is wanted from what is recorded")
)

// fixtureDir returns the directory in which an agent's conversations are
// recorded. It is the same each time, because recorded lines contain paths.
func fixtureDir(name string) string { return filepath.Join(os.TempDir(), "runnel-fixture-"+name) }

func TestRecord(t *testing.T) {
	if !*record {
		t.Skip("records only with -record")
	}
	for _, a := range agents {
		t.Run(a.Name, func(t *testing.T) {
			for _, f := range fixtures() {
				if f.cannot[a.Name] == "" {
					t.Run(f.name, func(t *testing.T) { recordFixture(t, a, f) })
				}
			}
		})
	}
}

func recordFixture(t *testing.T, a Agent, f fixture) {
	root := fixtureDir(a.Name)
	recordtest.Home(t, root)
	r := newRigIn(t, a.Name, root)
	var rec recordtest.Recorder
	r.Opt.Tap, r.Cut = rec.Tap, func() { rec.Take() }
	f.play(r)
	session := r.Conn.(*conn).tr.session.id
	r.Close()
	live := rec.Take()
	var load []recordtest.Line
	if a.Loads {
		p := underlying(r.Provider)
		opt := runnel.Options{Dir: r.Opt.Dir, Env: r.Opt.Env, Tap: rec.Tap}
		c, err := p.open(t.Context(), opt, opening{method: methodLoad, session: session, show: true})
		if err != nil {
			t.Fatal(err)
		}
		r.Conn = c
		r.Close()
		load = rec.Take()
	}
	stored := storedFiles(t, a, r.Home.Dir, session)
	n := newNormaliser(live, load, stored)
	arc := &txtar.Archive{Comment: []byte(f.prose + "\n\nRecorded with " + a.DisplayName + ", " + r.Agent.Version + ".\n")}
	arc.Files = append(arc.Files, txtar.File{Name: "in", Data: n.encode(t, live)})
	if load != nil {
		arc.Files = append(arc.Files, txtar.File{Name: "load", Data: n.encode(t, load)})
	}
	arc.Files = append(arc.Files, n.files(stored)...)
	if p, keeps := r.Provider.(keptForkingProvider); keeps {
		arc.Files = append(arc.Files, txtar.File{Name: "stored/opencode.sql", Data: dumpDatabase(t, p.kept, session)})
	}
	arc.Files = append(arc.Files, txtar.File{Name: "want", Data: want(t, a, arc)})
	recordtest.Save(t, filepath.Join("testdata", a.Name, f.name+"@"+r.Agent.Version+".txtar"), arc)
}

// storedFiles returns the lines of the files in which the agent stores a
// conversation. The direction of a line is the path of its file.
func storedFiles(t *testing.T, a Agent, home, session string) (lines []recordtest.Line) {
	t.Helper()
	if a.quirks().stored.updates == nil {
		return nil
	}
	dir := filepath.Join(home, filepath.FromSlash(filing[a.Name]))
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(path, session[:8]) || filepath.Ext(path) != ".jsonl" {
			return err
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		for line := range strings.Lines(string(data)) {
			if !isOmitted(line) {
				lines = append(lines, recordtest.Line{Dir: runnel.Dir(filepath.ToSlash(rel)), Line: strings.TrimSuffix(line, "\n")})
			}
		}
		return err
	})
	if err != nil || len(lines) == 0 {
		t.Fatalf("%d lines in the files of the conversation, %v", len(lines), err)
	}
	return lines
}

// files returns the files that storedFiles has read.
func (n *normaliser) files(stored []recordtest.Line) (files []txtar.File) {
	minutes := make(map[string]bool) // files of a conversation with Gemini CLI
	for k, l := range stored {
		minutes[string(l.Dir)] = true
		name := idRE.ReplaceAllStringFunc("stored/"+string(l.Dir), func(id string) string { return n.ids[id] })
		name = minuteRE.ReplaceAllString(name, fmt.Sprintf("${1}2026-01-01T00-%02d-00000000.jsonl", len(minutes)-1))
		if len(files) == 0 || files[len(files)-1].Name != name {
			files = append(files, txtar.File{Name: name})
		}
		f := &files[len(files)-1]
		f.Data = append(append(f.Data, n.replace(k, l.Line)...), '\n')
	}
	return files
}

// underlying returns the [provider] inside a provider of this package.
func underlying(p runnel.Provider) *provider {
	switch p := p.(type) {
	case *provider:
		return p
	case historyProvider:
		return p.provider
	case listingProvider:
		return p.provider
	case forkingProvider:
		return p.provider
	case readableProvider:
		return p.provider
	case readableListingProvider:
		return p.provider
	case filedListingProvider:
		return p.provider
	case keptForkingProvider:
		return p.provider
	}
	return nil
}

// normaliser replaces the values of a recording that differ each time, such as
// ids and times. The same value always gets the same replacement. It also
// shortens the lists of what agents offer, such as models and commands.
type normaliser struct {
	ids    map[string]string
	stamps map[string]string
	agents string // the folder of agents of another checkout; "" if they are in this one
	repo   string
}

var (
	idRE     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b(?:ses|msg|prt)_[0-9a-f]{10,14}[0-9A-Za-z]{10,}`)
	timeRE   = regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)`)
	stampRE  = regexp.MustCompile(`1[7-9]\d{11}`)                                            // ms since 1970
	minuteRE = regexp.MustCompile(`(session-)\d{4}-\d\d-\d\dT\d\d-\d\d-[0-9a-f]{8}\.jsonl$`) // Gemini CLI
	portRE   = regexp.MustCompile(`127\.0\.0\.1:\d+`)
)

func newNormaliser(parts ...[]recordtest.Line) *normaliser {
	n := &normaliser{ids: map[string]string{}, stamps: map[string]string{}, agents: os.Getenv("RUNNEL_AGENTS_DIR")}
	if dir, err := os.Getwd(); err == nil {
		n.repo = filepath.Dir(filepath.Dir(dir))
	}
	for _, lines := range parts {
		for _, l := range lines {
			for _, s := range stampRE.FindAllString(l.Line, -1) {
				if n.stamps[s] == "" {
					n.stamps[s] = itoa(len(n.stamps) + 1)
				}
			}
			for _, id := range idRE.FindAllString(l.Line, -1) {
				if n.ids[id] == "" {
					prefix, _, named := strings.Cut(id, "_")
					if n.ids[id] = fmt.Sprintf("00000000-0000-4000-8000-%012d", len(n.ids)+1); named {
						n.ids[id] = fmt.Sprintf("%s_%012d", prefix, len(n.ids))
					}
				}
			}
		}
	}
	return n
}

func (n *normaliser) encode(t testing.TB, lines []recordtest.Line) []byte {
	t.Helper()
	var out bytes.Buffer
	for k, l := range lines {
		l.T = int64(k)
		l.Line = n.replace(k, l.Line)
		recordtest.Encode(t, &out, l)
	}
	return out.Bytes()
}

// replace replaces the values in line k.
func (n *normaliser) replace(k int, line string) string {
	line = shorten(line)
	line = idRE.ReplaceAllStringFunc(line, func(id string) string { return n.ids[id] })
	line = timeRE.ReplaceAllString(line, fixtureStart.Add(time.Duration(k)*time.Second).Format("2006-01-02T15:04:05.000Z"))
	line = stampRE.ReplaceAllStringFunc(line, func(s string) string { return n.stamps[s] })
	line = portRE.ReplaceAllString(line, "127.0.0.1:1")
	if n.agents != "" {
		line = strings.ReplaceAll(line, n.agents, "/repo/test/agents")
	}
	return strings.ReplaceAll(line, n.repo, "/repo")
}

// shorten shortens the lists of commands, skills and models in a line.
func shorten(line string) string {
	var o map[string]any
	if json.Unmarshal([]byte(line), &o) != nil || !clip(o) {
		return line
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if enc.Encode(o) != nil {
		return line
	}
	return strings.TrimSpace(out.String())
}

// clip shortens the lists of commands, skills and models in v: it keeps the
// first two entries and the current one. It cuts the text of a skill after 200
// bytes. It reports whether it changed v.
func clip(v any) (cut bool) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			cut = clip(e) || cut
		}
	case map[string]any:
		current := v["currentValue"]
		if current == nil {
			current = v["currentModelId"]
		}
		for k, e := range v {
			list, is := e.([]any)
			if is && (k == "availableCommands" || k == "availableSkillDetails" || k == "availableModels" || k == "options" && v["category"] == "model") && len(list) > 2 {
				kept := list[:2:2]
				for _, c := range list[2:] {
					if o, ok := c.(map[string]any); ok && current != nil && (o["value"] == current || o["modelId"] == current) {
						kept = append(kept, c)
					}
				}
				clip(kept)
				v[k], cut = kept, true
				continue
			}
			if text, is := e.(string); is && k == "body" && v["level"] != nil && len(text) > 200 { // the text of a skill
				v[k], cut = text[:200], true
				continue
			}
			cut = clip(e) || cut
		}
	}
	return cut
}

func translated(t testing.TB, a Agent, data []byte) []event.Event {
	t.Helper()
	return recordtest.Translated(t, New(a).(runnel.Translator), data)
}

// want returns the events of a recording, one per line.
func want(t testing.TB, a Agent, arc *txtar.Archive) []byte {
	t.Helper()
	var out bytes.Buffer
	for _, part := range []string{"in", "load"} {
		data := section(arc, part)
		if data == nil {
			continue
		}
		fmt.Fprintf(&out, "# %s\n", part)
		recordtest.Write(t, &out, recordtest.Replayed(t, New(a), recordtest.All(t, data)))
	}
	return out.Bytes()
}

// eachRecording runs a test with every recording. It fails the test if a
// recording is missing.
func eachRecording(t *testing.T, test func(t *testing.T, a Agent, f fixture, path string, arc *txtar.Archive)) {
	known := recordtest.Named(fixtures(), func(f fixture) string { return f.name })
	for _, a := range agents {
		seen := map[string]bool{}
		t.Run(a.Name, func(t *testing.T) {
			for _, name := range recordtest.Each(t, filepath.Join("testdata", a.Name), known, func(t *testing.T, f fixture, path string, arc *txtar.Archive) {
				test(t, a, f, path, arc)
			}) {
				conversation, _, _ := strings.Cut(name, "@")
				seen[conversation] = true
			}
			for name, f := range known {
				if !seen[name] && f.cannot[a.Name] == "" {
					t.Errorf("%s was not recorded with %s", name, a.Name)
				}
			}
		})
	}
}

func TestLiveSessionLogsWhatARecordingGives(t *testing.T) {
	eachRecording(t, func(t *testing.T, a Agent, _ fixture, _ string, arc *txtar.Archive) {
		recordtest.SameLive(t, New(a), section(arc, "in"), func() *translator { return newTranslator(a) })
	})
}

func TestRecordings(t *testing.T) {
	eachRecording(t, func(t *testing.T, a Agent, _ fixture, path string, arc *txtar.Archive) {
		recordtest.Compare(t, path, arc, want(t, a, arc), *rewrite)
		for _, part := range []string{"in", "load"} {
			sound(t, translated(t, a, section(arc, part)))
		}
	})
}

// TestTooDeepMembersChangeNothing adds to each message a member that is nested
// deeper than JSON decoders accept. The events must not change, except the ids
// of approvals.
func TestTooDeepMembersChangeNothing(t *testing.T) {
	eachRecording(t, func(t *testing.T, a Agent, _ fixture, _ string, arc *txtar.Archive) {
		read := func(lines []runnel.Line) []event.Event {
			evs := recordtest.Events(t, New(a).(runnel.Translator), lines)
			for i, ev := range evs {
				switch b := ev.Body.(type) {
				case event.ApprovalRequested:
					b.Approval.ID = "question"
					evs[i].Body = b
				case event.ApprovalResolved:
					b.ApprovalID = "question"
					evs[i].Body = b
				}
			}
			return evs
		}
		lines := recordtest.All(t, section(arc, "in"))
		if d := cmp.Diff(read(lines), read(recordtest.Deepened(lines))); d != "" {
			t.Errorf("(-without +with):\n%s", d)
		}
	})
}

// TestRecordedMessagesAreKnown checks that the translator knows every type of
// message in the recordings. Otherwise a server that runs a tested version of
// the agent would count unknown messages.
func TestRecordedMessagesAreKnown(t *testing.T) {
	eachRecording(t, func(t *testing.T, a Agent, _ fixture, _ string, arc *txtar.Archive) {
		if types := recordtest.Unknown(t, newTranslator(a), section(arc, "in")); len(types) > 0 {
			t.Errorf("unknown types: %q", types)
		}
	})
}
