package claude

import (
	"encoding/base64"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
)

// prompt makes the frame for a prompt. Its uuid is the turn's id, so that the
// agent's own record of the conversation names the turn as we do.
//
// A prompt waits for its turn (priority later): a message that arrives while a
// turn runs would otherwise be slipped into that turn and have no end of its own.
func prompt(turn, dir string, in runnel.Input, isCommand func(string) bool) userFrame {
	f := userFrame{Type: "user", UUID: turn, Priority: "later"}
	f.Message.Role = "user"
	text := literal(in.Text, dir, isCommand)
	switch {
	case len(in.Attachments) == 0 && len(text) == 1:
		f.Message.Content = in.Text
	default:
		blocks := make([]any, 0, len(in.Attachments)+len(text))
		for _, a := range in.Attachments {
			blocks = append(blocks, attachmentBlock(a))
		}
		for _, t := range text {
			blocks = append(blocks, block{Type: "text", Text: t})
		}
		f.Message.Content = blocks
	}
	return f
}

// literal returns the text in pieces such that the agent passes it on to the
// model as it is. Only the last text of a prompt is looked at, and only if it
// begins with a slash is it taken for a command: of its own, or, on 2.1.197, for
// an unknown one, which is an error. A slash in a piece of its own is text.
// Commands that the agent offers stay commands. In the last text, too, it has
// files read that are named behind an @; those outside of the folder are not.
func literal(text, dir string, isCommand func(name string) bool) []string {
	rest, slash := strings.CutPrefix(text, "/")
	name, _, _ := strings.Cut(rest, " ")
	switch {
	case slash && isCommand(name):
		return []string{text}
	case agentconn.MentionsOutside(text, dir):
		i := strings.LastIndexByte(text, '@') + 1
		for i < len(text) && text[i] == '/' { // or it would begin a command
			i++
		}
		if i = min(i, len(text)-1); i > 0 {
			return []string{text[:i], text[i:]}
		}
		return []string{text}
	case !slash || rest == "":
		return []string{text}
	}
	if strings.HasPrefix(rest, "/") { // the second piece must not begin with one either
		n := len(rest) - len(strings.TrimLeft(rest, "/"))
		if n == len(rest) {
			return []string{text}
		}
		return []string{text[:n+1], rest[n:]}
	}
	return []string{"/", rest}
}

func attachmentBlock(a runnel.Attachment) block {
	b := block{Type: "document", Title: a.Name}
	switch {
	case strings.HasPrefix(a.MediaType, "image/"):
		b.Type, b.Title = "image", ""
		b.Source = &source{Type: "base64", MediaType: a.MediaType, Data: base64.StdEncoding.EncodeToString(a.Data)}
	case len(a.Data) > 0:
		b.Source = &source{Type: "base64", MediaType: a.MediaType, Data: base64.StdEncoding.EncodeToString(a.Data)}
	default:
		b.Source = &source{Type: "text", MediaType: "text/plain", Data: a.Text}
	}
	return b
}
