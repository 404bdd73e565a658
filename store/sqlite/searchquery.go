package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/store"
)

// Search implements [store.SearchIndex].
func (x *SearchIndex) Search(ctx context.Context, q store.SearchQuery) (page store.SearchPage, err error) {
	text, err := parseQuery(q.Text)
	if err != nil {
		return page, err
	}
	first, last := int64(0), int64(math.MaxInt64)
	since, until := int64(0), int64(math.MaxInt64) // in milliseconds
	if !q.Since.IsZero() {
		first, since = firstID(q.Since), millisOf(q.Since)
	}
	if !q.Until.IsZero() {
		until = millisOf(q.Until)
		last = firstID(q.Until.Add(idSlack))
	}
	if q.Before > 0 {
		last = min(last, q.Before-1)
	}
	err = x.read(ctx, func(db *sql.DB) error {
		match, err := matching(ctx, db, text, q)
		if err != nil {
			return err
		}
		// The full-text index yields its rows by descending id without sorting
		// them, so the query reads only the rows of the page.
		rows, err := db.QueryContext(ctx, `
			SELECT id, at, sessions.session, items.seq, turn, item, kind, highlight(texts, 0, char(2), char(3))
			FROM texts CROSS JOIN items ON id = texts.rowid CROSS JOIN sessions ON key = items.session
			WHERE texts MATCH ? AND texts.rowid BETWEEN ? AND ? AND at BETWEEN ? AND ? ORDER BY texts.rowid DESC LIMIT ?`, match, first, last, since, until, q.Limit+1)
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
			var at int64
			var text string
			if err := rows.Scan(&id, &at, &f.Session, &f.Seq, &f.Turn, &f.Item, &f.Kind, &text); err != nil {
				return err
			}
			f.At, f.Snippet = time.UnixMilli(at).UTC(), snippet(text)
			page.Found = append(page.Found, f)
		}
		slices.SortStableFunc(page.Found, func(a, b store.SearchFound) int { return b.At.Compare(a.At) }) // the ids of one second have the order in which the items were added
		return rows.Err()
	})
	return page, err
}

// idSlack is how much later than the time of an item its id may be; see
// SearchIndex.freeID. It is enough for three million items of the same second.
const idSlack = time.Hour

// matching returns the query in the language of FTS5.
func matching(ctx context.Context, db *sql.DB, text []term, q store.SearchQuery) (string, error) {
	var terms []string
	room := maxWords
	for _, t := range text {
		s, err := t.matching(ctx, db, &room)
		if err != nil {
			return "", err
		}
		terms = append(terms, s)
	}
	parts := []string{"{text} : (" + strings.Join(terms, " AND ") + ")"}
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
	// maxPrefix is the greatest length of the beginnings in the full-text
	// index, in characters.
	maxPrefix = 4
	// maxWords bounds the words for which a longer beginning stands, in all
	// terms of a query.
	maxWords = 128
)

// A term is a word or a phrase of a query.
type term struct {
	text  string
	begin string // beginning of a word with which the text ends, as the tokenizer writes it; "" if the text ends with a whole word, or if it cannot be known
	star  bool   // the text ends with the beginning of a word
}

// parseQuery returns the terms of a query.
func parseQuery(text string) ([]term, error) {
	if len(text) > maxQuery {
		return nil, runnel.Fail(runnel.InvalidRequest, "q: is too long; it may have at most 1000 bytes")
	}
	var terms []term
	for rest := strings.ToValidUTF8(text, " "); rest != ""; {
		var t string
		var prefix bool
		t, prefix, rest = nextTerm(rest)
		if !strings.ContainsFunc(t, inWord) {
			continue
		}
		if terms = append(terms, newTerm(t, prefix)); len(terms) > maxTerms {
			return nil, runnel.Fail(runnel.InvalidRequest, "q: has too many words; it may have at most 32")
		}
	}
	if len(terms) == 0 {
		return nil, runnel.Fail(runnel.InvalidRequest, "q: contains no word; give words, phrases in quotation marks, or the beginning of a word with *")
	}
	return terms, nil
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

func newTerm(text string, prefix bool) term {
	last := text[strings.LastIndexFunc(text, func(r rune) bool { return !inWord(r) })+1:]
	n := utf8.RuneCountInString(last)
	t := term{text: text, star: prefix && n >= minPrefix && !alone(lastRune(last))} // each character of such a script is a word
	if t.star && n > maxPrefix && len(last) == n {
		t.begin = strings.ToLower(last)
	}
	return t
}

// matching returns the term in the language of FTS5.
//
// For the beginning of a word that is longer than those in the full-text index,
// FTS5 would read all occurrences of all words that begin so, before it returns
// the first row. It reads only the rows of a page if the query names the words.
// room is how many words the query may still name.
func (t term) matching(ctx context.Context, db *sql.DB, room *int) (string, error) {
	if !t.star {
		return quoted(t.text), nil
	}
	if t.begin == "" {
		return quoted(t.text) + " *", nil
	}
	var words []string
	for from := t.begin; ; {
		var word string
		err := db.QueryRowContext(ctx, "SELECT term FROM words WHERE term >= ? AND term < ? LIMIT 1", from, t.begin+"\U0010ffff").Scan(&word)
		if errors.Is(err, sql.ErrNoRows) {
			break
		}
		if err != nil {
			return "", err
		}
		if len(words) == *room {
			return quoted(t.text) + " *", nil
		}
		words = append(words, quoted(t.text[:len(t.text)-len(t.begin)]+word))
		from = word + "\x00"
	}
	*room -= len(words)
	if len(words) == 0 {
		return quoted(t.text), nil // no text has such a word
	}
	return "(" + strings.Join(words, " OR ") + ")", nil
}

// quoted returns a text as a string of FTS5, which is a phrase if it has
// several words.
func quoted(text string) string { return `"` + strings.ReplaceAll(spaced(text), `"`, `""`) + `"` }

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
