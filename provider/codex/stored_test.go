package codex

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// readStored returns the finished items of a conversation in the files of home.
func readStored(t *testing.T, home, id string) (items []string) {
	t.Helper()
	t.Setenv("CODEX_HOME", home)
	for ev, err := range New().ReadStored(t.Context(), runnel.Conversation{AgentSessionID: id}) {
		if err != nil {
			t.Fatal(err)
		}
		done, ok := ev.Body.(event.ItemDone)
		if !ok {
			continue
		}
		switch f := done.FinalItem.(type) {
		case event.Message:
			items = append(items, fmt.Sprintf("%s %s", f.Origin, f.Content))
		case event.FunctionCall:
			items = append(items, fmt.Sprintf("%s %s", f.Name, f.Title))
		case event.FunctionCallOutput:
			items = append(items, fmt.Sprintf("output %q, %d changes", f.Output, len(f.Changes)))
		}
	}
	return items
}

func TestStoredItemsAreReadWithoutAnAgent(t *testing.T) {
	items := readStored(t, unpackStored(t, "text@0.169.0"), "00000000-0000-4000-8000-000000000001")
	if len(items) != 5 || !strings.HasPrefix(items[0], "user go <<play") || items[1] != "agent I begin." || items[2] != "agent Grüße, 世界 🙂." || items[4] != "agent Second turn." {
		t.Errorf("%q", items)
	}
}

func TestStoredCommandsAndPatchesAreRead(t *testing.T) {
	const id = "00000000-0000-4000-8000-000000000001"
	home := t.TempDir()
	dir := filepath.Join(home, "sessions", "2026", "01", "01")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	item := func(item string) string {
		return `{"type":"event_msg","payload":{"type":"item_completed","thread_id":"` + id + `","turn_id":"t","item":` + item + `}}` + "\n"
	}
	content := `{"type":"session_meta","payload":{"id":"` + id + `","cwd":"/p"}}` + "\n" +
		`{"type":"event_msg","payload":{"type":"task_started","turn_id":"t","started_at":5}}` + "\n" +
		item(`{"type":"UserMessage","id":"u","content":[{"type":"text","text":"go"}]}`) +
		"not json\n" + `{"type":"event_msg","payload":7}` + "\n" + `{"type":"event_msg","payload":{"type":"item_completed","turn_id":"t","item":[]}}` + "\n" +
		strings.Replace(item(`{"type":"AgentMessage","id":"x","content":[{"text":"of another thread"}]}`), id, "other", 1) +
		item(`{"type":"Unknown","id":"y"}`) +
		item(`{"type":"CommandExecution","id":"c","command":["/bin/bash","-lc","echo 'a b'"],"cwd":"file:///p","source":"agent","status":"completed","aggregated_output":"a b\n","exit_code":0}`) +
		item(`{"type":"FileChange","id":"f","changes":{"/p/new":{"type":"add","content":"zebra\n"},"/p/old":{"type":"update","unified_diff":"@@ -1 +1 @@\n-a\n+b\n"}},"status":"completed"}`) +
		`{"type":"event_msg","payload":{"type":"task_complete","turn_id":"t","completed_at":6}}` + "\n" + `{"type":"event_msg","payl`
	if err := os.WriteFile(filepath.Join(dir, "rollout-2026-01-01T00-00-00-"+id+".jsonl"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	want := []string{"user go", `shell echo 'a b'`, `output "a b\n", 0 changes`}
	items := readStored(t, home, id)
	if len(items) != 5 || !slices.Equal(items[:3], want) || !strings.HasSuffix(items[4], ", 2 changes") {
		t.Errorf("%q", items)
	}
}
