package acp

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/recordtest"
)

// filing are the agents whose files Runnel lists, with the folder of the files
// in the home directory.
var filing = map[string]string{"gemini": ".gemini/tmp", "qwen": ".qwen/projects", "copilot": ".copilot/session-state"}

// summaries returns the summaries of the files that a provider lists.
func summaries(t testing.TB, p runnel.Provider) (found []runnel.Conversation) {
	t.Helper()
	for f, err := range p.(runnel.Summarizer).StoredFiles(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if c, err := p.(runnel.Summarizer).Summarize(t.Context(), f); err == nil {
			found = append(found, c)
		}
	}
	return found
}

// TestSummaryOfRecordedFiles reads the files of all agents in filing.
func TestSummaryOfAConversationWithTheAgent(t *testing.T) {
	for name := range filing {
		if name != "copilot" && os.Getenv("RUNNEL_LONG") == "" {
			continue
		}
		t.Run(name, func(t *testing.T) { converse(t, name, t.TempDir()) })
	}
}

// TestRecordStored records the files that agents store.
func TestRecordStored(t *testing.T) {
	if !*record {
		t.Skip("records only with -record")
	}
	for name, folder := range filing {
		t.Run(name, func(t *testing.T) {
			recordtest.Home(t, fixtureDir(name))
			r, id := converse(t, name, fixtureDir(name))
			recordStored(t, filepath.Join("testdata", name, "stored", "turns@"+r.Agent.Version+".txtar"), filepath.Join(r.Home.Dir, filepath.FromSlash(folder)), id)
		})
	}
}

// converse has a conversation of two turns with the real agent, and checks its
// summary. It returns the id of the conversation.
func converse(t *testing.T, name, root string) (r *rig, id string) {
	t.Helper()
	r = newRigIn(t, name, root)
	r.plays(says("One."))
	r.Finish("")
	r.plays(says("The last\nmessage."))
	r.Finish("")
	id = r.Conn.(*conn).tr.session.id
	r.Close()
	got := summaries(t, r.Provider)
	if len(got) != 1 || got[0].AgentSessionID != id || got[0].Dir != r.Home.Project || !strings.HasPrefix(got[0].Title, "go <<play") && got[0].Title != "A title" ||
		got[0].LastMessage != "The last message." || got[0].CreatedAt.IsZero() || got[0].Size == 0 {
		t.Fatalf("%+v", got)
	}
	return r, id
}

// unrecorded are the extensions of Copilot's files that are not read.
var unrecorded = []string{".yaml", ".lock", ".md"}

// isOmitted reports whether recordings omit a line of a stored file: Copilot's
// prompt for the model, and its accounts.
func isOmitted(line string) bool {
	return strings.HasPrefix(line, `{"type":"system.message"`) || strings.HasPrefix(line, `{"type":"session.shutdown"`)
}

// recordStored records the files of an agent below dir that belong to the
// conversation id in the file to.
func recordStored(t *testing.T, to, dir, id string) {
	t.Helper()
	a := &txtar.Archive{Comment: []byte("The files that the agent stores about a conversation of two turns.\n")}
	var names, texts []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(path, id[:8]) && d.Name() != ".project_root" || slices.Contains(unrecorded, filepath.Ext(path)) {
			return err
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		kept := ""
		for line := range strings.Lines(string(data)) {
			if !isOmitted(line) {
				kept += line
			}
		}
		names, texts = append(names, filepath.ToSlash(rel)), append(texts, kept)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	ids := recordtest.NewUUIDs(append([]string{id}, texts...))
	for i, text := range texts {
		text = timeRE.ReplaceAllString(ids.Replace(text), "2026-01-01T00:00:00Z")
		a.Files = append(a.Files, txtar.File{
			Name: strings.ReplaceAll(ids.Replace(names[i]), id[:8], ids[id][:8]), Data: []byte(portRE.ReplaceAllString(text, "127.0.0.1:1")),
		})
	}
	recordtest.Save(t, to, a)
}

func TestSummaryOfRecordedFiles(t *testing.T) {
	recordings, err := filepath.Glob("testdata/*/stored/*.txtar")
	if err != nil || len(recordings) < len(filing) {
		t.Fatalf("%q, %v", recordings, err)
	}
	for _, path := range recordings {
		name := filepath.Base(filepath.Dir(filepath.Dir(path)))
		t.Run(name, func(t *testing.T) {
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			home := t.TempDir()
			dir := filepath.Join(home, filepath.FromSlash(filing[name]))
			write := func(name string, data []byte) {
				t.Helper()
				path := filepath.Join(dir, filepath.FromSlash(name))
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for _, f := range a.Files {
				write(f.Name, f.Data)
			}
			p := New(known(t, name)).(runnel.Programmable).WithProgram(nil, []string{"HOME=" + home, "GEMINI_CLI_HOME=" + home})
			got := summaries(t, p)
			if len(got) != 1 || got[0].Dir != filepath.Join(fixtureDir(name), "project") || got[0].LastMessage != "The last message." {
				t.Fatalf("%+v", got)
			}
			// Files that are no conversations change nothing.
			chat := a.Files[slices.IndexFunc(a.Files, func(f txtar.File) bool { return strings.HasSuffix(f.Name, ".jsonl") })]
			beside := func(name string) string { return strings.Replace(chat.Name, "00000000", name, 1) }
			write(beside("11111111"), chat.Data) // of another conversation
			write(beside("22222222"), []byte("\x00{{{\n[]\nnull\n"))
			write(beside("33333333"), []byte(strings.Repeat("x", 1<<20)))
			write("other.jsonl", chat.Data)
			if again := summaries(t, p); len(again) != 1 || again[0].File != got[0].File {
				t.Errorf("%+v", again)
			}
		})
	}
}
