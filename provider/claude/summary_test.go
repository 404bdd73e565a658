package claude

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
)

func summaries(t *testing.T) (found []runnel.Conversation) {
	t.Helper()
	p := New()
	for f, err := range p.StoredFiles(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		c, err := p.Summarize(t.Context(), f)
		if err != nil {
			t.Errorf("%s: %v", f.Path, err)
		}
		found = append(found, c)
	}
	return found
}

// TestSummaryOfEachRecordingHasItsLastMessage compares the last message of a
// summary with the conversation's history.
func TestSummaryOfEachRecordingHasItsLastMessage(t *testing.T) {
	compared := 0
	eachRecording(t, func(t *testing.T, _ fixture, _ string, a *txtar.Archive) {
		listed := make(map[string]runnel.Conversation)
		for _, c := range unpack(t, a) {
			listed[c.AgentSessionID] = c
		}
		for _, c := range summaries(t) {
			if c.Dir == "" {
				t.Errorf("the summary has no directory: %+v", c)
			}
			if want := listed[c.AgentSessionID]; want.File == c.File && (c.Title != want.Title || c.Dir != want.Dir || !c.CreatedAt.Equal(want.CreatedAt)) {
				t.Errorf("got %+v, the list has %+v", c, want)
			}
			var last string
			for _, ev := range history(t, c) {
				done, ok := ev.Body.(event.ItemDone)
				if m, is := done.FinalItem.(event.Message); ok && is && m.Origin != event.OriginSystem && m.Content != "" && !strings.Contains(done.ItemID, "/") {
					last = text.OneLine(m.Content, 200)
				}
			}
			if compared++; c.LastMessage != last {
				t.Errorf("last message %q, the history ends with %q", c.LastMessage, last)
			}
		}
	})
	if compared == 0 {
		t.Error("no conversation was compared")
	}
}

func TestSummaryOfAHostileFileIsBounded(t *testing.T) {
	config := t.TempDir()
	t.Setenv("CLAUDE_CONFIG_DIR", config)
	dir := filepath.Join(config, "projects", "p")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	const prompt = `{"type":"user","cwd":"/p","message":{"role":"user","content":"` // the beginning of a line as the agent stores it
	for id, data := range map[string]string{
		"00000000-0000-4000-8000-000000000001": "",
		"00000000-0000-4000-8000-000000000002": "\x00\xff{{{\n[]\nnull\n\"x\"\n",
		"00000000-0000-4000-8000-000000000003": strings.Repeat("[", 1<<20) + "\n",
		"00000000-0000-4000-8000-000000000004": prompt + strings.Repeat("x", 1<<20) + `"}}` + "\n",
		"00000000-0000-4000-8000-000000000005": prompt + strings.Repeat("long ", 5000) + `"}}` + "\n",
		"not-an-id":                            prompt + `hello"}}` + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, id+".jsonl"), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, good := New(), 0
	for f, err := range p.StoredFiles(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		c, err := p.Summarize(t.Context(), f)
		if err != nil {
			continue
		}
		if good++; len(c.Title) > 200 || len(c.LastMessage) > 200 || !strings.HasSuffix(f.Path, "5.jsonl") {
			t.Errorf("%s: %+v", f.Path, c)
		}
	}
	if good != 1 {
		t.Errorf("%d files have a conversation, want 1", good)
	}
	if c, err := p.Summarize(t.Context(), runnel.StoredFile{Path: filepath.Join(config, "00000000-0000-4000-8000-000000000005.jsonl")}); err == nil {
		t.Errorf("a file outside of the agent's folder was read: %+v", c)
	}
}

// An agent in a sandbox writes the directory of another project into a
// conversation in the folder of its own.
func TestConversationIsOfTheDirectoryWhoseFolderHasIt(t *testing.T) {
	config := t.TempDir()
	t.Setenv("CLAUDE_CONFIG_DIR", config)
	dir := filepath.Join(config, "projects", "-no-such-a")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for cwds, want := range map[[2]string]string{
		{"/no/such/a", "/no/such/b"}: "/no/such/a",
		{"/no/such/b", "/no/such/a"}: "/no/such/a",
		{"/no/such/b", "/no/such/b"}: "",
	} {
		var data strings.Builder
		for _, cwd := range cwds {
			data.WriteString(`{"type":"user","cwd":"` + cwd + `","message":{"role":"user","content":"hello"}}` + "\n")
		}
		file := filepath.Join(dir, "00000000-0000-4000-8000-000000000001.jsonl")
		if err := os.WriteFile(file, []byte(data.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := New().Summarize(t.Context(), runnel.StoredFile{Path: file, Size: int64(data.Len())})
		if err != nil || c.Dir != want || c.Title != "hello" {
			t.Errorf("%v: got %+v %v, want the directory %q", cwds, c, err, want)
		}
	}
}
