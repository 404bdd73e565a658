package acp

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/testexec"
)

// TestAttachmentsAreWhatTheAgentTakes checks that an attachment is sent only in
// a form that the agent's capabilities include.
func TestAttachmentsAreWhatTheAgentTakes(t *testing.T) {
	text := runnel.Attachment{Name: "a b.txt", MediaType: "text/plain", Text: "alpha"}
	image := runnel.Attachment{Name: "i.png", MediaType: "image/png", Data: []byte("png")}
	pdf := runnel.Attachment{Name: "d.pdf", MediaType: "application/pdf", Data: []byte("pdf")}
	for _, c := range []struct {
		agent string
		caps  caps
		a     runnel.Attachment
		want  string // the attachment's block; "" if the attachment is rejected
	}{
		{"unknown", caps{Embedded: true}, text, `{"resource":{"mimeType":"text/plain","text":"alpha","uri":"file:///a%20b.txt"},"type":"resource"}`},
		{"unknown", caps{}, text, `{"text":"\n\nFile a b.txt:\nalpha","type":"text"}`},
		{"unknown", caps{Image: true}, image, `{"data":"cG5n","mimeType":"image/png","type":"image","uri":"file:///i.png"}`},
		{"unknown", caps{Embedded: true}, image, ``},
		{"unknown", caps{Embedded: true}, pdf, `{"resource":{"blob":"cGRm","mimeType":"application/pdf","uri":"file:///d.pdf"},"type":"resource"}`},
		{"unknown", caps{Image: true}, pdf, ``},
		{"opencode", caps{Embedded: true, Image: true}, pdf, ``},
		{"copilot", caps{Embedded: true, Image: true}, pdf, ``},
		{"copilot", caps{Embedded: true, Image: true}, text, `{"text":"\n\nFile a b.txt:\nalpha","type":"text"}`},
	} {
		tr := newTranslator(Agent{Name: c.agent})
		tr.session.caps = c.caps
		content, err := tr.session.content(runnel.Input{Text: "look", Attachments: []runnel.Attachment{c.a}}, "/p")
		if c.want == "" {
			if runnel.CodeOf(err) != runnel.AttachmentFailure {
				t.Errorf("%s %+v %s: %v, %v", c.agent, c.caps, c.a.Name, content, err)
			}
			continue
		}
		if err != nil || len(content) != 2 {
			t.Fatalf("%s: %v, %v", c.a.Name, content, err)
		}
		got, err := json.Marshal(content[1])
		if err != nil || string(got) != c.want {
			t.Errorf("%s %+v: %s, %v", c.a.Name, c.caps, got, err)
		}
	}
}

// TestWarningIsCutFromStoredPrompt checks that a replayed user message has only
// the user's own text, even if the agent stores all texts of a prompt as one.
func TestWarningIsCutFromStoredPrompt(t *testing.T) {
	rejected := []runnel.Rejection{{Path: "/p/b.png", Reason: "it is empty"}}
	note := runnel.Attachment{Name: "a.txt", MediaType: "text/plain", Text: "alpha"}
	for _, in := range []runnel.Input{
		{Text: "look", Rejected: rejected},
		{Text: " look\n", Rejected: rejected},
		{Text: "look", Attachments: []runnel.Attachment{note}, Rejected: rejected},
		{Attachments: []runnel.Attachment{note}, Rejected: rejected},
	} {
		tr := newTranslator(known(t, "qwen"))
		tr.session.caps.Embedded = true
		content, err := tr.session.content(in, "/p")
		if err != nil {
			t.Fatal(err)
		}
		var texts []string // the agent stores only the texts of a prompt, not its attachments
		for _, b := range content {
			if text, ok := b.(map[string]any)["text"].(string); ok {
				texts = append(texts, text)
			}
		}
		stored := tr.session.q.replay.userPart(block{Type: "text", Text: strings.Join(texts, " ")})
		msg, warning := userMessage([]block{stored}, tr.out.Picture)
		if msg.Content != in.Text || warning != in.Warning() {
			t.Errorf("%q is shown as %q with the warning %q", in.Text, msg.Content, warning)
		}
	}
}

func TestMCPServers(t *testing.T) {
	given := json.RawMessage(`{"b":{"command":"/bin/b","env":{"K":"V"}},"a":{"type":"http","url":"https://x","headers":{"H":"1"}}}`)
	tr := newTranslator(Agent{Name: "unknown"})
	tr.session.caps.HTTP = true
	for version, want := range map[int]string{
		1: `[{"headers":[{"name":"H","value":"1"}],"name":"a","type":"http","url":"https://x"},{"args":[],"command":"/bin/b","env":[{"name":"K","value":"V"}],"name":"b"}]`,
		2: `[{"headers":[{"name":"H","value":"1"}],"name":"a","type":"http","url":"https://x"},{"args":[],"command":"/bin/b","env":[{"name":"K","value":"V"}],"name":"b","type":"stdio"}]`,
	} {
		tr.session.version = version
		servers, err := tr.session.mcpServers(given)
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(servers)
		if err != nil || string(got) != want {
			t.Errorf("version %d: %s, %v", version, got, err)
		}
	}
	for _, bad := range []string{`[]`, `{"x":{}}`, `{"x":{"type":"sse","url":"https://x"}}`, `"x"`, `{`} {
		if _, err := tr.session.mcpServers(json.RawMessage(bad)); runnel.CodeOf(err) != runnel.InvalidRequest {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestChanges(t *testing.T) {
	text := func(s string) *string { return &s }
	for name, c := range map[string]struct {
		content toolContent
		whole   bool
		want    event.Change
	}{
		"new": {toolContent{Type: "diff", Path: "/a", NewText: text("x\ny\n")}, false, event.Change{
			Path: "/a", Kind: event.ChangeCreate, NewText: text("x\ny\n"),
			Hunks: []event.Hunk{{NewStart: 1, NewLines: 2, Lines: []string{"+x", "+y"}}},
		}},
		"part": {toolContent{Type: "diff", Path: "/a", OldText: text("x"), NewText: text("y")}, false, event.Change{
			Path: "/a", Kind: event.ChangeUpdate, Hunks: []event.Hunk{{OldLines: 1, NewLines: 1, Lines: []string{"-x", "+y"}}},
			Edits: []event.Edit{{Old: "x", New: "y"}},
		}},
		"whole": {toolContent{Type: "diff", Path: "/a", OldText: text("1\n2\n3\n4\n5\n6\n7\n8\n"), NewText: text("1\n2\n3\n4\nfive\n6\n7\n8\n")}, true, event.Change{
			Path: "/a", Kind: event.ChangeUpdate, OldText: text("1\n2\n3\n4\n5\n6\n7\n8\n"), NewText: text("1\n2\n3\n4\nfive\n6\n7\n8\n"),
			Hunks: []event.Hunk{{OldStart: 2, OldLines: 7, NewStart: 2, NewLines: 7, Lines: []string{" 2", " 3", " 4", "-5", "+five", " 6", " 7", " 8"}}},
		}},
		"emptied": {toolContent{Type: "diff", Path: "/a", OldText: text("x\n"), NewText: text("")}, true, event.Change{
			Path: "/a", Kind: event.ChangeUpdate, OldText: text("x\n"), NewText: text(""),
			Hunks: []event.Hunk{{OldStart: 1, OldLines: 1, NewStart: 1, Lines: []string{"-x"}}},
		}},
	} {
		if d := cmp.Diff([]event.Change{c.want}, changes([]toolContent{c.content}, c.whole)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	huge := strings.Repeat("x\n", maxFileText)
	got := changes([]toolContent{{Type: "diff", Path: "/a", NewText: &huge}, {Type: "diff"}, {Type: "content"}}, true)
	if len(got) != 1 || got[0].NewText != nil || len(got[0].Hunks) > 1 {
		t.Errorf("%d changes", len(got))
	}
	if d := cmp.Diff([]event.Change{}, changes(make([]toolContent, 3), true)); d == "" {
		t.Error("changes of nothing")
	}
}

// TestTerminals sends terminal output in pieces that split characters, and one
// piece that is not valid base64.
func TestTerminals(t *testing.T) {
	chunk := func(b64 string) runnel.Line {
		return upd("terminal_output_chunk", `"terminalId":"t1","data":"`+b64+`"`)
	}
	lines := withBegun(
		upd("tool_call_update", `"toolCallId":"c1","kind":"execute","status":"in_progress","rawInput":{"command":"x"},"content":[{"type":"terminal","terminalId":"t1"}]`),
		chunk("w6TD"), chunk("vA=="), chunk("!!"), // "ä", half of "ü", its other half, and nonsense
		upd("terminal_update", `"terminalId":"t1","exitStatus":{"exitCode":3}`),
		upd("tool_call_update", `"toolCallId":"c1","status":"failed"`), ended,
	)
	evs, _ := run(t, lines...)
	sound(t, evs)
	var deltas []string
	for _, d := range bodies[event.ItemDelta](evs) {
		deltas = append(deltas, d.DeltaContent)
	}
	if d := cmp.Diff([]string{"ä", "ü"}, deltas); d != "" {
		t.Error(d)
	}
	for _, b := range bodies[event.ItemDone](evs) {
		if f, ok := b.FinalItem.(event.FunctionCallOutput); ok {
			if f.Output != "äü" || f.ExitCode == nil || *f.ExitCode != 3 || !f.IsError {
				t.Errorf("%+v", f)
			}
			return
		}
	}
	t.Error("no output")
}

// TestOutputIsBounded checks that output beyond the bound is dropped, and that
// TotalBytes counts it.
func TestOutputIsBounded(t *testing.T) {
	tr := newTranslator(Agent{Name: "unknown"})
	for _, l := range withBegun(upd("tool_call", `"toolCallId":"c1","status":"in_progress"`)) {
		agentconn.Feed(tr, l)
	}
	text := strings.Repeat("x", event.MaxOutput+100)
	evs, _ := agentconn.Feed(tr, upd("tool_call_update", `"toolCallId":"c1","status":"completed","content":[{"type":"content","content":{"type":"text","text":"`+text+`"}}]`))
	for _, b := range bodies[event.ItemDone](evs) {
		if f, ok := b.FinalItem.(event.FunctionCallOutput); ok && (len(f.Output) != event.MaxOutput || !f.Truncated || f.TotalBytes != int64(len(text))) {
			t.Errorf("%d bytes, %v, %d", len(f.Output), f.Truncated, f.TotalBytes)
		}
	}
}

// Accepts starts the agent to learn its capabilities. It does so only once.
func TestAcceptsAsksTheAgentOnce(t *testing.T) {
	dir := t.TempDir()
	program, starts := filepath.Join(dir, "agent"), filepath.Join(dir, "starts")
	script := "#!/bin/sh\necho start >> " + starts + "\nread -r line\nid=$(printf '%s' \"$line\" | sed 's/.*\"id\":\\([^,}]*\\).*/\\1/')\n" +
		`printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":1,"agentCapabilities":{"promptCapabilities":{"image":true}}}}\n' "$id"` + "\nread -r rest\n"
	if err := testexec.Write(program, script); err != nil {
		t.Fatal(err)
	}
	p := New(Agent{Name: "fake", Command: []string{program}})
	for range 2 {
		accepts, err := p.(runnel.Accepter).Accepts(t.Context(), runnel.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if reason := accepts(runnel.Attachment{Name: "a.png", MediaType: "image/png", Data: []byte("x")}); reason != "" {
			t.Errorf("an image: %s", reason)
		}
		if accepts(runnel.Attachment{Name: "a.pdf", MediaType: "application/pdf", Data: []byte("x")}) == "" {
			t.Error("a PDF is accepted")
		}
	}
	if data, err := os.ReadFile(starts); err != nil || string(data) != "start\n" {
		t.Errorf("started %q, %v", data, err)
	}
	if _, err := New(Agent{Name: "absent", Command: []string{filepath.Join(dir, "absent")}}).(runnel.Accepter).Accepts(t.Context(), runnel.Options{}); runnel.CodeOf(err) != runnel.AgentNotInstalled {
		t.Errorf("an agent that is not installed: %v", err)
	}
}

// codex-acp makes the title of a conversation from the whole prompt, including
// the warning that Runnel adds about rejected attachments.
func TestTitleHasNoWarningAboutAttachments(t *testing.T) {
	warning := runnel.Input{Rejected: []runnel.Rejection{{Path: "/p/nope.txt", Reason: "it does not exist"}}}.Warning()
	for native, want := range map[string]string{
		strings.ReplaceAll(warning, "\n", " ") + " see": "",
		warning + "\nsee": "see",
		"see":             "see",
	} {
		tr := newTranslator(Agent{Name: "codex-acp"})
		for _, l := range []runnel.Line{sayHello, hello, sayNew, out(`{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}`)} {
			agentconn.Feed(tr, l)
		}
		update := fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"session_info_update","title":%q}}}`, native)
		evs, _ := agentconn.Feed(tr, out(update))
		title := ""
		for _, ev := range evs {
			if b, ok := ev.Body.(event.SessionUpdated); ok {
				title = b.Title
			}
		}
		if title != want {
			t.Errorf("%q: got %q, want %q", native, title, want)
		}
	}
}

// A client that may send no commands must not be able to attach one, in the
// name of a file of a prompt without text.
func TestNoPromptWithoutTextBeginsWithACommand(t *testing.T) {
	for _, a := range agents {
		for _, name := range []string{"!touch x; .txt", "$extensions link x.txt"} {
			for _, text := range []string{"", " \n\u200b"} {
				tr := newTranslator(a) // of an agent that supports no files
				content, err := tr.session.content(runnel.Input{Text: text, Attachments: []runnel.Attachment{{Name: name, MediaType: "text/plain", Text: "/x"}}}, "/p")
				if err != nil {
					t.Fatal(err)
				}
				var joined strings.Builder
				for _, b := range content {
					b, _ := b.(map[string]any)
					text, _ := b["text"].(string)
					joined.WriteString(text)
				}
				if seen := strings.Trim(joined.String(), "\u200b\n "); seen == "" || strings.ContainsRune("/!$", rune(seen[0])) {
					t.Errorf("%s: the prompt begins with %.40q", a.Name, seen)
				}
			}
		}
	}
}

// claude-agent-acp puts the texts of attachments behind the prompt, and Claude
// Code reads files that the last text names.
func TestLastAttachedTextNamesNoFileOutside(t *testing.T) {
	file := func(name, text string) runnel.Attachment { return runnel.Attachment{Name: name, Text: text} }
	picture := runnel.Attachment{Name: "p.png", Data: []byte("x")}
	for _, c := range []struct{ files, want []runnel.Attachment }{
		{nil, nil},
		{[]runnel.Attachment{file("a", "@/x")}, []runnel.Attachment{file("a", "@"), file("a, continued", "/x")}},
		{[]runnel.Attachment{file("a", "see @/x @b"), picture}, []runnel.Attachment{file("a", "see @/x @"), file("a, continued", "b"), picture}},
		{[]runnel.Attachment{file("a", "@/x"), file("b", "@inside"), picture}, []runnel.Attachment{file("a", "@/x"), file("b", "@inside"), picture}},
		{[]runnel.Attachment{picture}, []runnel.Attachment{picture}},
	} {
		given := slices.Clone(c.files)
		if got := splitMention(c.files, t.TempDir()); !reflect.DeepEqual(got, c.want) {
			t.Errorf("got %v, want %v", got, c.want)
		}
		if !reflect.DeepEqual(c.files, given) {
			t.Errorf("the prompt of the caller was changed: %v", c.files)
		}
	}
}
