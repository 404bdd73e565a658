package claude

import (
	"encoding/base64"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
)

// prompt returns the frame for a prompt. Its uuid is the turn's id, so that the
// agent stores the prompt under the same id.
//
// Its priority is "later", so that the prompt gets a new turn. Otherwise the
// agent would add a prompt that arrives during a turn to that turn, and no
// result would follow for the prompt.
func prompt(turn, dir string, in runnel.Input, isCommand func(string) bool) userFrame {
	f := userFrame{Type: "user", UUID: turn, Priority: "later"}
	f.Message.Role = "user"
	var text []string
	if in.Text != "" { // with an empty text block, 2.1.329 never answers and 2.1.197 fails
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

// literal splits the text so that the agent passes it to the model unchanged.
// The agent interprets only the last piece of a prompt:
//
//   - A piece that begins with a slash is a command; 2.1.197 rejects an unknown
//     command. So literal puts a leading slash into a separate piece, unless
//     the text is a command that the agent offers.
//   - The agent reads a file that is named after an @. If the file is outside
//     dir, literal splits the text after the @, so that the agent does not read
//     the file.
func literal(text, dir string, isCommand func(name string) bool) []string {
	rest, slash := strings.CutPrefix(text, "/")
	name, _, _ := strings.Cut(rest, " ")
	switch {
	case slash && isCommand(name):
		return []string{text}
	case agentconn.MentionsOutside(text, dir):
		i := strings.LastIndexByte(text, '@') + 1
		for i < len(text) && text[i] == '/' { // the last piece must not begin with a slash
			i++
		}
		if i = min(i, len(text)-1); i > 0 {
			return []string{text[:i], text[i:]}
		}
		return []string{text}
	case !slash || rest == "":
		return []string{text}
	}
	if strings.HasPrefix(rest, "/") { // the last piece must not begin with a slash
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
