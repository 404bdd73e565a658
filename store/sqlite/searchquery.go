package sqlite

import (
	"context"
	"database/sql"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/store"
)

// Search implements [store.SearchIndex].
func (x *SearchIndex) Search(ctx context.Context, q store.SearchQuery) (page store.SearchPage, err error) {
	match, err := matching(q)
	if err != nil {
		return page, err
	}
	first, last := int64(0), int64(math.MaxInt64)
	if !q.Since.IsZero() {
		first = firstID(q.Since)
	}
	if !q.Until.IsZero() {
		last = firstID(q.Until) + 1<<idBits - 1
	}
	if q.Before > 0 {
		last = min(last, q.Before-1)
	}
	err = x.read(ctx, func(db *sql.DB) error {
		// The full-text index yields its rows by descending id without sorting
		// them, so the query reads only the rows of the page.
		rows, err := db.QueryContext(ctx, `
			SELECT id, sessions.session, items.seq, turn, item, kind, highlight(texts, 0, char(2), char(3))
			FROM texts CROSS JOIN items ON id = texts.rowid CROSS JOIN sessions ON key = items.session
			WHERE texts MATCH ? AND texts.rowid BETWEEN ? AND ? ORDER BY texts.rowid DESC LIMIT ?`, match, first, last, q.Limit+1)
		if err != nil {
			return err
		}
		defer rows.Close()
		id := int64(0)
		for rows.Next() {
			if len(page.Found) == q.Limit {
				page.Next = id
				break
			}
			var f store.SearchFound
			var text string
			if err := rows.Scan(&id, &f.Session, &f.Seq, &f.Turn, &f.Item, &f.Kind, &text); err != nil {
				return err
			}
			f.At, f.Snippet = timeOf(id), snippet(text)
			page.Found = append(page.Found, f)
		}
		return rows.Err()
	})
	return page, err
}

// matching returns the query in the language of FTS5.
func matching(q store.SearchQuery) (string, error) {
	text, err := matchingText(q.Text)
	if err != nil {
		return "", err
	}
	parts := []string{"{text} : (" + text + ")"}
	var kinds []string
	for _, k := range q.Kinds {
		kinds = append(kinds, kindTag(k))
	}
	if len(kinds) > 0 {
		parts = append(parts, "{tags} : ("+strings.Join(kinds, " OR ")+")")
	}
	if q.CLIType != "" {
		parts = append(parts, "{tags} : "+agentTag(q.CLIType))
	}
	if q.ProjectID != "" {
		parts = append(parts, "{tags} : "+projectTag(q.ProjectID))
	}
	return strings.Join(parts, " AND "), nil
}

// Bounds of the text of a query.
const (
	maxQuery = 1000 // bytes
	maxTerms = 32
	// minPrefix is the least length of the beginning of a word, in characters.
	// Too many words have a shorter one; it is searched as a word.
	minPrefix = 2
)

func matchingText(text string) (string, error) {
	if len(text) > maxQuery {
		return "", runnel.Fail(runnel.InvalidRequest, "q: is too long; it may have at most 1000 bytes")
	}
	var terms []string
	for rest := strings.ToValidUTF8(text, " "); rest != ""; {
		var term string
		var prefix bool
		term, prefix, rest = nextTerm(rest)
		if !strings.ContainsFunc(term, inWord) {
			continue
		}
		if terms = append(terms, quoted(term, prefix)); len(terms) > maxTerms {
			return "", runnel.Fail(runnel.InvalidRequest, "q: has too many words; it may have at most 32")
		}
	}
	if len(terms) == 0 {
		return "", runnel.Fail(runnel.InvalidRequest, "q: contains no word; give words, phrases in quotation marks, or the beginning of a word with *")
	}
	return strings.Join(terms, " AND "), nil
}

// nextTerm cuts the first word or quoted phrase from text. prefix reports
// whether an asterisk follows it.
func nextTerm(text string) (term string, prefix bool, rest string) {
	if text[0] == '"' {
		term, rest, _ = strings.Cut(text[1:], `"`)
		rest, prefix = strings.CutPrefix(rest, "*")
		return term, prefix, rest
	}
	end := strings.IndexFunc(text, func(r rune) bool { return r == '"' || unicode.IsSpace(r) })
	if end < 0 {
		end = len(text)
	} else if end == 0 {
		_, size := utf8.DecodeRuneInString(text)
		return "", false, text[size:]
	}
	term, prefix = strings.CutSuffix(text[:end], "*")
	return term, prefix, text[end:]
}

// quoted returns a term as a string of FTS5, which is a phrase if it has
// several words.
func quoted(term string, prefix bool) string {
	last := term[strings.LastIndexFunc(term, func(r rune) bool { return !inWord(r) })+1:]
	if _, size := utf8.DecodeRuneInString(last); last == "" {
		prefix = false // the term ends after a word
	} else if alone(lastRune(last)) {
		prefix = false // each character is a word
	} else if utf8.RuneCountInString(last) < minPrefix && size > 0 {
		prefix = false
	}
	s := `"` + strings.ReplaceAll(spaced(term), `"`, `""`) + `"`
	if prefix {
		s += " *"
	}
	return s
}

func lastRune(s string) rune {
	r, _ := utf8.DecodeLastRuneInString(s)
	return r
}

// inWord reports whether r is a part of a word, as the tokenizer defines it.
func inWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.Is(unicode.Co, r)
}

// Bounds of a snippet, in bytes.
const (
	maxSnippet  = 240
	snippetLead = 60 // before the first match
)

// snippet returns the part of a text around its first match. Matches are
// between the control characters 2 and 3.
func snippet(text string) []store.SearchPart {
	before, rest, _ := strings.Cut(text, "\x02")
	var parts []store.SearchPart
	if before = oneLine(before); len(before) > snippetLead {
		before = before[wordAfter(before, len(before)-snippetLead):]
		before = "…" + before
	}
	parts = appendPart(parts, before, false)
	room := maxSnippet - len(before)
	for match := true; rest != "" && room > 0; match = !match {
		mark := "\x03"
		if !match {
			mark = "\x02"
		}
		var part string
		part, rest, _ = strings.Cut(rest, mark)
		part = oneLine(part)
		if len(part) > room {
			part, rest = part[:wordBefore(part, room)]+"…", ""
		} else if room -= len(part); room <= 0 && rest != "" {
			part += "…"
		}
		parts = appendPart(parts, part, match)
	}
	return parts
}

func appendPart(parts []store.SearchPart, text string, match bool) []store.SearchPart {
	if text == "" {
		return parts
	}
	return append(parts, store.SearchPart{Text: text, Match: match})
}

// oneLine removes separators, and replaces each run of white space by a space.
func oneLine(s string) string {
	var b strings.Builder
	space := false
	for _, r := range s {
		switch {
		case r == separator:
			continue
		case unicode.IsSpace(r):
			if !space {
				b.WriteByte(' ')
			}
			space = true
			continue
		}
		space = false
		b.WriteRune(r)
	}
	return b.String()
}

// wordAfter returns the beginning of the first word in s after at, or of the
// first character if there is no word soon.
func wordAfter(s string, at int) int {
	for at < len(s) && !utf8.RuneStart(s[at]) {
		at++
	}
	if i := strings.IndexByte(s[at:min(at+20, len(s))], ' '); i >= 0 && at > 0 {
		return at + i + 1
	}
	return at
}

// wordBefore returns the end of the last word in s before at, or of the last
// character if there is no word soon.
func wordBefore(s string, at int) int {
	for at > 0 && !utf8.RuneStart(s[at]) {
		at--
	}
	from := max(at-20, 0)
	if i := strings.LastIndexByte(s[from:at], ' '); i > 0 {
		return from + i
	}
	return at
}
