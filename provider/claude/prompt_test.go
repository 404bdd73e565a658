package claude

import (
	"encoding/json"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

func TestPromptHasOneBlockForEachPartThatIsThere(t *testing.T) {
	note := runnel.Attachment{Name: "a.txt", MediaType: "text/plain", Text: "alpha"}
	picture := runnel.Attachment{Name: "p.png", MediaType: "image/png", Data: []byte("png")}
	paper := runnel.Attachment{Name: "d.pdf", MediaType: "application/pdf", Data: []byte("pdf")}
	gone := []runnel.Rejection{{Path: "/p/b.png", Reason: "it is empty"}}
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
		"rejection and text":        {runnel.Input{Text: "go", Rejected: gone}, `[` + warning + `,` + text + `]`},
		"rejection and attachment":  {runnel.Input{Attachments: []runnel.Attachment{note}, Rejected: gone}, `[` + warning + `,` + document + `]`},
		"rejection, and everything": {runnel.Input{Text: "go", Attachments: []runnel.Attachment{note}, Rejected: gone}, `[` + warning + `,` + document + `,` + text + `]`},
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
		m, told := message{Content: stored}.ofUser()
		want := event.Message{Content: c.in.Text, Origin: event.OriginUser}
		if m.Content != want.Content || len(m.Attachments) != len(c.in.Attachments) || told != c.in.Warning() {
			t.Errorf("%s: stored, it reads %+v with the warning %q", name, m, told)
		}
	}
}
