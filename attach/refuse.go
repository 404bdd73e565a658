package attach

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/runnel-dev/runnel/internal/text"
)

// A Category groups the reasons for which attachments are rejected.
type Category string

// The categories. [Checker.Check] documents the order of the checks.
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
	notTaken     Category = "not_taken_by_agent"
)

// A refusal is the reason why an attachment is rejected. Its text is safe to
// show to clients.
type refusal struct {
	category Category
	text     string
}

func refuse(c Category, text string) *refusal { return &refusal{c, text} }

const maxName = 200 // in bytes

// printable returns s with every non-printable character replaced by "_",
// shortened to max bytes.
func printable(s string, max int) string {
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, s)
	return text.Shorten(s, max)
}
