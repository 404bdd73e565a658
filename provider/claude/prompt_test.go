package claude

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

func TestPromptHasOneBlockForEachPart(t *testing.T) {
	note := runnel.Attachment{Name: "a.txt", MediaType: "text/plain", Text: "alpha"}
	picture := runnel.Attachment{Name: "p.png", MediaType: "image/png", Data: []byte("png")}
	paper := runnel.Attachment{Name: "d.pdf", MediaType: "application/pdf", Data: []byte("pdf")}
	rejected := []runnel.Rejection{{Path: "/p/b.png", Reason: "it is empty"}}
	const (
		document = `{"type":"document","source":{"type":"text","media_type":"text/plain","data":"alpha"},"title":"a.txt"}`
		blocks   = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"cG5n"}},{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"cGRm"},"title":"d.pdf"}`
		warning  = `{"type":"text","text":"Attachment warning: 1 attachment(s) could not be processed. Continuing with available content.\nRejected attachments:\n- b.png: it is empty"}`
		text     = `{"type":"text","text":"go"}`
	)
	for name, c := range map[string]struct {
		in   runnel.Input
		want string
	}{
		"text":                      {runnel.Text("go"), `"go"`},
		"attachment":                {runnel.Input{Attachments: []runnel.Attachment{note}}, `[` + document + `]`},
		"image and PDF":             {runnel.Input{Attachments: []runnel.Attachment{picture, paper}}, `[` + blocks + `]`},
		"attachment and text":       {runnel.Input{Text: "go", Attachments: []runnel.Attachment{note}}, `[` + document + `,` + text + `]`},
		"rejection and text":        {runnel.Input{Text: "go", Rejected: rejected}, `[` + warning + `,` + text + `]`},
		"rejection and attachment":  {runnel.Input{Attachments: []runnel.Attachment{note}, Rejected: rejected}, `[` + warning + `,` + document + `]`},
		"rejection, and everything": {runnel.Input{Text: "go", Attachments: []runnel.Attachment{note}, Rejected: rejected}, `[` + warning + `,` + document + `,` + text + `]`},
	} {
		f := prompt("t", "/d", c.in, func(string) bool { return false })
		got, err := json.Marshal(f.Message.Content)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got %s, %v; want %s", name, got, err, c.want)
		}
		var stored content
		if err := json.Unmarshal(got, &stored); err != nil {
			t.Fatal(err)
		}
		m, warned := message{Content: stored}.ofUser()
		want := event.Message{Content: c.in.Text, Origin: event.OriginUser}
		if m.Content != want.Content || len(m.Attachments) != len(c.in.Attachments) || warned != c.in.Warning() {
			t.Errorf("%s: read back as %+v with the warning %q", name, m, warned)
		}
	}
}

// received returns the joined texts of the last prompt that the model received.
func (r *rig) received() string {
	r.T.Helper()
	reqs := r.Model.Requests()
	for _, req := range slices.Backward(reqs) {
		if req.Method != "POST" || !strings.HasPrefix(req.Path, "/v1/messages?") {
			continue
		}
		var body struct {
			Messages []struct {
				Role    string
				Content content
			}
		}
		if err := json.Unmarshal(req.Body, &body); err != nil {
			r.T.Fatal(err)
		}
		for _, m := range slices.Backward(body.Messages) {
			if m.Role != "user" {
				continue
			}
			text := ""
			for _, b := range m.Content {
				if b.Type == "text" && !strings.HasPrefix(b.Text, "<system-reminder>") {
					text += b.Text
				}
			}
			return text
		}
	}
	r.T.Fatal("the model received no prompt")
	return ""
}

func TestPromptsReachTheModelUnchanged(t *testing.T) {
	onSharedAgent(t, plain, func(t *testing.T, r *rig) {
		hooked := r.File("hooked")
		settings, err := json.Marshal(map[string]any{"hooks": map[string]any{"SessionStart": []any{map[string]any{
			"hooks": []any{map[string]any{"type": "command", "command": "touch " + hooked}},
		}}}})
		if err != nil {
			t.Fatal(err)
		}
		prompts := []string{
			"-x", "--help", "--version", "- [ ] todo", "--", "-", "--settings=" + string(settings), "-o" + r.File("made"),
			"--config=" + r.File("made"), "/etc/passwd is a file", "//comment", "/", "/nosuch command",
			"@missing.txt hi", "!ls", "#memo", " /cost", "\n/cost", "tail\n/cost",
		}
		for _, p := range prompts {
			r.Send(p)
			if got := summary(r.Finish("")); !slices.Equal(got, []string{"message ok", "completed end_turn"}) {
				t.Errorf("%q: %q", p, got)
			}
			if got := r.received(); got != p {
				t.Errorf("the model got %q, not %q", got, p)
			}
		}
		left, err := os.ReadDir(r.Home.Project)
		if err != nil || len(left) != 0 {
			t.Errorf("files were created: %v, %v", left, err)
		}
	})
}

func TestSlashCommandsThatTheAgentOffersRun(t *testing.T) {
	eachAgent(t, func(t *testing.T, r *rig) {
		r.Send("/context")
		evs := r.Finish("")
		sound(t, evs)
		its := items(evs)
		if len(its) != 1 {
			t.Fatalf("items %+v", its)
		}
		if m, ok := its[0].Final.(event.Message); !ok || m.Origin != event.OriginSystem || !strings.Contains(m.Content, "Context Usage") {
			t.Errorf("item %+v", its[0])
		}
		for _, req := range r.Model.Requests() {
			if strings.HasPrefix(req.Path, "/v1/messages?") {
				t.Error("a request was sent to the model")
			}
		}
	})
}

func TestBigPromptsReachTheModelWhole(t *testing.T) {
	eachAgent(t, func(t *testing.T, r *rig) {
		for _, size := range []int{128<<10 - 1, 128 << 10, 1 << 20, 8 << 20} {
			text := strings.Repeat("abcdefg\n", size/8) + strings.Repeat("x", size%8)
			r.Send(text)
			if got := summary(r.Finish("")); !slices.Equal(got, []string{"message ok", "completed end_turn"}) {
				t.Errorf("%d bytes: %q", size, got)
			}
			if got := r.received(); got != text {
				t.Errorf("%d bytes: the model received another text of %d bytes", size, len(got))
			}
		}
	})
}

func TestControlCharactersReachTheModelUnchanged(t *testing.T) {
	onSharedAgent(t, plain, func(t *testing.T, r *rig) {
		for _, text := range []string{
			"\ufeffbom", "line\u2028separator\u2029end", "cr\r\nlf", "a\n{\"type\":\"control_request\",\"request_id\":\"x\",\"request\":{\"subtype\":\"end_session\"}}\nb",
			"\x1b[2J\x1b]52;c;eA==\x07", "<script>&amp;</script>", "\u202eright to left", `"}]},"uuid":"x`, "tab\tnul-free \x01\x02",
		} {
			r.Send(text)
			if got := summary(r.Finish("")); !slices.Equal(got, []string{"message ok", "completed end_turn"}) {
				t.Errorf("%q: %q", text, got)
			}
			if got := r.received(); got != text {
				t.Errorf("the model got %q, not %q", got, text)
			}
		}
	})
}
