package turnview

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/runnel-dev/runnel/internal/livescreen"
	"github.com/runnel-dev/runnel/internal/termtext"
)

// reading is the maximum width of prose on a terminal. Longer lines are hard to
// read.
const reading = 100

// Unlimited is the width of output that is no terminal: no line is broken or
// cut.
const Unlimited = 1 << 20

// prosaic returns the width of prose.
func prosaic(width int) int {
	if width == Unlimited {
		return width
	}
	return min(width, reading)
}

// prose is the text of a message while it grows. Lines that are complete are
// taken once; the last line is shown until it is complete.
type prose struct {
	id     string // of the item
	styled bool   // shows Markdown as styles instead of its characters

	text  string // what was not taken yet; begins at the start of a line
	fence string // the characters that end the code block, or ""
	begun bool   // a line that is not blank was taken
	blank int    // blank lines after it
}

func (p *prose) write(text string) { p.text += text }

// take returns the complete lines for a terminal of this width. over takes the
// last line, too. Blank lines at the beginning and the end of the message are
// left out.
func (p *prose) take(width int, over bool) (out []livescreen.Line) {
	for {
		line, rest, complete := strings.Cut(p.text, "\n")
		if !complete && !(over && line != "") {
			return out
		}
		p.text = rest
		for _, row := range rows(line + "\n") { // a separator of lines may become a line break
			if strings.TrimSpace(row) == "" {
				p.blank++
				continue
			}
			for ; p.blank > 0; p.blank-- {
				if p.begun {
					out = append(out, nil)
				}
			}
			p.begun = true
			out = append(out, p.line(row, width)...)
			p.toggle(row)
		}
	}
}

// maxTail bounds the part of an unfinished last line that each frame wraps, in
// bytes. It is far more than a terminal shows.
const maxTail = 64 << 10

// lastPart returns the end of a text that is longer than maxTail. Its beginning
// stays the same until the text has grown by half of maxTail, so that the lines
// on the terminal do not change with each piece.
func lastPart(text string) string {
	if len(text) <= maxTail {
		return text
	}
	const step = maxTail / 2
	return strings.TrimLeftFunc(text[len(text)/step*step-step:], func(r rune) bool { return r == utf8.RuneError })
}

// tail returns the lines of the unfinished last line, or of its end.
func (p *prose) tail(width int) (out []livescreen.Line) {
	if strings.TrimSpace(p.text) == "" {
		return nil
	}
	if p.begun && p.blank > 0 {
		out = append(out, nil)
	}
	for _, row := range rows(lastPart(p.text)) {
		out = append(out, p.line(row, width)...)
	}
	return out
}

var (
	fenced  = regexp.MustCompile("^ {0,3}(`{3,}|~{3,})")
	heading = regexp.MustCompile(`^#{1,6} +(.*?)(?: +#+)?$`)
	listed  = regexp.MustCompile(`^ *(?:[-*+]|\d{1,3}[.)]) +`)
	quote   = regexp.MustCompile(`^ *(?:> ?)+`)
)

// toggle begins or ends a code block.
func (p *prose) toggle(row string) {
	m := fenced.FindStringSubmatch(row)
	switch {
	case m == nil:
	case p.fence == "":
		p.fence = m[1]
	case strings.HasPrefix(m[1], p.fence) && strings.TrimSpace(row) == m[1]:
		p.fence = ""
	}
}

// line returns a row of Markdown as lines of at most width cells. Code and
// tables keep their lines, and the terminal breaks them.
func (p *prose) line(row string, width int) []livescreen.Line {
	width = prosaic(width)
	switch {
	case fenced.MatchString(row):
		return []livescreen.Line{livescreen.Text(row, livescreen.Faint)}
	case p.fence != "", strings.HasPrefix(strings.TrimLeft(row, " "), "|"):
		return []livescreen.Line{livescreen.Text(row, livescreen.Plain)}
	case !p.styled:
		return livescreen.Text(row, livescreen.Plain).Wrap(width, hanging(row))
	}
	if m := heading.FindStringSubmatch(row); m != nil && m[1] != "" {
		return livescreen.Text(m[1], livescreen.Bold).Wrap(width, "")
	}
	indent := hanging(row)
	style := livescreen.Plain
	if quote.MatchString(row) {
		style = livescreen.Faint
	}
	return inline(row, style).Wrap(width, indent)
}

// hanging returns the indentation of the further lines of a row, such as of an
// entry of a list.
func hanging(row string) string {
	if m := listed.FindString(row); m != "" {
		return strings.Repeat(" ", livescreen.Width(m))
	}
	if m := quote.FindString(row); m != "" {
		return m
	}
	return row[:len(row)-len(strings.TrimLeft(row, " "))]
}

// inline returns a text with its code spans and its strong text in styles.
func inline(text string, style livescreen.Style) (out livescreen.Line) {
	plain := 0 // where the text begins that is not in out
	flush := func(end int) {
		if end > plain {
			out = append(out, livescreen.Span{Text: text[plain:end], Style: style})
		}
	}
	for i := 0; i < len(text); {
		var inner livescreen.Line
		n := 0
		switch {
		case text[i] == '`':
			inner, n = codeSpan(text[i:])
		case text[i] == '\\' && i+1 < len(text):
			n = 2
		case strings.HasPrefix(text[i:], "**"):
			inner, n = strong(text[i:])
		}
		if inner != nil {
			flush(i)
			out = append(out, inner...)
			plain = i + n
		}
		i += max(n, 1)
	}
	flush(len(text))
	return out
}

// codeSpan returns the code span at the beginning of a text and its length. If
// there is none, it returns the length of the backquotes.
func codeSpan(text string) (livescreen.Line, int) {
	n := len(text) - len(strings.TrimLeft(text, "`"))
	ticks := text[:n]
	for at := n; ; {
		end := strings.Index(text[at:], ticks)
		if end < 0 {
			return nil, n
		}
		end += at
		run := len(text[end:]) - len(strings.TrimLeft(text[end:], "`"))
		if run != n {
			at = end + run
			continue
		}
		code := text[n:end]
		if trimmed := strings.TrimSpace(code); trimmed != "" {
			code = trimmed
		}
		return livescreen.Text(code, livescreen.Cyan), end + n
	}
}

// strong returns the strong text at the beginning of a text and its length.
func strong(text string) (livescreen.Line, int) {
	const mark = "**"
	body := text[len(mark):]
	end := strings.Index(body, mark)
	if end <= 0 || strings.TrimSpace(body[:end]) != body[:end] {
		return nil, len(mark)
	}
	return inline(body[:end], livescreen.Bold), len(mark) + end + len(mark)
}

// paragraphs returns a whole text as lines, without Markdown.
func paragraphs(text, prefix string, style livescreen.Style, width int) (out []livescreen.Line) {
	for _, row := range rows(strings.TrimRight(termtext.Clean(text), "\n")) {
		for _, l := range livescreen.Text(row, style).Wrap(max(width-livescreen.Width(prefix), 1), hanging(row)) {
			out = append(out, append(livescreen.Line{{Text: prefix, Style: livescreen.Faint}}, l...))
		}
	}
	return out
}
