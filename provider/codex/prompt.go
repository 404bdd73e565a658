package codex

import (
	"context"
	"encoding/base64"
	"html"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/translate"
)

// turnParams are the parameters of turn/start.
type turnParams struct {
	ThreadID string      `json:"threadId"`
	ClientID string      `json:"clientUserMessageId"`
	Input    []userInput `json:"input"`
}

// prompt returns the parameters for a prompt. They include the turn's id, which
// the agent stores with the prompt. Codex accepts images and text, so a text
// document is sent as text between frameOpen and frameClose.
func prompt(thread, turn string, in runnel.Input) turnParams {
	p := turnParams{ThreadID: thread, ClientID: turn, Input: []userInput{}}
	if warning := in.Warning(); warning != "" {
		p.Input = append(p.Input, textInput(warning))
	}
	for _, a := range in.Attachments {
		if strings.HasPrefix(a.MediaType, "image/") {
			p.Input = append(p.Input, userInput{Type: "image", URL: "data:" + a.MediaType + ";base64," + base64.StdEncoding.EncodeToString(a.Data)})
			continue
		}
		p.Input = append(p.Input, textInput(frameOpen+html.EscapeString(a.Name)+`" type="`+html.EscapeString(a.MediaType)+"\">\n"+a.Text+frameClose))
	}
	if in.Text != "" || len(p.Input) == 0 {
		p.Input = append(p.Input, textInput(in.Text))
	}
	return p
}

// The text before and after a text document.
const (
	frameOpen  = `<document title="`
	frameClose = "\n</document>"
)

func textInput(s string) userInput {
	return userInput{Type: "text", Text: &s, Elements: &[]struct{}{}}
}

// promptContent returns the text of a prompt and its attachments. For picture
// see [translate.Emitter.Picture].
func promptContent(in []userInput, picture func(base64 string) string) (text string, files []event.Attachment) {
	var words []string
	for i, part := range in {
		switch {
		case part.Type == "image":
			files = append(files, image(part.URL, picture))
		case part.Type == "localImage":
			files = append(files, event.Attachment{Name: oneLine(part.Path, 200), MediaType: "image/*"})
		case part.Text == nil:
		default:
			if f, ok := document(*part.Text); ok && i < len(in) {
				files = append(files, f)
				continue
			}
			words = append(words, *part.Text)
		}
	}
	return strings.Join(words, "\n"), files
}

// userMessage returns the message that shows a prompt, and the warning about
// rejected attachments that precedes the prompt. The warning is "" if there is
// none. For picture see [translate.Emitter.Picture].
func userMessage(in []userInput, picture func(base64 string) string) (m event.Message, warning string) {
	if len(in) > 1 && in[0].Text != nil {
		all, rest := runnel.CutWarning(*in[0].Text)
		if all != "" && rest == "" {
			in, warning = in[1:], all
		}
	}
	text, files := promptContent(in, picture)
	return event.Message{Content: text, Origin: event.OriginUser, Attachments: files}, warning
}

func image(url string, picture func(base64 string) string) event.Attachment {
	a := event.Attachment{MediaType: "image/*"}
	if head, data, ok := strings.Cut(url, ";base64,"); ok {
		a.MediaType = oneLine(strings.TrimPrefix(head, "data:"), 100)
		a.Size, a.Picture = translate.Base64Size(data), picture(data)
	}
	return a
}

// document returns the attachment for a text that begins with frameOpen and
// ends with frameClose. It reports false for any other text.
func document(text string) (a event.Attachment, ok bool) {
	rest, ok := strings.CutPrefix(text, frameOpen)
	if !ok || !strings.HasSuffix(rest, frameClose) {
		return a, false
	}
	head, body, ok := strings.Cut(rest, "\">\n")
	if !ok {
		return a, false
	}
	title, media, ok := strings.Cut(head, `" type="`)
	if !ok || len(body) < len(frameClose) {
		return a, false
	}
	return event.Attachment{Name: html.UnescapeString(title), MediaType: html.UnescapeString(media), Size: int64(len(body) - len(frameClose))}, true
}

// Accepts implements [runnel.Accepter]. Codex accepts only images and text.
func (*Provider) Accepts(context.Context, runnel.Options) (func(runnel.Attachment) string, error) {
	return func(a runnel.Attachment) string {
		if len(a.Data) > 0 && !strings.HasPrefix(a.MediaType, "image/") {
			return "Codex takes images and text only; put the file into the project and name it in the prompt"
		}
		return ""
	}, nil
}
