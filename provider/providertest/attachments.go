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

// redImage returns an image of one red pixel.
func redImage() runnel.Attachment {
	return runnel.Attachment{Name: "red.png", MediaType: "image/png", Data: redPixel}
}

// note returns a text document of one line.
func note(name, line string) runnel.Attachment {
	return runnel.Attachment{Name: name, MediaType: "text/plain", Text: line + "\n"}
}

// attach sends a prompt with attachments, allows all approvals, and waits for
// the end of the turn. It returns the user's message from the event log.
func (l *live) attach(in runnel.Input) (turn *runnel.Turn, m event.Message) {
	l.t.Helper()
	turn, err := l.Send(l.t.Context(), in)
	if err != nil {
		l.t.Fatalf("send: %v", detail(err))
	}
	l.answerAll(turn, event.ChoiceAllowOnce) // without a text, some models call tools
	l.completes(turn)
	items := l.items(turn.ID)
	m, _ = items[0].Final.(event.Message)
	said, ok := find(items[1:], ofType(event.TypeMessage))
	if !ok || said.Content == "" {
		l.t.Errorf("the agent sent no message\n%s", l.dump())
	}
	return turn, m
}

// checkUserMessage fails the test unless the user's message has this text and
// these attachments.
func (l *live) checkUserMessage(m event.Message, text string, names ...string) {
	l.t.Helper()
	var got []string
	for _, a := range m.Attachments {
		got = append(got, a.Name)
	}
	if m.Content != text || strings.Join(got, " ") != strings.Join(names, " ") {
		l.t.Errorf("the user's message is %q with %q, want %q with %q", m.Content, got, text, names)
	}
}

// modelReceived fails the test unless the model received the text what.
func (s Subject) modelReceived(l *live, what string) {
	l.t.Helper()
	if s.ModelReceived != nil && !s.ModelReceived(l.opt, what) {
		l.t.Errorf("the model did not receive %q", what)
	}
}

// image sends an image with a text.
func (s Subject) image(t *testing.T, c *conversation) {
	prompt := s.prompt(t, Image)
	l := c.take(t)
	_, m := l.attach(runnel.Input{Text: prompt, Attachments: []runnel.Attachment{redImage()}})
	l.checkUserMessage(m, prompt, "red.png")
	if s.SawImage != nil && !s.SawImage(l.opt) {
		t.Error("the model was not shown the image")
	}
}

// attachmentAlone sends an image without a text, then a document without a
// text.
func (s Subject) attachmentAlone(t *testing.T, c *conversation) {
	s.prompt(t, Image)
	l := c.take(t)
	_, m := l.attach(runnel.Input{Attachments: []runnel.Attachment{redImage()}})
	l.checkUserMessage(m, "", "red.png")
	if s.SawImage != nil && !s.SawImage(l.opt) {
		t.Error("the model was not shown the image")
	}
	_, m = l.attach(runnel.Input{Attachments: []runnel.Attachment{note("alone.txt", "the document alone")}})
	l.checkUserMessage(m, "", "alone.txt")
	s.modelReceived(l, "the document alone")
}

// attachmentWithBlankText sends documents with a text of white space only.
func (s Subject) attachmentWithBlankText(t *testing.T, c *conversation) {
	l := c.take(t)
	for i, blank := range []string{" ", "\n", "\t \r\n\u00a0"} {
		name, line := fmt.Sprintf("blank%d.txt", i), fmt.Sprintf("the document with blank text %d", i)
		_, m := l.attach(runnel.Input{Text: blank, Attachments: []runnel.Attachment{note(name, line)}})
		l.checkUserMessage(m, "", name)
		s.modelReceived(l, line)
	}
}

// attachmentRejected sends prompts with rejected attachments. The model
// receives a warning before the prompt. The event log has the user's text
// without the warning, and a notice.
func (s Subject) attachmentRejected(t *testing.T, c *conversation) {
	l := c.take(t)
	rejected := func(n int) (out []runnel.Rejection) {
		for i := range n {
			out = append(out, runnel.Rejection{Path: fmt.Sprintf("/p/gone%d-%d.png", n, i), Reason: "it is empty"})
		}
		return out
	}
	for _, c := range []struct {
		rejected int
		in       runnel.Input
	}{ // the first has a text, because some agents add the answer to a prompt without text to the turn before it
		{1, runnel.Input{Text: s.Prompts[Text]}},
		{2, runnel.Input{Attachments: []runnel.Attachment{note("kept.txt", "the document that was kept")}}},
		{5, runnel.Input{Text: s.Prompts[Text]}},
	} {
		n, in := c.rejected, c.in
		in.Rejected = rejected(n)
		turn, m := l.attach(in)
		var names []string
		for _, a := range in.Attachments {
			names = append(names, a.Name)
			s.modelReceived(l, strings.TrimSpace(a.Text))
		}
		l.checkUserMessage(m, in.Text, names...)
		s.modelReceived(l, fmt.Sprintf("Attachment warning: %d attachment(s) could not be processed.", n))
		s.modelReceived(l, fmt.Sprintf("- gone%d-0.png: it is empty", n))
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

// page is a PDF document with one empty page.
const page = "%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n" +
	"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>endobj\nxref\n0 4\n0000000000 65535 f \n0000000009 00000 n \n" +
	"0000000052 00000 n \n0000000101 00000 n \ntrailer<</Size 4/Root 1 0 R>>\nstartxref\n164\n%%EOF\n"

// pdf sends a PDF. The model receives the PDF, or a warning if the agent does
// not support PDFs.
func (s Subject) pdf(t *testing.T, c *conversation) {
	l := c.take(t)
	doc := runnel.Attachment{Name: "page.pdf", MediaType: "application/pdf", Data: []byte(page)}
	accepts, err := l.Accepts(t.Context())
	if err != nil {
		t.Fatal(detail(err))
	}
	_, m := l.attach(runnel.Input{Text: s.Prompts[Text], Attachments: []runnel.Attachment{doc}})
	if reason := accepts(doc); reason != "" {
		l.checkUserMessage(m, s.Prompts[Text])
		s.modelReceived(l, "- page.pdf: "+reason)
		if _, err := l.Send(t.Context(), runnel.Input{Attachments: []runnel.Attachment{doc}}); runnel.CodeOf(err) != runnel.AttachmentFailure {
			t.Errorf("the PDF alone: %v", err)
		}
		if t.Failed() {
			return
		}
		s.skip(t, reason)
	}
	l.checkUserMessage(m, s.Prompts[Text], "page.pdf")
	s.modelReceived(l, base64.StdEncoding.EncodeToString([]byte(page)))
}

// rejectionReplayed compares prompts with rejected attachments between the live
// session and the agent's history: the user's text, and the notice.
func (s Subject) rejectionReplayed(t *testing.T, c *conversation) {
	s.needHistory(t)
	if len(rejectionTexts(t, c.latest(t).log)) == 0 { // AttachmentRejected did not run (-run)
		s.attachmentRejected(t, c)
	}
	live, stored := rejectionTexts(t, c.latest(t).log), rejectionTexts(t, c.history(t))
	if len(live) == 0 {
		t.Error("nothing was rejected")
	}
	if diff := cmp.Diff(live, stored); diff != "" {
		t.Errorf("live (-) and replayed (+) differ:\n%s", diff)
	}
}

// rejectedTurns returns the ids of the turns with rejected attachments.
func rejectedTurns(t *testing.T, log runnel.Log) (ids []string) {
	t.Helper()
	for ev, err := range log.Read(t.Context(), "s", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if b, ok := ev.Body.(event.Notice); ok && b.Code == runnel.AttachmentsRejected {
			ids = append(ids, ev.Turn)
		}
	}
	return ids
}

// rejectionTexts returns the texts of prompts with rejected attachments, by the
// messages of their notices. It omits prompts with a further document, because
// some agents replay a document as part of the text.
func rejectionTexts(t *testing.T, log runnel.Log) map[string]string {
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
