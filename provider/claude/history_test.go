package claude

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/testload"
	"github.com/runnel-dev/runnel/internal/translate"
)

// The entries form a long chain. Each of them also has a leaf, and none of them
// is a message. A search that walks up from every leaf would take quadratic
// time.
func TestManyBranchesAreReadInLinearTime(t *testing.T) {
	const n = 40000
	var b strings.Builder
	fmt.Fprintf(&b, `{"type":"user","uuid":"u","message":{"role":"user","content":"hi"}}`+"\n")
	parent := "u"
	for i := range n {
		fmt.Fprintf(&b, `{"type":"attachment","uuid":"a%d","parentUuid":"%s"}`+"\n", i, parent)
		fmt.Fprintf(&b, `{"type":"attachment","uuid":"b%d","parentUuid":"a%d"}`+"\n", i, i)
		parent = "a" + itoa(i)
	}
	entries, _, err := readEntries(t.Context(), strings.NewReader(b.String()), maxStored, nil)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	got := chain(entries)
	testload.Within(t, "reading the chain", start, 10*time.Second)
	if len(got) == 0 || got[0].UUID != "u" {
		t.Errorf("%d entries", len(got))
	}
}

// A line of two bytes becomes an entry of a kilobyte.
func TestManyShortLinesAreBounded(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "short"), []byte(strings.Repeat("x\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	left := int64(1500 * perEntry)
	entries, err := readFile(t.Context(), root, "short", &left, nil)
	if len(entries) != 1000 || err != nil || left != 500*perEntry {
		t.Errorf("%d entries, %v; %d bytes left", len(entries), err, left)
	}
	if entries, err = readFile(t.Context(), root, "short", &left, nil); len(entries) != 0 || runnel.CodeOf(err) != runnel.PayloadTooLarge {
		t.Errorf("beyond the bound: %d entries, %v", len(entries), err)
	}
}

func TestBlocksOfAMessageAreBounded(t *testing.T) {
	for _, element := range []string{"{}", "0", "null"} {
		data := `{"content":[{"type":"text","text":"first"}` + strings.Repeat(","+element, 100_000) + `]}`
		m := translate.DecodeLenient[message]([]byte(data))
		if len(m.Content) != maxBlocks || m.Content[0].Text != "first" {
			t.Errorf("%s: %d blocks", element, len(m.Content))
		}
	}
}

func TestCycleOfEntriesEnds(t *testing.T) {
	entries, _, err := readEntries(t.Context(), strings.NewReader(
		`{"type":"attachment","uuid":"a","parentUuid":"b"}`+"\n"+`{"type":"attachment","uuid":"b","parentUuid":"a"}`+"\n"+
			`{"type":"attachment","uuid":"c","parentUuid":"b"}`+"\n"), maxStored, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := chain(entries); len(got) != 0 {
		t.Errorf("%d entries", len(got))
	}
}

func TestHistoryStopsWhenTheContextIsCancelled(t *testing.T) {
	a, err := txtar.ParseFile("testdata/subagents@2.1.330.txtar")
	if err != nil {
		t.Fatal(err)
	}
	c := unpack(t, a)[0]
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range New().History(ctx, c) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		return
	}
	t.Error("History yielded nothing")
}

func TestHistorySkipsSubagentsBeyondTheBound(t *testing.T) {
	a, err := txtar.ParseFile("testdata/subagents@2.1.330.txtar")
	if err != nil {
		t.Fatal(err)
	}
	c := unpack(t, a)[0]
	root, err := os.OpenRoot(filepath.Join(os.Getenv("CLAUDE_CONFIG_DIR"), "projects"))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	name, err := lookup(root, runnel.Conversation{AgentSessionID: c.AgentSessionID})
	if err != nil {
		t.Fatal(err)
	}
	below := strings.TrimSuffix(name, ".jsonl") + "/subagents"
	for left, want := range map[int64]bool{10 << 20: false, 20 << 10: true, 0: true} {
		conv := conversation{sidechains: make(map[string][]*entry)}
		if err := conv.loadSidechains(t.Context(), root, below, &left); err != nil {
			t.Fatal(err)
		}
		if conv.short != want || (len(conv.sidechains) == 3) == want {
			t.Errorf("with %d bytes left: %d subagents, short %v", left, len(conv.sidechains), conv.short)
		}
	}
}

// A prompt can contain text like the text that the agent itself writes in user
// messages. The agent marks the prompts of programs, so they are still
// recognised as prompts.
func TestStoredPromptCanContainTextOfTheHarness(t *testing.T) {
	for _, prompt := range []string{
		"Base directory for this skill: /tmp/x\nread it", "<command-name>/foo</command-name> explain this", "<command-message>x",
		"<bash-input>ls</bash-input> what is it?", "<bash-stdout>x</bash-stdout>", "<local-command-stdout>x</local-command-stdout>",
		"[Request interrupted by user] what does it mean?", "<task-notification> what is it?",
	} {
		file := filepath.Join(t.TempDir(), "0b5d3c1e-59f0-4c1c-b2f7-8d5f7f0e9a11.jsonl")
		text := fmt.Sprintf(`{"type":"user","uuid":"9a3c8a3e-31a5-4d0a-8a35-7d2ea8a8a001","promptSource":"sdk","timestamp":"2026-01-01T00:00:01.000Z","message":{"role":"user","content":%q}}
{"type":"assistant","uuid":"b","parentUuid":"9a3c8a3e-31a5-4d0a-8a35-7d2ea8a8a001","timestamp":"2026-01-01T00:00:02.000Z","message":{"id":"m","role":"assistant","model":"claude","stop_reason":"end_turn","content":[{"type":"text","text":"so"}]}}
`, prompt)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var shown []string
		for ev, err := range New().History(t.Context(), runnel.Conversation{File: file, Anywhere: true}) {
			if err != nil {
				t.Fatal(err)
			}
			switch b := ev.Body.(type) {
			case event.ItemDone:
				shown = append(shown, b.FinalItem.(event.Message).Content)
			case event.SessionUpdated:
				if len(b.Files) > 0 {
					t.Errorf("%q: files %v", prompt, b.Files)
				}
			}
		}
		if want := []string{prompt, "so"}; !slices.Equal(shown, want) {
			t.Errorf("got %q, want %q", shown, want)
		}
	}
}

// An agent that can write only in the folder of its project puts a file there
// that has the id of a conversation of another project.
func TestHistoryJoinsNoFileThatDoesNotContinueTheOther(t *testing.T) {
	t.Setenv("CLAUDE_CONFIG_DIR", t.TempDir())
	const id = "0b5d3c1e-59f0-4c1c-b2f7-8d5f7f0e9a11"
	prompt := func(folder, uuid, parent, cwd, text, at string) {
		dir := filepath.Join(os.Getenv("CLAUDE_CONFIG_DIR"), "projects", folder)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprintf(`{"type":"user","uuid":%q,"parentUuid":%q,"cwd":%q,"promptSource":"sdk","timestamp":%q,"message":{"role":"user","content":%q}}`+"\n", uuid, parent, cwd, at, text)
		if err := os.WriteFile(filepath.Join(dir, id+".jsonl"), []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	shown := func(dir string) string {
		var out strings.Builder
		for ev, err := range New().History(t.Context(), runnel.Conversation{AgentSessionID: id, Dir: dir}) {
			if err != nil {
				t.Fatal(err)
			}
			data, err := json.Marshal(ev)
			if err != nil {
				t.Fatal(err)
			}
			out.Write(data)
		}
		return out.String()
	}
	prompt("-other", "a", "", "/other", "secret", "2026-01-01T00:00:02.000Z")
	for _, at := range []string{"2026-01-01T00:00:01.000Z", "2026-01-01T00:00:03.000Z"} {
		for _, parent := range []string{"", "guessed", id} {
			prompt("-planted", "b", parent, "/planted", "planted", at)
			if got := shown("/planted"); strings.Contains(got, "secret") || !strings.Contains(got, "planted") {
				t.Errorf("planted at %s below %q: the history is %s", at, parent, got)
			}
			if got := shown("/other"); strings.Contains(got, "planted") || !strings.Contains(got, "secret") {
				t.Errorf("planted at %s below %q: the other history is %s", at, parent, got)
			}
		}
	}
	prompt("-planted", "b", "a", "/planted", "planted", "2026-01-01T00:00:03.000Z") // continues it
	if got := shown("/planted"); !strings.Contains(got, "secret") || !strings.Contains(got, "planted") {
		t.Errorf("the history of a continued conversation is %s", got)
	}
}
