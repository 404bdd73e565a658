package acp

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// readStored returns the events and the error of ReadStored.
func readStored(ctx context.Context, p runnel.Provider, id string) (evs []event.Event, err error) {
	for ev, e := range p.(runnel.StoredReader).ReadStored(ctx, runnel.Conversation{AgentSessionID: id}) {
		if e != nil {
			return evs, e
		}
		evs = append(evs, ev)
	}
	return evs, nil
}

// recordedID returns the id of the conversation in the recorded database.
func recordedID(t *testing.T, p runnel.Provider) string {
	t.Helper()
	found := summaries(t, p)
	if len(found) != 1 {
		t.Fatalf("%+v", found)
	}
	return found[0].AgentSessionID
}

func TestStoredTextOfADatabaseIsBounded(t *testing.T) {
	many := "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50001) " +
		"INSERT INTO part SELECT 'more' || i, (SELECT min(id) FROM message), (SELECT id FROM session), i, i, '{}' FROM n"
	large := "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 33) " +
		"INSERT INTO part SELECT 'more' || i, (SELECT min(id) FROM message), (SELECT id FROM session), i, i, json_object('type', 'text', 'text', hex(zeroblob(1048576))) FROM n"
	for name, further := range map[string]string{"many parts": many, "large parts": large} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.db")
			writeDatabase(t, path, further)
			p := withEnv(t, "OPENCODE_DB="+path)
			if evs, err := readStored(t.Context(), p, recordedID(t, p)); runnel.CodeOf(err) != runnel.PayloadTooLarge || len(evs) > 0 {
				t.Errorf("%d events, %v", len(evs), err)
			}
		})
	}
}

func TestUnreadableRowsOfADatabaseAreSkipped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	writeDatabase(t, path,
		"UPDATE part SET data = '{\"type\":\"tool\",\"tool\":7,\"state\":[' WHERE json_extract(data, '$.text') = 'One.'",
		"INSERT INTO part SELECT 'more1', min(id), min(session_id), 1, 1, '{\"type\":\"tool\",\"tool\":\"bash\",\"state\":{\"status\":\"completed\",\"input\":[]}}' FROM message",
		"INSERT INTO part SELECT 'more2', min(id), min(session_id), 1, 1, '{\"type\":\"file\",\"url\":\"data:image/png;base64,%\"}' FROM message",
		"INSERT INTO part SELECT 'more3', min(id), min(session_id), 1, 1, X'FF00' FROM message",
		"INSERT INTO message SELECT 'other', min(session_id), 1, 1, '{' FROM message")
	p := withEnv(t, "OPENCODE_DB="+path)
	evs, err := readStored(t.Context(), p, recordedID(t, p))
	if err != nil {
		t.Fatal(err)
	}
	closed(t, evs)
	if s := dump(evs); strings.Contains(s, `"One."`) || !strings.Contains(s, `The last\nmessage.`) {
		t.Error(s)
	}
}

func TestStoredTextThatIsGoneFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	writeDatabase(t, path)
	p := withEnv(t, "OPENCODE_DB="+path)
	id := recordedID(t, p)
	for _, unknown := range []string{"", "ses_0", "' OR 1 --"} {
		if _, err := readStored(t.Context(), p, unknown); runnel.CodeOf(err) != runnel.SessionNotFound {
			t.Errorf("%q: %v", unknown, err)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := readStored(ended, p, id); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readStored(t.Context(), p, id); runnel.CodeOf(err) != runnel.AgentError {
		t.Errorf("without a database: %v", err)
	}
}

func TestUnreadableLinesOfCopilotAreSkipped(t *testing.T) {
	const id = "00000000-0000-4000-8000-000000000001"
	home := t.TempDir()
	path := filepath.Join(home, "session-state", id, "events.jsonl")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	lines := `{"type":"session.start","data":{"sessionId":"` + id + `","context":{"cwd":"/p"}}}
{"type":"user.message","data":{"content":"a prompt"}}
{"type":"tool.execution_start","data":[]}
{"type":"tool.execution_start","data":{"toolCallId":"c","toolName":"create","arguments":{"path":7,"file_text":"x"}}}
{"type":"tool.execution_complete","data":{"toolCallId":"c","success":true,"result":"text"}}
{"type":"tool.execution_complete","data":{"toolCallId":"unknown","success":true,"result":{"content":"of no call"}}}
no JSON
{"type":"assistant.message","data":{"content":"an answer"}}
{"type":"assistant.message","data":{"content":"torn`
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	p := New(known(t, "copilot")).(runnel.Programmable).WithProgram(nil, []string{"COPILOT_HOME=" + home})
	evs, err := readStored(t.Context(), p, id)
	if err != nil {
		t.Fatal(err)
	}
	closed(t, evs)
	if s := dump(evs); !strings.Contains(s, "a prompt") || !strings.Contains(s, "an answer") || strings.Contains(s, "torn") || strings.Contains(s, "of no call") {
		t.Error(s)
	}
	if _, err := readStored(t.Context(), p, "00000000-0000-4000-8000-000000000002"); runnel.CodeOf(err) != runnel.SessionNotFound {
		t.Errorf("of an unknown conversation: %v", err)
	}
}

// An agent in a sandbox writes the directory of another project into a
// conversation in the folder of its own.
func TestQwenConversationIsOfTheDirectoryWhoseFolderHasIt(t *testing.T) {
	for cwd, want := range map[string]string{"/no such/a": "/no such/a", "/no such/b": "", "": ""} {
		if got := qwenFolder("", filepath.Join("projects", "-no-such-a", "chats", "x.jsonl"), cwd); got != want {
			t.Errorf("%q: got %q, want %q", cwd, got, want)
		}
	}
	home := t.TempDir()
	dir := filepath.Join(home, ".qwen", "projects", "-no-such-a", "chats")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	p := New(known(t, "qwen")).(runnel.Programmable).WithProgram(nil, []string{"HOME=" + home})
	for _, cwd := range []string{"/no/such/b", "/no/such/a"} {
		id := "00000000-0000-4000-8000-00000000000" + cwd[len(cwd)-1:]
		line := `{"uuid":"1","sessionId":"` + id + `","cwd":"` + cwd + `","type":"user","provenance":"real_user","message":{"parts":[{"text":"hello"}]}}` + "\n"
		if err := os.WriteFile(filepath.Join(dir, id+".jsonl"), []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := p.(runnel.Finder).Find(t.Context(), id); (err == nil) != (cwd == "/no/such/a") {
			t.Errorf("%s: %v", cwd, err)
		}
	}
}
