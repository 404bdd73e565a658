package filediff

import (
	"maps"
	"math"
	"slices"

	"github.com/runnel-dev/runnel/event"
)

// A sheet describes a text by its difference from an earlier text, of which
// perhaps only some lines are known. Hunks can therefore be combined although
// nobody reported the whole file.
type sheet struct {
	first earlier
	parts []part
}

// An earlier is a text of which some lines are known.
type earlier struct {
	whole bool           // all lines are known
	lines []string       // all lines, if whole
	some  map[int]string // known lines by their number, unless whole
}

// A part of a sheet is either a run of unchanged lines or a run of new ones.
type part struct {
	from  int // number of its first line in the earlier text. 0: the lines are new
	n     int // number of unchanged lines
	added []string
}

func (p part) size() int {
	if p.from > 0 {
		return p.n
	}
	return len(p.added)
}

// rest is the number of the last line of a text of unknown length.
const rest = 1 << 30

// endless reports whether the part is the end of a text of unknown length.
func (p part) endless() bool { return p.from > 0 && p.from+p.n-1 == rest }

// sheetOf returns the sheet of an unchanged text.
func sheetOf(lines []string) *sheet {
	return &sheet{first: earlier{whole: true, lines: lines}, parts: unchanged(len(lines))}
}

// sheetOfUnknown returns the sheet of an unchanged text that is not known.
func sheetOfUnknown() *sheet {
	return &sheet{first: earlier{some: make(map[int]string)}, parts: unchanged(rest)}
}

func unchanged(n int) []part {
	if n == 0 {
		return nil
	}
	return []part{{from: 1, n: n}}
}

func (e *earlier) line(no int) (string, bool) {
	if e.whole {
		if no > len(e.lines) {
			return "", false
		}
		return e.lines[no-1], true
	}
	l, ok := e.some[no]
	return l, ok
}

// lines returns the text, if all of it is known.
func (s *sheet) lines() ([]string, bool) {
	if !s.first.whole {
		return nil, false
	}
	var out []string
	for _, p := range s.parts {
		if p.from > 0 {
			out = append(out, s.first.lines[p.from-1:p.from-1+p.n]...)
		} else {
			out = append(out, p.added...)
		}
	}
	return out, true
}

// replace makes lines the text. The earlier text must be known.
func (s *sheet) replace(lines []string) {
	var out writer
	at := 0
	keep := func(end int) {
		if end > at {
			out.keep(at+1, end-at)
		}
	}
	for _, d := range spansOf(s.first.lines, lines) {
		keep(d.a)
		out.add(lines[d.b:d.bEnd]...)
		at = d.aEnd
	}
	keep(len(s.first.lines))
	s.parts = out.parts
}

// learn completes the earlier text from all lines of the current text. It
// returns false, and changes nothing, if the sheet describes another text.
func (s *sheet) learn(lines []string) bool {
	if s.first.whole {
		now, _ := s.lines()
		return slices.Equal(now, lines)
	}
	some := make(map[int]string)
	length, at := 0, 0
	for _, p := range s.parts {
		n := p.size()
		if p.endless() {
			n = len(lines) - at
		}
		if n < 0 || at+n > len(lines) {
			return false
		}
		for i, l := range lines[at : at+n] {
			var known string
			ok := p.from == 0
			if ok {
				known = p.added[i]
			} else if known, ok = s.first.some[p.from+i]; !ok {
				some[p.from+i] = l
			}
			if ok && known != l {
				return false
			}
		}
		if p.from > 0 {
			length = max(length, p.from+n-1)
		}
		at += n
	}
	if at != len(lines) {
		return false
	}
	for no := range s.first.some {
		length = max(length, no)
	}
	whole := make([]string, length)
	for no := 1; no <= length; no++ {
		l, ok := some[no]
		if !ok {
			if l, ok = s.first.some[no]; !ok {
				return false
			}
		}
		whole[no-1] = l
	}
	s.first = earlier{whole: true, lines: whole}
	for i, p := range s.parts {
		if p.endless() {
			s.parts[i].n = length - p.from + 1
		}
	}
	s.parts = slices.DeleteFunc(s.parts, func(p part) bool { return p.size() == 0 })
	return true
}

// apply applies the hunks of one change. It returns false, and changes nothing,
// if the sheet describes another text than the one that was changed, or if the
// hunks have no line numbers.
func (s *sheet) apply(hunks []event.Hunk) bool {
	c := cursor{parts: s.parts}
	var out writer
	learned := make(map[int]string)
	pos := 1 // of the next line that c takes
	for _, h := range hunks {
		at := h.OldStart
		if h.OldLines == 0 {
			at++ // the start is the line before the new ones
		}
		if at < pos || !placed(h) || !c.copy(&out, at-pos) {
			return false
		}
		pos = at
		for _, l := range h.Lines {
			mark, text := cut(l)
			switch mark {
			case '+':
				out.add(text)
			case '-', ' ':
				no, known, ok := c.take()
				if !ok || no == 0 && known != text || no > 0 && !s.first.fits(no, text, learned) {
					return false
				}
				pos++
				switch {
				case mark == ' ' && no > 0:
					out.keep(no, 1)
				case mark == ' ':
					out.add(text)
				}
			}
		}
	}
	c.copy(&out, math.MaxInt)
	for no, l := range learned {
		s.first.some[no] = l
	}
	s.parts = out.parts
	return true
}

// fits reports whether line no may be text, and adds it to learned if the line
// was unknown.
func (e *earlier) fits(no int, text string, learned map[int]string) bool {
	known, ok := e.line(no)
	if !ok {
		known, ok = learned[no]
	}
	if !ok && !e.whole {
		learned[no] = text
		return true
	}
	return ok && known == text
}

// A cursor takes the lines of a sheet in order.
type cursor struct {
	parts []part
	off   int // lines of the first part that were taken
}

// take returns the next line: its number in the earlier text, or its text if it
// is new. ok is false at the end.
func (c *cursor) take() (no int, text string, ok bool) {
	if len(c.parts) == 0 {
		return 0, "", false
	}
	p := c.parts[0]
	if p.from > 0 {
		no = p.from + c.off
	} else {
		text = p.added[c.off]
	}
	c.skip(1)
	return no, text, true
}

func (c *cursor) skip(n int) {
	if c.off += n; c.off == c.parts[0].size() {
		c.parts, c.off = c.parts[1:], 0
	}
}

// copy takes n lines for out. It returns false if there are fewer.
func (c *cursor) copy(out *writer, n int) bool {
	for n > 0 && len(c.parts) > 0 {
		p := c.parts[0]
		take := min(n, p.size()-c.off)
		if p.from > 0 {
			out.keep(p.from+c.off, take)
		} else {
			out.add(p.added[c.off : c.off+take]...)
		}
		c.skip(take)
		n -= take
	}
	return n == 0
}

// A writer makes the parts of a sheet.
type writer struct{ parts []part }

func (w *writer) keep(from, n int) {
	if last := len(w.parts) - 1; last >= 0 && w.parts[last].from > 0 && w.parts[last].from+w.parts[last].n == from {
		w.parts[last].n += n
		return
	}
	w.parts = append(w.parts, part{from: from, n: n})
}

func (w *writer) add(lines ...string) {
	if len(lines) == 0 {
		return
	}
	if last := len(w.parts) - 1; last >= 0 && w.parts[last].from == 0 {
		w.parts[last].added = append(w.parts[last].added, lines...)
		return
	}
	w.parts = append(w.parts, part{added: append([]string(nil), lines...)})
}

// placed reports whether a hunk has line numbers.
func placed(h event.Hunk) bool { return h.OldStart > 0 || h.NewStart > 0 }

// cut returns the mark and the text of a line of a hunk. The mark is 0 if the
// line is neither part of the old nor of the new text.
func cut(line string) (mark byte, text string) {
	if line == "" {
		return ' ', "" // an unchanged empty line whose space was trimmed
	}
	switch line[0] {
	case ' ', '+', '-':
		return line[0], line[1:]
	}
	return 0, ""
}

// hunks returns the difference between the earlier and the current text.
func (s *sheet) hunks(context int) []event.Hunk {
	b := newBuilder(context)
	if now, ok := s.lines(); ok {
		b.compare(s.first.lines, now)
		return b.done()
	}
	no := 1 // next line of the earlier text
	var added []string
	flush := func(end int) {
		removed := make([]string, 0, end-no)
		for ; no < end; no++ {
			l, _ := s.first.line(no) // apply learned every line that it removed
			removed = append(removed, l)
		}
		at := 0
		for _, d := range spansOf(removed, added) { // what was removed and added again is unchanged
			b.keep(removed[at:d.a])
			b.change(removed[d.a:d.aEnd], added[d.b:d.bEnd])
			at = d.aEnd
		}
		b.keep(removed[at:])
		added = nil
	}
	known := slices.Sorted(maps.Keys(s.first.some))
	for _, p := range s.parts {
		if p.from == 0 {
			added = append(added, p.added...)
			continue
		}
		flush(p.from)
		at, end := p.from, p.from+p.n
		from, _ := slices.BinarySearch(known, at)
		for ; from < len(known) && known[from] < end; from++ {
			if n := known[from]; n > at {
				b.unknown(n - at)
			}
			at = known[from] + 1
			b.keep([]string{s.first.some[known[from]]})
		}
		if end > at {
			b.unknown(end - at)
		}
		no = end
	}
	return b.done()
}
