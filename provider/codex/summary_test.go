package codex

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/internal/recordtest"
)

// summaries returns the summaries of all files in a Codex home.
func summaries(t *testing.T, home string) (found []runnel.Conversation) {
	t.Helper()
	p := New().WithProgram(nil, []string{"CODEX_HOME=" + home}).(runnel.Summarizer)
	for f, err := range p.StoredFiles(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if c, err := p.Summarize(t.Context(), f); err == nil {
			found = append(found, c)
		}
	}
	return found
}

// TestSummaryEqualsTheAgentsOwnList compares the summary of a file with the
// agent's own list, before and after the user gives the conversation a name.
func TestSummaryEqualsTheAgentsOwnList(t *testing.T) {
	r := newRig(t)
	r.Play(says("One."))
	r.FinishTurn("")
	r.Play(calls(shell("echo kept")), says("The last\nmessage."))
	r.FinishTurn("")
	thread := r.Conn.(*conn).tr.thread
	r.Close()
	p := r.provider().(*Provider)
	compare := func() runnel.Conversation {
		t.Helper()
		var own []runnel.Conversation
		for c, err := range p.Discover(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			own = append(own, c)
		}
		got := summaries(t, r.Home.Codex)
		if len(own) != 1 || len(got) != 1 {
			t.Fatalf("summaries: %+v; the agent lists %+v", got, own)
		}
		g, w := got[0], own[0]
		if g.AgentSessionID != thread || g.AgentSessionID != w.AgentSessionID || g.Title != w.Title || g.Dir != w.Dir || g.File != w.File || g.Size != w.Size ||
			g.CreatedAt.Sub(w.CreatedAt).Abs() > time.Second || g.UpdatedAt.Sub(w.UpdatedAt).Abs() > time.Minute || g.LastMessage != "The last message." {
			t.Errorf("summary: %+v; the agent lists %+v", g, w)
		}
		return g
	}
	if c := compare(); !strings.HasPrefix(c.Title, "go ") {
		t.Errorf("title: %q", c.Title)
	}
	err := p.query(t.Context(), runnel.Options{}, func(a *asker) error {
		if err := a.ask(methodResume, map[string]any{"threadId": thread, "excludeTurns": true}, nil); err != nil {
			return err
		}
		return a.ask("thread/name/set", map[string]any{"threadId": thread, "name": "A name"}, nil)
	})
	if err != nil {
		t.Fatal(detail(err))
	}
	if c := compare(); c.Title != "A name" {
		t.Errorf("title: %q", c.Title)
	}
}

// TestRecordStored records the files in which the agent stores conversations.
func TestRecordStored(t *testing.T) {
	if !*record {
		t.Skip("records only with -record")
	}
	version := realagents.Codex(t).Version
	for _, f := range fixtures() {
		if !slices.Contains(storedFixtures, f.name) {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			recordtest.Home(t, fixtureDir)
			r := newRigIn(t, fixtureDir)
			f.play(r)
			r.Close()
			if got := summaries(t, r.Home.Codex); len(got) != 1 || got[0].Title == "" || got[0].LastMessage == "" {
				t.Fatalf("%+v", got)
			}
			a := &txtar.Archive{Comment: []byte("The files that the agent stores. " + f.prose + "\n\nRecorded with Codex " + version + ".\n")}
			files, err := filepath.Glob(filepath.Join(r.Home.Codex, "sessions", "*", "*", "*", "*.jsonl"))
			if err != nil || len(files) == 0 {
				t.Fatalf("%q, %v", files, err)
			}
			var texts []string
			for _, file := range files {
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				name, err := filepath.Rel(r.Home.Codex, file)
				if err != nil {
					t.Fatal(err)
				}
				texts = append(texts, filepath.ToSlash(name)+"\n"+string(data))
			}
			n := newNormaliser(texts)
			for _, text := range texts {
				name, data, _ := strings.Cut(text, "\n")
				var out strings.Builder
				for line := range strings.Lines(data) {
					out.WriteString(longTextRE.ReplaceAllString(n.line(line), `"$1":"(left out)"`))
				}
				a.Files = append(a.Files, txtar.File{Name: n.line(name), Data: []byte(out.String())})
			}
			recordtest.Save(t, filepath.Join("testdata", "stored", f.name+"@"+version+".txtar"), a)
		})
	}
}

// longTextRE matches the instructions that the agent stores.
var longTextRE = regexp.MustCompile(`"(base_instructions|text)":"(?:[^"\\]|\\.){1000}(?:[^"\\]|\\.)*"`)

// storedFixtures are the conversations whose files TestRecordStored records.
var storedFixtures = []string{"text", "subagent"}

// unpackStored writes the recorded files of a conversation to a new Codex home.
func unpackStored(t *testing.T, name string) (home string) {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join("testdata", "stored", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	home = t.TempDir()
	for _, f := range a.Files {
		path := filepath.Join(home, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return home
}

func TestSummaryOfRecordedFiles(t *testing.T) {
	got := summaries(t, unpackStored(t, "text@0.169.0"))
	if len(got) != 1 || got[0].Dir != "/tmp/runnel-fixture-codex/project" || !strings.HasPrefix(got[0].Title, "go <<play") || got[0].CreatedAt.IsZero() || got[0].LastMessage == "" {
		t.Errorf("%+v", got)
	}
}

// A subagent's thread has a file of its own, and is part of the conversation
// that started the subagent.
func TestSubagentsHaveNoSummary(t *testing.T) {
	home := unpackStored(t, "subagent@0.169.0")
	files, err := filepath.Glob(filepath.Join(home, "sessions", "*", "*", "*", "*.jsonl"))
	if err != nil || len(files) < 2 {
		t.Fatalf("the recording has %d files, %v", len(files), err)
	}
	if got := summaries(t, home); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}

func TestHostileFilesHaveNoSummary(t *testing.T) {
	home := unpackStored(t, "text@0.169.0")
	good := summaries(t, home)[0]
	data, err := os.ReadFile(good.File)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(data), "\n")
	dir, other := filepath.Dir(good.File), "11111111-0000-4000-8000-000000000001"
	name := func(id string) string { return "rollout-2026-01-01T00-00-00-" + id + ".jsonl" }
	for file, data := range map[string]string{
		name(other): string(data), // the id of another conversation
		name("11111111-0000-4000-8000-000000000002"):          strings.Repeat("x", 1<<20),
		name("11111111-0000-4000-8000-000000000003"):          strings.ReplaceAll(head, good.AgentSessionID, "11111111-0000-4000-8000-000000000003"),
		name("11111111-0000-4000-8000-000000000004"):          rest,
		name("11111111-0000-4000-8000-000000000005"):          strings.ReplaceAll(strings.ReplaceAll(string(data), good.AgentSessionID, "11111111-0000-4000-8000-000000000005"), good.Dir, "relative"),
		"rollout-2026-01-01T00-00-00-x.jsonl":                 string(data),
		name("11111111-0000-4000-8000-000000000006") + ".bak": string(data),
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := summaries(t, home); len(got) != 1 || got[0].AgentSessionID != good.AgentSessionID {
		t.Errorf("%+v", got)
	}
}
