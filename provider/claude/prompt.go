package claude

import (
	"encoding/base64"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
)

// prompt makes the frame for a prompt. Its uuid is the turn's id, so that the
// agent's own record of the conversation has the same id.
//
// A prompt waits for its turn (priority later). Otherwise the agent would add a
// message that arrives while a turn runs to that turn, and it would have no end
// of its own.
func prompt(turn, dir string, in runnel.Input, isCommand func(string) bool) userFrame {
	f := userFrame{Type: "user", UUID: turn, Priority: "later"}
	f.Message.Role = "user"
	var text []string
	if in.Text != "" { // 2.1.329 never answers a prompt with an empty text block, 2.1.197 fails
		text = literal(in.Text, dir, isCommand)
	}
	warning := in.Warning()
	if warning == "" && len(in.Attachments) == 0 && len(text) <= 1 {
		f.Message.Content = in.Text
		return f
	}
	blocks := make([]any, 0, 1+len(in.Attachments)+len(text))
	if warning != "" {
		blocks = append(blocks, block{Type: "text", Text: warning})
	}
	for _, a := range in.Attachments {
		blocks = append(blocks, attachmentBlock(a))
	}
	for _, t := range text {
		blocks = append(blocks, block{Type: "text", Text: t})
	}
	f.Message.Content = blocks
	return f
}

// literal returns the text in pieces such that the agent passes it to the model
// unchanged. The agent inspects only the last piece of a prompt:
//
//   - If it begins with a slash, it is a command; 2.1.197 rejects an unknown
//     one. A slash in a piece of its own is text. Commands that the agent
//     offers stay commands.
//   - A file named after an @ is read into the prompt. For a file outside of
//     dir the text is split after the @, so that the agent does not read it.
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
