package filediff

import "github.com/runnel-dev/runnel/event"

// A builder makes hunks from the lines of a diff, which it takes in order.
type builder struct {
	context int
	hunks   []event.Hunk

	oldNext, newNext int         // numbers of the next line of the old and of the new text
	before           []string    // unchanged lines directly before the next line, at most context
	open             *event.Hunk // hunk that may still grow
	after            int         // unchanged lines at the end of open
}

func newBuilder(context int) *builder {
	return &builder{context: context, hunks: []event.Hunk{}, oldNext: 1, newNext: 1}
}

// compare adds all lines of two texts.
func (b *builder) compare(old, new []string) {
	at := 0
	for _, s := range spansOf(old, new) {
		b.keep(old[at:s.a])
		b.change(old[s.a:s.aEnd], new[s.b:s.bEnd])
		at = s.aEnd
	}
	b.keep(old[at:])
}

// keep adds unchanged lines.
func (b *builder) keep(lines []string) {
	// Two hunks are joined if at most twice the context lies between them: the
	// end of one's context and the beginning of the other's.
	if b.open != nil && len(lines) > 2*b.context-b.after {
		take := b.context - b.after
		if take > 0 {
			b.append(' ', lines[:take]...)
			b.skip(take)
			lines = lines[take:]
		} else if take < 0 { // some of its last lines belong to the next hunk
			cut := len(b.open.Lines) + take
			for _, l := range b.open.Lines[cut:] {
				b.before = append(b.before, l[1:])
			}
			b.open.Lines = b.open.Lines[:cut]
			b.open.OldLines += take
			b.open.NewLines += take
		}
		b.close()
	}
	if b.open != nil {
		b.append(' ', lines...)
		b.after += len(lines)
		b.skip(len(lines))
		return
	}
	b.before = append(b.before, lines[max(0, len(lines)-b.context):]...)
	b.before = b.before[max(0, len(b.before)-b.context):]
	b.skip(len(lines))
}

// unknown adds n unchanged lines whose text is not known.
func (b *builder) unknown(n int) {
	b.trim()
	b.close()
	b.before = nil
	b.skip(n)
}

// change adds removed lines and the lines that replace them.
func (b *builder) change(removed, added []string) {
	if len(removed)+len(added) == 0 {
		return
	}
	if b.open == nil {
		n := len(b.before)
		b.open = &event.Hunk{OldStart: b.oldNext - n, NewStart: b.newNext - n, Lines: []string{}}
		b.append(' ', b.before...)
		b.before = nil
	}
	b.append('-', removed...)
	b.append('+', added...)
	b.oldNext += len(removed)
	b.newNext += len(added)
	b.after = 0
}

func (b *builder) append(mark byte, lines ...string) {
	for _, l := range lines {
		b.open.Lines = append(b.open.Lines, string(mark)+l)
	}
	if mark != '+' {
		b.open.OldLines += len(lines)
	}
	if mark != '-' {
		b.open.NewLines += len(lines)
	}
}

func (b *builder) skip(n int) {
	b.oldNext += n
	b.newNext += n
}

// trim removes unchanged lines at the end of the open hunk beyond the context.
func (b *builder) trim() {
	if more := b.after - b.context; b.open != nil && more > 0 {
		b.open.Lines = b.open.Lines[:len(b.open.Lines)-more]
		b.open.OldLines -= more
		b.open.NewLines -= more
	}
}

func (b *builder) close() {
	if b.open == nil {
		return
	}
	// As in a patch, the start of an empty range is the line before it.
	if b.open.OldLines == 0 {
		b.open.OldStart--
	}
	if b.open.NewLines == 0 {
		b.open.NewStart--
	}
	b.hunks = append(b.hunks, *b.open)
	b.open, b.after = nil, 0
}

func (b *builder) done() []event.Hunk {
	b.trim()
	b.close()
	return b.hunks
}
