package runnel

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
)

// An Attachment is a file that goes with a prompt and that package attach has
// checked. A text document has Text; an image or a PDF has Data.
type Attachment struct {
	Name      string `json:"name"`
	MediaType string `json:"mediaType"`
	Text      string `json:"text,omitzero"`
	Data      []byte `json:"data,omitzero"`

	// Path is the path or upload id by which the client named the attachment.
	// Only errors contain it. Default: Name
	Path string `json:"path,omitzero"`
}

// A Rejection is the reason why an attachment does not reach the agent.
type Rejection struct {
	Path   string `json:"path"` // or the id of an upload, as the client gave it
	Reason string `json:"reason"`
}

// AttachmentErrors are the details of an ATTACHMENT_FAILURE.
type AttachmentErrors struct {
	Category string      `json:"category"`
	Errors   []Rejection `json:"attachmentErrors"` // the first 100
	Count    int         `json:"rejectedAttachmentCount"`
}

// nothingLeft is the category of a prompt without text whose attachments were
// all rejected.
const nothingLeft = "ALL_ATTACHMENTS_FAILED_NO_TEXT"

// Bounds of errors and warnings about rejected attachments.
const (
	maxRejections = 100 // in the details of an error
	maxWarned     = 3   // in a warning
	maxReason     = 200 // bytes of a reason, and of a name in a warning
)

// CheckRejected fails with ATTACHMENT_FAILURE if the prompt has no text and all
// its attachments were rejected, so that nothing is left to send.
func (in Input) CheckRejected() error {
	n := len(in.Rejected)
	if n == 0 || len(in.Attachments) > 0 || strings.TrimSpace(in.Text) != "" {
		return nil
	}
	return &Error{
		Code:    AttachmentFailure,
		Message: "no attachment can be used, and there is no text; " + in.Rejected[0].line(),
		Details: AttachmentErrors{nothingLeft, in.Rejected[:min(n, maxRejections)], n},
	}
}

// The lines of a warning.
const (
	warnedCount = "Attachment warning: %d attachment(s) could not be processed. Continuing with available content."
	warnedList  = "Rejected attachments:"
	warnedMore  = "- ... %d additional attachment error(s) omitted"
)

// Warning returns the text that the agent receives before the prompt, in a
// separate block, if attachments were rejected; "" if none were.
func (in Input) Warning() string {
	n := len(in.Rejected)
	if n == 0 {
		return ""
	}
	lines := []string{fmt.Sprintf(warnedCount, n), warnedList}
	for _, r := range in.Rejected[:min(n, maxWarned)] {
		lines = append(lines, "- "+r.line())
	}
	if n > maxWarned {
		lines = append(lines, fmt.Sprintf(warnedMore, n-maxWarned))
	}
	return strings.Join(lines, "\n")
}

// line returns the rejection on one line. It names the file without its folder.
func (r Rejection) line() string {
	return text.OneLine(filepath.Base(r.Path), maxReason) + ": " + text.OneLine(r.Reason, maxReason)
}

// warned matches a text that begins with a warning of Input.Warning.
var warned = regexp.MustCompile(`^Attachment warning: (\d{1,9}) attachment\(s\) could not be processed\. Continuing with available content\.\n` + warnedList + `((?:\n- [^\n]*)+)`)

// AttachmentsRejected is the code of the notice that lists the attachments of a
// turn that did not reach the agent.
const AttachmentsRejected = "ATTACHMENTS_REJECTED"

// CutWarning splits a text that begins with a warning of [Input.Warning] into
// the warning and the text after the line break that follows it. The warning is
// "" if the text does not begin with one.
func CutWarning(s string) (warning, rest string) {
	m := warned.FindStringSubmatch(s)
	if m == nil {
		return "", s
	}
	n, err := strconv.Atoi(m[1])
	if err != nil || n < 1 {
		return "", s
	}
	lines := 2 + min(n, maxWarned)
	if n > maxWarned {
		lines++
	}
	all := strings.SplitAfterN(s, "\n", lines+1)
	if len(all) < lines || n > maxWarned && strings.TrimSuffix(all[lines-1], "\n") != fmt.Sprintf(warnedMore, n-maxWarned) {
		return "", s
	}
	warning = strings.TrimSuffix(strings.Join(all[:lines], ""), "\n")
	return warning, strings.Join(all[lines:], "")
}

// warnedTitle matches the beginning of a warning, even if an agent has joined
// its lines.
var warnedTitle = regexp.MustCompile(`^\s*Attachment warning: \d{1,9} attachment\(s\) could not be processed\.`)

// TitleOf returns native, a title that an agent made from the beginning of a
// prompt, without the warning of [Input.Warning]. It is "" if the title
// contains nothing else.
func TitleOf(native string) string {
	if !warnedTitle.MatchString(native) {
		return native
	}
	if warning, rest := CutWarning(strings.TrimSpace(native)); warning != "" {
		return rest
	}
	return ""
}

// Accepts returns a function that returns the reason why the session's agent
// rejects an attachment, "" if the agent accepts it. See [Accepter].
func (s *Session) Accepts(ctx context.Context) (func(Attachment) (reason string), error) {
	p, ok := s.provider.(Accepter)
	if !ok {
		return func(Attachment) string { return "" }, nil
	}
	accepts, err := p.Accepts(ctx, s.first)
	if err != nil {
		return nil, Safe(err)
	}
	return accepts, nil
}

// accepted moves the attachments that the agent does not accept to Rejected. It
// fails if nothing is left to send.
func (s *Session) accepted(ctx context.Context, in Input) (Input, error) {
	if len(in.Attachments) > 0 {
		accepts, err := s.Accepts(ctx)
		if err != nil {
			return in, err
		}
		all := in.Attachments
		in.Attachments, in.Rejected = nil, in.Rejected[:len(in.Rejected):len(in.Rejected)]
		for _, a := range all {
			if reason := accepts(a); reason != "" {
				in.Rejected = append(in.Rejected, Rejection{a.path(), reason})
				continue
			}
			in.Attachments = append(in.Attachments, a)
		}
	}
	return in, in.CheckRejected()
}

// keepPictures calls Config.Pictures with the images of a prompt. undo is never
// nil.
func (s *Session) keepPictures(in Input) (undo func(), err error) {
	var images [][]byte
	for _, a := range in.Attachments {
		if event.PictureType(a.Data) != "" {
			images = append(images, a.Data)
		}
	}
	if len(images) == 0 || s.cfg.Pictures == nil {
		return func() {}, nil
	}
	return s.cfg.Pictures(images)
}

// path returns Path, or its default.
func (a Attachment) path() string {
	if a.Path == "" {
		return a.Name
	}
	return a.Path
}
