package providertest

import (
	_ "embed"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

//go:embed red.png
var redPixel []byte

// red is a picture of one red pixel.
func red() runnel.Attachment {
	return runnel.Attachment{Name: "red.png", MediaType: "image/png", Data: redPixel}
}

// note is a text document of one line.
func note(name, line string) runnel.Attachment {
	return runnel.Attachment{Name: name, MediaType: "text/plain", Text: line + "\n"}
}

// attach sends a prompt with attachments and waits for the end of its turn. It
// returns the user's message as readers see it.
func (l *live) attach(in runnel.Input) (turn *runnel.Turn, m event.Message) {
	l.t.Helper()
	turn, err := l.Send(l.t.Context(), in)
	if err != nil {
		l.t.Fatalf("send: %v", detail(err))
	}
	l.answerAll(turn, event.ChoiceAllowOnce) // without a text, some agents decide themselves what to do
	l.completes(turn)
	items := l.items(turn.ID)
	m, _ = items[0].Final.(event.Message)
	said, ok := find(items[1:], ofType(event.TypeMessage))
	if !ok || said.Content == "" {
		l.t.Errorf("the agent said nothing\n%s", l.dump())
	}
	return turn, m
}

// shows fails the test unless the user's message has this text and these
// attachments.
func (l *live) shows(m event.Message, text string, names ...string) {
	l.t.Helper()
	var got []string
	for _, a := range m.Attachments {
		got = append(got, a.Name)
	}
	if m.Content != text || strings.Join(got, " ") != strings.Join(names, " ") {
		l.t.Errorf("the user's message is %q with %q, want %q with %q", m.Content, got, text, names)
	}
}

// told fails the test unless the model was told something.
func (s Subject) told(l *live, what string) {
	l.t.Helper()
	if s.Told != nil && !s.Told(l.opt, what) {
		l.t.Errorf("the model was not told %q", what)
	}
}

// image sends a picture with a text.
func (s Subject) image(t *testing.T, c *conversation) {
	prompt := s.prompt(t, Image)
	l := c.take(t)
	_, m := l.attach(runnel.Input{Text: prompt, Attachments: []runnel.Attachment{red()}})
	l.shows(m, prompt, "red.png")
	if s.SawImage != nil && !s.SawImage(l.opt) {
		t.Error("the model was not shown the image")
	}
}

// attachmentAlone sends a picture without a text, then a document without a
// text.
func (s Subject) attachmentAlone(t *testing.T, c *conversation) {
	s.prompt(t, Image)
	l := c.take(t)
	_, m := l.attach(runnel.Input{Attachments: []runnel.Attachment{red()}})
	l.shows(m, "", "red.png")
	if s.SawImage != nil && !s.SawImage(l.opt) {
		t.Error("the model was not shown the image")
	}
	_, m = l.attach(runnel.Input{Attachments: []runnel.Attachment{note("alone.txt", "the document alone")}})
	l.shows(m, "", "alone.txt")
	s.told(l, "the document alone")
}

// attachmentWithBlankText sends documents with a text that holds no words.
func (s Subject) attachmentWithBlankText(t *testing.T, c *conversation) {
	l := c.take(t)
	for i, blank := range []string{" ", "\n", "\t \r\n\u00a0"} {
		name, line := fmt.Sprintf("blank%d.txt", i), fmt.Sprintf("the document with blank text %d", i)
		_, m := l.attach(runnel.Input{Text: blank, Attachments: []runnel.Attachment{note(name, line)}})
		l.shows(m, "", name)
		s.told(l, line)
	}
}

// attachmentRejected sends prompts some of whose attachments were rejected: the
// model is told so before the prompt, and readers see what the user wrote.
func (s Subject) attachmentRejected(t *testing.T, c *conversation) {
	l := c.take(t)
	rejected := func(n int) (out []runnel.Rejection) {
		for i := range n {
			out = append(out, runnel.Rejection{Path: fmt.Sprintf("/p/gone%d-%d.png", n, i), Reason: "it is empty"})
		}
		return out
	}
	for n, in := range map[int]runnel.Input{
		1: {Text: s.Prompts[Text]},
		2: {Attachments: []runnel.Attachment{note("kept.txt", "the document that was kept")}},
		5: {Text: s.Prompts[Text]},
	} {
		in.Rejected = rejected(n)
		turn, m := l.attach(in)
		var names []string
		for _, a := range in.Attachments {
			names = append(names, a.Name)
			s.told(l, strings.TrimSpace(a.Text))
		}
		l.shows(m, in.Text, names...)
		s.told(l, fmt.Sprintf("Attachment warning: %d attachment(s) could not be processed.", n))
		s.told(l, fmt.Sprintf("- gone%d-0.png: it is empty", n))
		notices := 0
		l.watch(turn, func(ev event.Event) bool {
			if b, ok := ev.Body.(event.Notice); ok && b.Code == runnel.AttachmentsRejected && b.Message == in.Warning() {
				notices++
			}
			return false
		})
		if notices != 1 {
			t.Errorf("%d notices about rejected attachments\n%s", notices, l.dump())
		}
	}
}

// page is a PDF of one empty page.
const page = "%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n" +
	"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>endobj\nxref\n0 4\n0000000000 65535 f \n0000000009 00000 n \n" +
	"0000000052 00000 n \n0000000101 00000 n \ntrailer<</Size 4/Root 1 0 R>>\nstartxref\n164\n%%EOF\n"

// pdf sends a PDF, which the model is shown. An agent that does not take it is
// told so in its place.
func (s Subject) pdf(t *testing.T, c *conversation) {
	l := c.take(t)
	doc := runnel.Attachment{Name: "page.pdf", MediaType: "application/pdf", Data: []byte(page)}
	accepts, err := l.Accepts(t.Context())
	if err != nil {
		t.Fatal(detail(err))
	}
	_, m := l.attach(runnel.Input{Text: s.Prompts[Text], Attachments: []runnel.Attachment{doc}})
	if reason := accepts(doc); reason != "" {
		l.shows(m, s.Prompts[Text])
		s.told(l, "- page.pdf: "+reason)
		if _, err := l.Send(t.Context(), runnel.Input{Attachments: []runnel.Attachment{doc}}); runnel.CodeOf(err) != runnel.AttachmentFailure {
			t.Errorf("the PDF alone: %v", err)
		}
		if t.Failed() {
			return
		}
		s.skip(t, reason)
	}
	l.shows(m, s.Prompts[Text], "page.pdf")
	s.told(l, base64.StdEncoding.EncodeToString([]byte(page)))
}

// rejectionReplayed compares the prompts whose attachments were rejected with
// the agent's history: what the user wrote, and the notice.
func (s Subject) rejectionReplayed(t *testing.T, c *conversation) {
	if p, _ := s.New(t); !isHistorian(p) {
		s.skip(t, "the provider is no Historian: its sessions are rebuilt from our log only")
	}
	l := c.take(t)
	if l.Status().Head == 0 { // it runs alone
		s.attachmentRejected(t, c)
	}
	id := l.Status().AgentSessionID
	if err := l.Close(); err != nil {
		t.Fatal(detail(err))
	}
	log := new(runnel.Memory)
	history := l.provider.(runnel.Historian).History(t.Context(), runnel.Conversation{AgentSessionID: id, Dir: l.opt.Dir})
	Record(t, log, "s", runnel.Replay("s", l.provider.Name(), history))
	live, stored := warned(t, l.log), warned(t, log)
	if len(live) == 0 {
		t.Error("nothing was rejected")
	}
	if diff := cmp.Diff(live, stored); diff != "" {
		t.Errorf("live (-) and replayed (+) differ:\n%s", diff)
	}
}

// warned returns the texts of the prompts whose attachments were rejected, by
// the notices about them. It leaves out prompts that had a document besides:
// some agents replay a document as part of the text.
func warned(t *testing.T, log runnel.Log) map[string]string {
	t.Helper()
	texts, out := make(map[string]string), make(map[string]string)
	for ev, err := range log.Read(t.Context(), "s", 0) {
		if err != nil {
			t.Fatal(err)
		}
		switch b := ev.Body.(type) {
		case event.ItemDone:
			if m, ok := b.FinalItem.(event.Message); ok && m.Origin == event.OriginUser {
				texts[ev.Turn] = m.Content
			}
		case event.Notice:
			if b.Code == runnel.AttachmentsRejected && !strings.HasPrefix(b.Message, "Attachment warning: 2 ") {
				out[b.Message] = texts[ev.Turn]
			}
		}
	}
	return out
}
