package acp

import (
	"context"
	"encoding/base64"
	"net/url"
	"strings"
	"sync"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/text"
)

// learned is what the agents of a provider reported about themselves when they
// were started, by the path of the program.
type learned struct {
	mu   sync.Mutex
	caps map[string]caps
}

func (l *learned) set(path string, c caps) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.caps == nil {
		l.caps = make(map[string]caps)
	}
	l.caps[path] = c
}

func (l *learned) get(path string) (c caps, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, ok = l.caps[path]
	return c, ok
}

// Accepts implements [runnel.Accepter]. An agent reports what it takes when it
// is started. If none was started yet, Accepts starts one, in a directory away
// from any project.
func (p *provider) Accepts(ctx context.Context, opt runnel.Options) (func(runnel.Attachment) string, error) {
	path, _, err := p.command(opt)
	if err != nil {
		return nil, err
	}
	s := newSession(p.agent)
	known := false
	if s.caps, known = p.learned.get(path); !known {
		if err := p.introduce(ctx, path, opt); err != nil {
			return nil, err
		}
		s.caps, _ = p.learned.get(path)
	}
	return s.rejects, nil
}

// introduce starts the agent at path and stops it once it has reported what it
// can do.
func (p *provider) introduce(ctx context.Context, path string, opt runnel.Options) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
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

// A form is how an attachment is part of a prompt.
type form int

const (
	notTaken form = iota
	asText        // for an agent that takes no files: text of the prompt
	asTextFile
	asImage
	asBlob
)

// form returns the form in which the agent takes an attachment.
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
	return notTaken
}

// rejects says why the agent does not take an attachment, "" if it does.
func (s *session) rejects(a runnel.Attachment) string {
	if s.form(a) != notTaken {
		return ""
	}
	return s.agent.conn().Name + " takes no files of the type " + text.OneLine(a.MediaType, 100)
}

// content makes the blocks of a prompt: the warning about rejected attachments,
// the text, and the attachments. A part that is empty has no block. content
// fails with AttachmentFailure for an attachment that the agent does not take:
// it is another version than the one that was asked.
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
	for _, a := range in.Attachments {
		b := s.attached(a)
		if b == nil {
			return nil, runnel.Fail(runnel.AttachmentFailure, s.rejects(a)+". Send the prompt without "+text.OneLine(a.Name, 100)+".")
		}
		out = append(out, b)
	}
	return out, nil
}

// attached makes the block of an attachment, nil if the agent does not take it.
func (s *session) attached(a runnel.Attachment) any {
	uri := (&url.URL{Scheme: "file", Path: "/" + a.Name}).String()
	resource := func(field, content string) map[string]any {
		return map[string]any{"type": "resource", "resource": map[string]any{"uri": uri, "mimeType": a.MediaType, field: content}}
	}
	switch s.form(a) {
	case asTextFile:
		return resource("text", a.Text)
	case asText:
		return textBlock("\n\n" + a.Name + ":\n" + a.Text)
	case asImage:
		return map[string]any{"type": "image", "mimeType": a.MediaType, "data": base64.StdEncoding.EncodeToString(a.Data), "uri": uri}
	case asBlob:
		return resource("blob", base64.StdEncoding.EncodeToString(a.Data))
	}
	return nil
}

func textBlock(words string) any { return map[string]any{"type": "text", "text": words} }
