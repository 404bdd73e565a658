package attach

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/text"
)

// A Category groups the reasons for which attachments are refused.
type Category string

// The categories, in the order of the checks.
const (
	notAbsolute  Category = "not_absolute"
	outsideRoots Category = "outside_roots"
	badExtension Category = "unsupported_type"
	unreadable   Category = "unreadable"
	linked       Category = "symlink"
	notRegular   Category = "not_a_regular_file"
	tooLarge     Category = "too_large"
	overBudget   Category = "total_too_large"
	mismatch     Category = "content_mismatch"

	mixed Category = "mixed" // of a Failure whose attachments have several
)

// A refusal is why an attachment cannot be used, in words that are safe to show.
type refusal struct {
	category Category
	text     string
}

func refuse(c Category, text string) *refusal { return &refusal{c, text} }

// Failure holds the details of the error for a prompt that has nothing left.
type Failure struct {
	Category                Category    `json:"category"`
	AttachmentErrors        []Rejection `json:"attachmentErrors"` // the first maxErrors
	RejectedAttachmentCount int         `json:"rejectedAttachmentCount"`
}

const maxErrors = 100

// Err returns an *[runnel.Error] if the attachments were all refused and there
// is no text either: then nothing is left to send.
func (c Checked) Err(text string) error {
	n := len(c.Rejected)
	if n == 0 || len(c.Attachments) > 0 || strings.TrimSpace(text) != "" {
		return nil
	}
	f := Failure{c.Rejected[0].category, c.Rejected[:min(n, maxErrors)], n}
	for _, r := range c.Rejected {
		if r.category != f.Category {
			f.Category = mixed
		}
	}
	first := c.Rejected[0]
	msg := fmt.Sprintf("no attachment can be used, and there is no text; %s: %s", first.name(), first.Reason)
	return &runnel.Error{Code: runnel.AttachmentFailure, Message: msg, Details: f}
}

const maxName = 200 // bytes

// printable returns s on one line, without anything that could disturb a
// reader, and cut at max bytes.
func printable(s string, max int) string {
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, s)
	return text.Shorten(s, max)
}
