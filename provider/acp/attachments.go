package acp

import (
	"context"
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/text"
)

// knownCaps caches the capabilities that a provider's agents reported, by the
// path of the program. It is safe for concurrent use.
type knownCaps struct {
	mu   sync.Mutex
	caps map[string]caps
}

func (l *knownCaps) set(path string, c caps) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.caps == nil {
		l.caps = make(map[string]caps)
	}
	l.caps[path] = c
}

func (l *knownCaps) get(path string) (c caps, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, ok = l.caps[path]
	return c, ok
}

// Accepts implements [runnel.Accepter]. An agent reports the supported
// attachments when it starts. If no agent has reported them yet, Accepts starts
// one in an empty directory and stops it again.
func (p *provider) Accepts(ctx context.Context, opt runnel.Options) (func(runnel.Attachment) string, error) {
	path, _, err := p.command(opt)
	if err != nil {
		return nil, err
	}
	s := newSession(p.agent)
	known := false
	if s.caps, known = p.knownCaps.get(path); !known {
		if err := p.fetchCaps(ctx, path, opt); err != nil {
			return nil, err
		}
		s.caps, _ = p.knownCaps.get(path)
	}
	return s.rejects, nil
}

// capsTimeout bounds the start of an agent that is asked for its capabilities:
// a prompt with attachments waits for it.
const capsTimeout = time.Minute

// fetchCaps starts the agent at path, reads its capabilities into p.knownCaps,
// and stops it.
func (p *provider) fetchCaps(ctx context.Context, path string, opt runnel.Options) error {
	ctx, cancel := context.WithTimeout(ctx, capsTimeout)
	defer cancel()
	c, err := p.start(ctx, runnel.Options{Dir: agentconn.EmptyDir(), Path: path, Env: opt.Env})
	if err != nil {
		return err
	}
	err = c.Handshake(ctx, func(next func() ([]byte, error)) error {
		h := handshake{p: p, c: c, opt: runnel.Options{Path: path}, next: next}
		return h.initialize()
	})
	if err == nil {
		err = c.Close()
	}
	return err
}

// form is the way in which a prompt includes an attachment.
type form int

const (
	unsupported form = iota
	asText           // as a text block, for agents that support no files
	asTextFile
	asImage
	asBlob
)

// form returns the form in which the agent supports an attachment.
func (s *session) form(a runnel.Attachment) form {
	isImage := strings.HasPrefix(a.MediaType, "image/") && a.MediaType != "image/"
	embedded := s.caps.Embedded && !s.q.live.noFiles
	switch {
	case len(a.Data) == 0 && embedded:
		return asTextFile
	case len(a.Data) == 0:
		return asText
	case isImage && s.caps.Image:
		return asImage
	case !isImage && embedded && !s.q.live.noBlobs:
		return asBlob
	}
	return unsupported
}

// rejects returns why the agent does not support an attachment, or "" if it
// does.
func (s *session) rejects(a runnel.Attachment) string {
	if s.form(a) != unsupported {
		return ""
	}
	return s.agent.conn().Name + " takes no files of the type " + text.OneLine(a.MediaType, 100)
}

// content returns the blocks of a prompt: the warning about rejected
// attachments, the text, and the attachments. Empty parts have no block, except
// that a prompt without text and attachments has an empty text block. content
// fails with AttachmentFailure for an unsupported attachment. Accepts may have
// accepted the attachment for another version of the agent.
func (s *session) content(in runnel.Input, dir string) ([]any, error) {
	var out []any
	if warning := in.Warning(); warning != "" {
		if s.q.live.joinsTexts {
			warning += "\n"
		}
		out = append(out, textBlock(warning))
	}
	switch literal := s.q.live.literal; {
	case in.Text == "" && len(in.Attachments) > 0:
	case literal != nil:
		out = append(out, literal(in.Text, dir, s.isCommand)...)
	default:
		out = append(out, textBlock(in.Text))
	}
	files := in.Attachments
	if s.q.live.mentionsInFiles {
		files = splitMention(files, dir)
	}
	for _, a := range files {
		b := s.attached(a)
		if b == nil {
			return nil, runnel.Fail(runnel.AttachmentFailure, s.rejects(a)+". Send the prompt without "+text.OneLine(a.Name, 100)+".")
		}
		out = append(out, b)
	}
	return out, nil
}

// splitMention returns files such that the last text among them names no file
// outside of dir after an @: it splits that text after its last @ into two
// attachments.
func splitMention(files []runnel.Attachment, dir string) []runnel.Attachment {
	for i, a := range slices.Backward(files) {
		if len(a.Data) > 0 {
			continue
		}
		if !agentconn.MentionsOutside(a.Text, dir) {
			break
		}
		cut := strings.LastIndexByte(a.Text, '@') + 1
		rest := a
		rest.Name, rest.Text = a.Name+", continued", a.Text[cut:]
		a.Text = a.Text[:cut]
		return slices.Concat(files[:i], []runnel.Attachment{a, rest}, files[i+1:])
	}
	return files
}

// attached returns the block for an attachment, or nil if the agent does not
// support it.
func (s *session) attached(a runnel.Attachment) any {
	uri := (&url.URL{Scheme: "file", Path: "/" + a.Name}).String()
	resource := func(field, content string) map[string]any {
		return map[string]any{"type": "resource", "resource": map[string]any{"uri": uri, "mimeType": a.MediaType, field: content}}
	}
	switch s.form(a) {
	case asTextFile:
		return resource("text", a.Text)
	case asText:
		// A word precedes the name, because the agent would take a prompt that
		// begins with a name such as "!x.txt" for a command.
		return textBlock("\n\nFile " + a.Name + ":\n" + a.Text)
	case asImage:
		return map[string]any{"type": "image", "mimeType": a.MediaType, "data": base64.StdEncoding.EncodeToString(a.Data), "uri": uri}
	case asBlob:
		return resource("blob", base64.StdEncoding.EncodeToString(a.Data))
	}
	return nil
}

func textBlock(words string) any { return map[string]any{"type": "text", "text": words} }
