package attach

import (
	"strings"
	"unicode"
	"unicode/utf8"

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
	notTaken     Category = "not_taken_by_agent"
)

// A refusal is why an attachment cannot be used, in words that are safe to
// show.
type refusal struct {
	category Category
	text     string
}

func refuse(c Category, text string) *refusal { return &refusal{c, text} }

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
