package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/loadtest"
	"github.com/runnel-dev/runnel/internal/recording"
	"github.com/runnel-dev/runnel/internal/recordtest"
	"github.com/runnel-dev/runnel/internal/testload"
	"github.com/runnel-dev/runnel/provider/all"
	"github.com/runnel-dev/runnel/store/memory"
)

// callRunnel runs a command line of runnel in this process.
func callRunnel(stdin []byte, args ...string) (out, errOut string, code int) {
	var o, e bytes.Buffer
	a := &app{in: bytes.NewReader(stdin), out: &o, err: &e, providers: all.Providers()}
	code = a.run(context.Background(), args)
	return o.String(), e.String(), code
}

// owners has the agent's name for each folder of recordings that is not named
// after its agent.
var owners = map[string]string{"provider/claude/testdata": "claude-code", "provider/codex/testdata": "codex"}

// recordings calls f with every recording in the tree.
func recordings(t *testing.T, f func(t *testing.T, agent string, a *txtar.Archive)) {
	t.Helper()
	var files []string
	for _, pattern := range []string{"../../provider/*/testdata/*.txtar", "../../provider/acp/testdata/*/*.txtar"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) < 20 {
			t.Fatalf("%d recordings found, %v", len(found), err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		folder := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(file)), "../../")
		agent, ok := owners[folder]
		if !ok {
			agent = filepath.Base(folder)
		}
		t.Run(agent+"/"+strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			f(t, agent, a)
		})
	}
}

func section(a *txtar.Archive, name string) []byte {
	for _, f := range a.Files {
		if f.Name == name {
			return f.Data
		}
	}
	return nil
}

func TestTranslateEveryRecording(t *testing.T) {
	testload.TakesLong(t)
	recordings(t, func(t *testing.T, agent string, a *txtar.Archive) {
		in := section(a, "in")
		if in == nil {
			t.Fatal("no section in")
		}
		out, errOut, code := callRunnel(begun(t, in), "translate", "--agent", agent, "-")
		if code != exitOK || errOut != "" {
			t.Fatalf("exit %d: %s", code, errOut)
		}
		if turns := checkEvents(t, out); turns == 0 {
			t.Error("no turn")
		}
		if d := cmp.Diff(printed(t, recordtest.Replayed(t, providerOf(t, agent), recordtest.All(t, in))), out); d != "" {
			t.Errorf("the command prints something else (-want +got):\n%s", d)
		}
	})
}

func TestTranslateEveryTranscript(t *testing.T) {
	testload.TakesLong(t)
	recordings(t, func(t *testing.T, agent string, a *txtar.Archive) {
		if agent == "copilot" {
			t.Skip("its files are only searched; Copilot itself replays a conversation that is opened")
		}
		dir := t.TempDir()
		var transcripts []string
		for _, f := range a.Files {
			rel, ok := strings.CutPrefix(f.Name, "stored/")
			if !ok {
				continue
			}
			path := filepath.Join(dir, filepath.FromSlash(rel))
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, f.Data, 0o600); err != nil {
				t.Fatal(err)
			}
			if strings.Count(rel, "/") == 1 { // deeper files belong to a transcript
				transcripts = append(transcripts, path)
			}
		}
		for _, path := range transcripts {
			out, errOut, code := callRunnel(nil, "translate", "--agent", agent, "--history", path)
			if code != exitOK || errOut != "" {
				t.Fatalf("%s: exit %d: %s", filepath.Base(path), code, errOut)
			}
			if turns := checkEvents(t, out); turns == 0 {
				t.Error("no turn")
			}
			if d := cmp.Diff(printed(t, loadedEvents(t, agent, path)), out); d != "" {
				t.Errorf("the server loads something else (-loaded +printed):\n%s", d)
			}
		}
	})
}

// A capture may begin in the middle of a turn, and continue with another
// process of the agent.
func TestTranslateCaptureOfTwoProcesses(t *testing.T) {
	a, err := txtar.ParseFile("../../provider/claude/testdata/allow-session@2.1.330.txtar")
	if err != nil {
		t.Fatal(err)
	}
	in := section(a, "in")
	want, errOut, code := callRunnel(begun(t, in), "translate", "--agent", "claude-code", "-")
	if code != exitOK {
		t.Fatalf("exit %d: %s", code, errOut)
	}
	head, err := json.Marshal(recording.Head{Recording: 1, Agent: "claude-code", StartedAt: recordtest.Start, Capture: true})
	if err != nil {
		t.Fatal(err)
	}
	var capture bytes.Buffer
	put := func(dir runnel.Dir, text string) {
		line, err := recording.New(0, dir, []byte(text)).Encode()
		if err != nil {
			t.Fatal(err)
		}
		capture.Write(line)
	}
	put(runnel.DirMeta, string(head))
	for line := range bytes.Lines(in) { // the first process, in the middle of its turn
		if !bytes.Contains(line, []byte(`"dir":"in"`)) {
			capture.Write(line)
		}
	}
	put(runnel.DirMeta, `{"mark":"start"}`)
	capture.Write(in)
	got, errOut, code := callRunnel(capture.Bytes(), "translate", "-")
	if code != exitOK || errOut != "" {
		t.Fatalf("exit %d: %s", code, errOut)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the capture gives other events (-want +got):\n%s", d)
	}
}

// begun adds a head to a recording, so that its times begin at the same moment
// as in the providers' tests.
func begun(t *testing.T, in []byte) []byte {
	t.Helper()
	head, err := json.Marshal(recording.Head{Recording: 1, StartedAt: recordtest.Start})
	if err != nil {
		t.Fatal(err)
	}
	line, err := json.Marshal(recording.Line{Dir: runnel.DirMeta, Line: string(head)})
	if err != nil {
		t.Fatal(err)
	}
	return append(append(line, '\n'), in...)
}

// printed returns events as the command prints them.
func printed(t *testing.T, evs []event.Event) string {
	t.Helper()
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	for _, ev := range evs {
		ev.Session = translated
		if err := enc.Encode(ev); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

func providerOf(t *testing.T, agent string) runnel.Provider {
	t.Helper()
	for _, p := range all.Providers() {
		if p.Name() == agent {
			return p
		}
	}
	t.Fatalf("no provider %s", agent)
	return nil
}

// loadedEvents returns the events of a transcript that a gateway has loaded.
func loadedEvents(t *testing.T, agent, path string) []event.Event {
	t.Helper()
	ref := runnel.Conversation{File: path, Anywhere: true}
	h := providerOf(t, agent).(runnel.Historian)
	return loadtest.Loaded(t, agent, ref, func(ctx context.Context, _ runnel.Conversation) iter.Seq2[event.Event, error] {
		return h.History(ctx, ref)
	})
}

// A subagent that continues in the background has its own turns, which run at
// the same time as the user's.
func TestTranslateKeepsTurnsBesideEachOther(t *testing.T) {
	const said = "The second turn has it."
	for _, version := range []string{"2.1.197", "2.1.330"} {
		a, err := txtar.ParseFile("../../provider/claude/testdata/background-meanwhile@" + version + ".txtar")
		if err != nil {
			t.Fatal(err)
		}
		out, _, _ := callRunnel(section(a, "in"), "translate", "--agent", "claude-code", "-")
		turn := ""
		for line := range strings.Lines(out) {
			var ev event.Event
			if err := json.Unmarshal([]byte(line), &ev); err != nil {
				t.Fatal(err)
			}
			switch b := ev.Body.(type) {
			case event.ItemDone:
				if m, ok := b.FinalItem.(event.Message); ok && m.Content == said {
					turn = ev.Turn
				}
			case event.ResponseDone:
				if ev.Turn == turn && b.Usage != nil && b.Usage.OutputTokens > 0 {
					turn = "ended"
				}
			case event.ResponseError:
				t.Errorf("%s: a turn ends with %+v", version, b.Error)
			}
		}
		if turn != "ended" {
			t.Errorf("%s: the turn that says %q and its usage are not printed to the end", version, said)
		}
	}
}

// checkEvents reports the problems that checkLog finds.
func checkEvents(t *testing.T, out string) (turns int) {
	t.Helper()
	turns, problems := checkLog(out)
	for _, p := range problems {
		t.Error(p)
	}
	return turns
}

// checkLog checks lines of events against the rules of an event log: sequence
// numbers without gaps, one end per turn, and one end per item, which is before
// the end of its turn.
func checkLog(out string) (turns int, problems []string) {
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	open := map[string]string{} // item → its turn
	over := map[string]bool{}
	seen := map[string]bool{}
	seq := int64(0)
	for line := range strings.Lines(out) {
		var ev event.Event
		if err := json.Unmarshal([]byte(line), &ev); err != nil {
			problem("not an event: %v", err)
			return len(seen), problems
		}
		if seq++; ev.Seq != seq {
			problem("seq %d comes after %d", ev.Seq, seq-1)
		}
		if over[ev.Turn] {
			problem("seq %d: %s after the end of its turn", seq, event.Type(ev.Body))
		}
		if ev.Turn != "" {
			seen[ev.Turn] = true
		}
		if b, ok := ev.Body.(event.ItemStart); ok {
			open[b.ItemID] = ev.Turn
		}
		if ended := endedItem(ev.Body); ended != "" {
			if _, ok := open[ended]; !ok {
				problem("seq %d: %s ends twice or never began", seq, ended)
			}
			delete(open, ended)
		}
		if event.Ends(ev.Body) {
			over[ev.Turn] = true
			for item, turn := range open {
				if turn == ev.Turn {
					problem("seq %d: the turn ends, but %s has not", seq, item)
				}
			}
		}
	}
	for turn := range seen {
		if !over[turn] {
			problem("turn %s has no end", turn)
		}
	}
	return len(seen), problems
}

func endedItem(b event.Body) string {
	switch b := b.(type) {
	case event.ItemDone:
		return b.ItemID
	case event.ItemError:
		return b.ItemID
	case event.ItemCancelled:
		return b.ItemID
	}
	return ""
}

func TestTranslateGarbage(t *testing.T) {
	long := []byte(`{"t":0,"dir":"out","line":"` + strings.Repeat("x", maxRecorded) + `"}`)
	for name, c := range map[string]struct {
		in   []byte
		want string
	}{
		"empty":           {nil, "the recording is empty"},
		"blank lines":     {[]byte("\n\n\n"), "the recording is empty"},
		"text":            {[]byte("hello\n"), "line 1: this is not a recording"},
		"bytes":           {[]byte{0, 0xff, 0x1b, '[', '2', 'J', '\n'}, "line 1: this is not a recording"},
		"other JSON":      {[]byte(`{"type":"user"}`), "line 1: this is not a recording"},
		"wrong direction": {[]byte(`{"t":0,"dir":"up","line":"x"}`), "line 1: this is not a recording"},
		"wrong base64":    {[]byte(`{"t":0,"dir":"out","base64":"%"}`), "line 1: this is not a recording"},
		"later":           {[]byte("{\"t\":0,\"dir\":\"out\",\"line\":\"{}\"}\n?\n"), "line 2: this is not a recording"},
		"too long":        {long, "line 1 is longer than 64 MiB"},
		"newer format":    {[]byte(`{"t":0,"dir":"meta","line":"{\"recording\":2,\"agent\":\"claude-code\"}"}`), "has format 2"},
	} {
		_, errOut, code := callRunnel(c.in, "translate", "--agent", "claude-code", "-")
		if code != exitFailed || !strings.Contains(errOut, c.want) || strings.Count(errOut, "\n") != 1 || strings.ContainsRune(errOut, 0x1b) {
			t.Errorf("%s: exit %d, stderr %q; want one line with %q", name, code, errOut, c.want)
		}
	}
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"whose":            {[]string{"translate", "-"}, exitUsage, "does not name its agent"},
		"no recordings":    {[]string{"translate", "--agent", "script", "-"}, exitUsage, "has no recordings"},
		"history, whose":   {[]string{"translate", "--history", "x"}, exitUsage, "needs --agent"},
		"history, absent":  {[]string{"translate", "--agent", "claude-code", "--history", "absent.jsonl"}, exitFailed, "no such file"},
		"history, no id":   {[]string{"translate", "--agent", "claude-code", "--history", "absent"}, exitFailed, "SESSION_NOT_FOUND"},
		"history, where":   {[]string{"translate", "--agent", "claude-code", "--history", "-C", "absent", "x"}, exitUsage, "does not exist"},
		"history, folder":  {[]string{"translate", "--agent", "claude-code", "--history", "."}, exitFailed, "is not a file"},
		"absent":           {[]string{"translate", "absent"}, exitFailed, "no such file"},
		"a folder":         {[]string{"translate", "."}, exitFailed, "directory"},
		"agent is unknown": {[]string{"translate", "--agent", "nobody", "-"}, exitUsage, "unknown agent"},
	} {
		_, errOut, code := callRunnel([]byte(`{"t":0,"dir":"out","line":"{}"}`), c.args...)
		if code != c.code || !strings.Contains(errOut, c.want) {
			t.Errorf("%s: exit %d, stderr %q; want %d with %q", name, code, errOut, c.code, c.want)
		}
	}
}

// A file that is no transcript gives events or one clear error.
func TestTranslateGarbageHistory(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "text": "hello\n", "bytes": "\x00\xff\x1b[2J\n", "other JSON": "{\"a\":1}\n[]\n3\nnull\n",
		"half": `{"type":"user","uuid":"x","message":{"role":"user","content":"hi"`,
	} {
		path := filepath.Join(t.TempDir(), "transcript.jsonl")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, errOut, code := callRunnel(nil, "translate", "--agent", "claude-code", "--history", path)
		if code == exitOK && errOut == "" {
			checkEvents(t, out)
		} else if code != exitFailed || strings.Count(errOut, "\n") != 1 || strings.ContainsRune(errOut, 0x1b) {
			t.Errorf("%s: exit %d, stderr %q", name, code, errOut)
		}
	}
}

func FuzzTranslate(f *testing.F) {
	for _, name := range []string{"edit@2.1.330", "subagent@2.1.330", "broken-stream@2.1.330"} {
		a, err := txtar.ParseFile("../../provider/claude/testdata/" + name + ".txtar")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(section(a, "in"))
	}
	f.Add([]byte("{\"t\":0,\"dir\":\"in\",\"line\":\"{\\\"type\\\":\\\"user\\\"}\"}\n{\"t\":1,\"dir\":\"out\",\"base64\":\"/w==\"}\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		out, errOut, code := callRunnel(in, "translate", "--agent", "claude-code", "-")
		switch code {
		case exitOK:
			checkEvents(t, out)
		case exitFailed:
			if strings.Count(errOut, "\n") != 1 {
				t.Errorf("stderr %q is not one line", errOut)
			}
		default:
			t.Errorf("exit %d: %s", code, errOut)
		}
	})
}

// A transcript gives the events that a server has after loading the
// conversation, in the same order and with the same ids. Only the session
// differs.
func TestTranslateHistoryGivesTheServersIDs(t *testing.T) {
	testload.TakesLong(t)
	recordings(t, func(t *testing.T, agent string, a *txtar.Archive) {
		if agent != "claude-code" {
			t.Skip("this agent is started to be asked for its history")
		}
		home := t.TempDir()
		t.Setenv("CLAUDE_CONFIG_DIR", home)
		for _, f := range a.Files {
			if rel, ok := strings.CutPrefix(f.Name, "stored/"); ok {
				writeFile(t, filepath.Join(home, "projects", filepath.FromSlash(rel)), f.Data)
				age(t, filepath.Join(home, "projects", filepath.FromSlash(rel)))
			}
		}
		files, err := filepath.Glob(filepath.Join(home, "projects", "*", "*.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		log := new(memory.Log)
		gw, err := gateway.Open(t.Context(), gateway.Config{Log: log, Catalogue: memory.New(log), Providers: all.Providers(), DataDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		defer gw.Close(context.WithoutCancel(t.Context()))
		for _, file := range files {
			st, err := gw.Load(t.Context(), agent+":"+strings.TrimSuffix(filepath.Base(file), ".jsonl"), "")
			if err != nil {
				t.Fatal(err)
			}
			var want bytes.Buffer
			enc := json.NewEncoder(&want)
			for ev, err := range log.Read(t.Context(), st.SessionID, 0) {
				if err != nil {
					t.Fatal(err)
				}
				ev.Session = translated
				if err := enc.Encode(ev); err != nil {
					t.Fatal(err)
				}
			}
			out, errOut, code := callRunnel(nil, "translate", "--agent", agent, "--history", file)
			if code != exitOK {
				t.Fatalf("exit %d: %s", code, errOut)
			}
			if diff := cmp.Diff(want.String(), out); diff != "" {
				t.Errorf("%s: the server's events, and those of translate:\n%s", filepath.Base(file), diff)
			}
			copied := filepath.Join(filepath.Dir(file), "a copy.jsonl")
			if err := errors.Join(os.Rename(file, copied), os.Rename(strings.TrimSuffix(file, ".jsonl"), strings.TrimSuffix(copied, ".jsonl"))); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			if out, _, _ := callRunnel(nil, "translate", "--agent", agent, "--history", copied); out != want.String() {
				t.Errorf("%s: other events under another name of the file", filepath.Base(file))
			}
		}
	})
}

func writeFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600)); err != nil {
		t.Fatal(err)
	}
}

// Other programs that write recordings may use fractions of milliseconds.
func TestTranslateTakesFractionsOfMilliseconds(t *testing.T) {
	in := `{"t":0,"dir":"meta","line":"{\"recording\":1,\"agent\":\"claude-code\",\"startedAt\":\"2026-11-01T09:00:00Z\"}"}
{"t":1.5,"dir":"in","line":"{\"type\":\"user\",\"uuid\":\"3b241101-e2bb-4255-8caf-4136c566a962\",\"message\":{\"role\":\"user\",\"content\":\"hi\"}}"}
`
	out, errOut, code := callRunnel([]byte(in), "translate", "-")
	if code != exitOK || !strings.Contains(out, `"timestamp":"2026-11-01T09:00:00.0015Z"`) {
		t.Errorf("exit %d: %s%s", code, out, errOut)
	}
	for _, bad := range []string{"-1", "1e+300"} {
		_, errOut, code := callRunnel([]byte(strings.Replace(in, "1.5", bad, 1)), "translate", "-")
		if code != exitFailed || !strings.Contains(errOut, "line 2: t is "+bad) {
			t.Errorf("t %s: exit %d: %s", bad, code, errOut)
		}
	}
}

// An error about a file contains its name and line. It has no error code, which
// would look like a fault of runnel.
func TestTranslateNamesTheDamagedLine(t *testing.T) {
	dir := t.TempDir()
	damaged := filepath.Join(dir, "damaged.jsonl")
	writeFile(t, damaged, []byte("{\"t\":0,\"dir\":\"out\",\"line\":\"{}\"}\n\n{\"t\":1,\"dir\":\"ou"))
	_, errOut, code := callRunnel(nil, "translate", "--agent", "claude-code", damaged)
	if want := "runnel translate: " + damaged + ": line 3: this is not a recording: each line has to be "; code != exitFailed || !strings.HasPrefix(errOut, want) || strings.Contains(errOut, "INTERNAL") {
		t.Errorf("exit %d, %q; want %d and %q", code, errOut, exitFailed, want)
	}

	_, errOut, code = callRunnel(nil, "translate", "--agent", "codex", "--history", damaged)
	if want := "runnel translate: " + damaged + ": the file is not a conversation with Codex\n"; code != exitFailed || errOut != want {
		t.Errorf("exit %d, %q; want %d and %q", code, errOut, exitFailed, want)
	}

	// A file that is not a recording contains no turn, which is an error.
	for name, text := range map[string]string{
		"binary": "\x7fELF\x02\x01\x01\x00\x00\xff\xfe\n\x00\x01", "empty": "", "text": "hello\n", "other JSON": "{\"a\":1}\n",
	} {
		path := filepath.Join(dir, name)
		writeFile(t, path, []byte(text))
		_, errOut, code := callRunnel(nil, "translate", "--agent", "claude-code", "--history", path)
		if code != exitFailed || !strings.Contains(errOut, path+": this contains no turn; with --history, give a transcript") {
			t.Errorf("%s as a transcript: exit %d, %q", name, code, errOut)
		}
		if _, errOut, code = callRunnel(nil, "translate", "--agent", "claude-code", path); code != exitFailed || !strings.Contains(errOut, "recording") {
			t.Errorf("%s as a recording: exit %d, %q", name, code, errOut)
		}
	}
	_, errOut, code = callRunnel([]byte(`{"t":0,"dir":"out","line":"{}"}`), "translate", "--agent", "claude-code", "-")
	if code != exitFailed || !strings.Contains(errOut, "this recording contains no turn") {
		t.Errorf("a recording without a turn: exit %d, %q", code, errOut)
	}
}
