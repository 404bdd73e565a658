package recordings

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/loadtest"
	"github.com/runnel-dev/runnel/internal/recordtest"
	"github.com/runnel-dev/runnel/internal/testcache"
	"github.com/runnel-dev/runnel/provider/codex"
)

// ofClaude reads the files that Claude Code stored.
func ofClaude(t *testing.T, a *txtar.Archive) (found []runnel.Conversation, history loadtest.History) {
	t.Helper()
	config := t.TempDir()
	t.Setenv("CLAUDE_CONFIG_DIR", config)
	recordtest.Unpack(t, a, filepath.Join(config, "projects"))
	p := provider(t, "claude-code")
	for c, err := range p.(runnel.Discoverer).Discover(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, c)
	}
	if len(found) == 0 {
		t.Fatal("no conversation was discovered")
	}
	slices.SortFunc(found, func(a, b runnel.Conversation) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return found, p.(runnel.Historian).History
}

// replayed returns the stored conversation of an agent that speaks ACP: the
// lines with which the agent replays it.
func replayed(name string) func(*testing.T, *txtar.Archive) ([]runnel.Conversation, loadtest.History) {
	return func(t *testing.T, a *txtar.Archive) ([]runnel.Conversation, loadtest.History) {
		t.Helper()
		lines := recordtest.Section(a, "load")
		if lines == nil {
			return nil, nil
		}
		kept := recordtest.Translated(t, provider(t, name).(runnel.Translator), lines)
		return []runnel.Conversation{{}}, func(context.Context, runnel.Conversation) iter.Seq2[event.Event, error] {
			return recordtest.Seq(kept)
		}
	}
}

// listsTurns is the first argument that makes the test program an app-server of
// Codex. It lists the turns of a recording. The second argument is the file with
// the turns.
const listsTurns = "lists-turns"

// ofCodex asks an app-server for the turns that Codex stored.
func ofCodex(t *testing.T, a *txtar.Archive) ([]runnel.Conversation, loadtest.History) {
	t.Helper()
	kept := recordtest.Section(a, "kept")
	var first storedThread
	if line, _, _ := bytes.Cut(kept, []byte("\n")); json.Unmarshal(line, &first) != nil {
		t.Fatal("the recording has no stored turns")
	}
	file := filepath.Join(t.TempDir(), "kept")
	if err := os.WriteFile(file, kept, 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := codex.New().WithProgram([]string{self, listsTurns, file}, nil)
	return []runnel.Conversation{{AgentSessionID: first.Thread}}, p.(runnel.Historian).History
}

// A storedThread holds the turns that Codex stored of a thread.
type storedThread struct {
	Thread string            `json:"thread"`
	Turns  []json.RawMessage `json:"turns"`
}

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == listsTurns {
		if err := listTurns(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(testcache.Main{M: m}.Run())
}

// listTurns answers requests on standard input until it ends.
func listTurns(file string) error {
	kept, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	turns := make(map[string][]json.RawMessage)
	for line := range bytes.Lines(kept) {
		var k storedThread
		if err := json.Unmarshal(line, &k); err != nil {
			return err
		}
		turns[k.Thread] = append(turns[k.Thread], k.Turns...)
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for in.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				ThreadID string `json:"threadId"`
			} `json:"params"`
		}
		if err := json.Unmarshal(in.Bytes(), &m); err != nil {
			return err
		}
		answer := map[string]any{"id": m.ID, "result": map[string]any{}}
		switch {
		case m.ID == nil:
			continue // a notification
		case m.Method == "thread/turns/list":
			answer["result"] = map[string]any{"data": append([]json.RawMessage{}, turns[m.Params.ThreadID]...)}
		}
		if err := out.Encode(answer); err != nil {
			return err
		}
	}
	return in.Err()
}
