// Package livescreen prints lines on a terminal and keeps the last ones up to
// date.
//
// Finished lines scroll away like all output of a program. Below them are the
// live lines, which the next frame replaces. The text of lines must be safe to
// print: see package termtext.
package livescreen

import (
	"strings"

	"github.com/rivo/uniseg"
)

// A Style is how a text looks. A screen without colours ignores it.
type Style uint8

// The styles. They use the colours of the terminal's own theme.
const (
	Plain Style = iota
	Faint
	Bold
	Red
	Green
	Yellow
	Cyan
)

// sequences select a style.
var sequences = [...]string{Faint: "\x1b[2m", Bold: "\x1b[1m", Red: "\x1b[31m", Green: "\x1b[32m", Yellow: "\x1b[33m", Cyan: "\x1b[36m"}

const reset = "\x1b[0m"

// A Span is a text in one style, without line breaks and tabs.
type Span struct {
	Text  string
	Style Style
}

// A Line is one line of text.
type Line []Span

// Text returns a line in one style.
func Text(text string, style Style) Line { return Line{{text, style}} }

// String returns the text of the line.
func (l Line) String() string {
	var b strings.Builder
	for _, s := range l {
		b.WriteString(s.Text)
	}
	return b.String()
}

// append writes the line to b. Neighbouring spans of one style share their
// sequences.
func (l Line) append(b *strings.Builder, colours bool) {
	style := Plain
	for _, s := range l {
		if colours && s.Text != "" && s.Style != style {
			if style != Plain {
				b.WriteString(reset)
			}
			if style = s.Style; int(style) >= len(sequences) {
				style = Plain
			}
			b.WriteString(sequences[style])
		}
		b.WriteString(s.Text)
	}
	if style != Plain {
		b.WriteString(reset)
	}
}

// Width returns the number of terminal cells that a text occupies.
func Width(text string) int { return uniseg.StringWidth(text) }

// Width returns the number of terminal cells that the line occupies.
func (l Line) Width() (n int) {
	for _, s := range l {
		n += Width(s.Text)
	}
	return n
}

// Cut returns the beginning of the line, with "…" at the end, if the line is
// wider than width cells; otherwise the line.
func (l Line) Cut(width int) Line {
	if l.Width() <= width {
		return l
	}
	var out Line
	left := width - 1 // for the ellipsis
	for _, s := range l {
		head := prefix(s.Text, left)
		out = append(out, Span{head, s.Style})
		if len(head) < len(s.Text) {
			break
		}
		left -= Width(s.Text)
	}
	if width > 0 {
		out = append(out, Span{"…", Faint})
	}
	return out
}

// prefix returns the longest beginning of text that has at most width cells.
func prefix(text string, width int) string {
	n, rest, state := 0, text, -1
	for rest != "" {
		var cluster string
		var w int
		cluster, rest, w, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if width -= w; width < 0 {
			break
		}
		n += len(cluster)
	}
	return text[:n]
}

// CutText is [Line.Cut] for plain text.
func CutText(text string, width int) string { return Text(text, Plain).Cut(width).String() }

// CutStart returns the end of a text, with "…" at the start, if the text is
// wider than width cells; otherwise the text.
func CutStart(text string, width int) string {
	more := Width(text) - width
	if more <= 0 {
		return text
	}
	more++ // for the ellipsis
	rest, state := text, -1
	for rest != "" && more > 0 {
		var w int
		_, rest, w, state = uniseg.FirstGraphemeClusterInString(rest, state)
		more -= w
	}
	if width <= 0 {
		return ""
	}
	return "…" + rest
}

// Wrap breaks the line into lines of at most width cells, between words if that
// is possible. The second and later lines begin with indent, if it leaves room
// for text.
func (l Line) Wrap(width int, indent string) []Line {
	width = max(width, widest)
	if width-Width(indent) < max(widest, width/2) {
		indent = ""
	}
	w := wrapper{width: width, indent: indent}
	for _, word := range words(l) {
		w.add(word)
	}
	return w.end()
}

// widest is the number of cells of the widest character.
const widest = 2

// A wrapper collects the lines of Wrap.
type wrapper struct {
	width  int
	indent string
	out    []Line
	line   Line
	used   int // cells of line
	start  int // cells of the indentation of line
}

func (w *wrapper) add(word Line) {
	n := word.Width()
	if w.used > w.start && w.used+n > w.width {
		w.flush()
	}
	if w.used == w.start && len(w.out) > 0 && word.isSpace() {
		return // a continued line begins with a word
	}
	for w.used+n > w.width { // the word is longer than a line
		head, tail := word.split(w.width - w.used)
		if len(head) == 0 {
			break
		}
		w.line, w.used = append(w.line, head...), w.width
		w.flush()
		word, n = tail, n-head.Width() // tail.Width() would take time in proportion to the rest, for each line
	}
	w.line, w.used = append(w.line, word...), w.used+n
}

func (w *wrapper) flush() {
	w.out = append(w.out, w.line.trimmed())
	w.start = Width(w.indent)
	w.line, w.used = Line{{w.indent, Plain}}, w.start
}

func (w *wrapper) end() []Line {
	if w.used > w.start || len(w.out) == 0 {
		w.out = append(w.out, w.line.trimmed())
	}
	return w.out
}

// trimmed returns the line without spaces at its end.
func (l Line) trimmed() Line {
	for i := len(l) - 1; i >= 0; i-- {
		l[i].Text = strings.TrimRight(l[i].Text, " ")
		if l[i].Text != "" {
			break
		}
		l = l[:i]
	}
	return l
}

func (l Line) isSpace() bool { return strings.TrimSpace(l.String()) == "" }

// split divides the line after at most width cells. It may change l.
func (l Line) split(width int) (head, tail Line) {
	for i, s := range l {
		text := prefix(s.Text, width)
		if len(text) < len(s.Text) {
			if text != "" {
				head = append(head, Span{text, s.Style})
			}
			l[i].Text = s.Text[len(text):]
			return head, l[i:]
		}
		head = append(head, s)
		width -= Width(s.Text)
	}
	return head, nil
}

// words divides the line into words and the spaces between them. A word may
// have several styles.
func words(l Line) (out []Line) {
	var word Line
	space := false
	for _, s := range l {
		for rest := s.Text; rest != ""; {
			n := strings.IndexFunc(rest, func(r rune) bool { return r == ' ' })
			isSpace := n == 0
			if isSpace {
				n = len(rest) - len(strings.TrimLeft(rest, " "))
			} else if n < 0 {
				n = len(rest)
			}
			if len(word) > 0 && isSpace != space {
				out = append(out, word)
				word = nil
			}
			space = isSpace
			word = append(word, Span{rest[:n], s.Style})
			rest = rest[n:]
		}
	}
	if len(word) > 0 {
		out = append(out, word)
	}
	return out
}

// Columns is the distance between tab stops.
const Columns = 4

// Untab replaces each tab by spaces up to the next tab stop.
func Untab(text string) string {
	if !strings.ContainsRune(text, '\t') {
		return text
	}
	var b strings.Builder
	at := 0
	for i, part := range strings.Split(text, "\t") {
		if i > 0 {
			n := Columns - at%Columns
			b.WriteString(strings.Repeat(" ", n))
			at += n
		}
		b.WriteString(part)
		at += Width(part)
	}
	return b.String()
}
