package livescreen

import (
	"fmt"
	"io"
	"strings"
)

// A Screen draws lines on a terminal. Its methods must not be called at the
// same time. Only the screen may write to the terminal while it has live lines.
type Screen struct {
	out     io.Writer
	size    func() (width, height int)
	colours bool

	row  int    // of the cursor, counted from the first live line
	rows int    // live lines on the terminal
	last string // the live lines and the cursor as they were drawn last
}

// A Cursor is a position in the live lines, counted from 0. Column counts cells.
type Cursor struct{ Row, Column int }

// New returns a Screen that writes to a terminal. size returns the size of the
// terminal in cells, or 0 if it is unknown. Without colours the screen still
// moves the cursor.
func New(out io.Writer, size func() (width, height int), colours bool) *Screen {
	return &Screen{out: out, size: size, colours: colours}
}

// Colours reports whether the screen shows styles.
func (s *Screen) Colours() bool { return s.colours }

// The size of a terminal that does not report its size.
const (
	usualWidth  = 80
	usualHeight = 24
)

// Size returns the size of the terminal.
func (s *Screen) Size() (width, height int) {
	width, height = s.size()
	if width <= 0 {
		width = usualWidth
	}
	if height <= 0 {
		height = usualHeight
	}
	return width, height
}

// Control sequences. A terminal that does not know the synchronised updates
// ignores them.
const (
	beginUpdate = "\x1b[?2026h"
	endUpdate   = "\x1b[?2026l"
	wrapOff     = "\x1b[?7l"
	wrapOn      = "\x1b[?7h"
	eraseBelow  = "\x1b[J"
)

// Draw prints done and replaces the live lines. A live line that is too wide is
// cut, so that it has one row. If the live lines do not fit on the terminal,
// only the last ones are shown. The cursor is then placed in the live lines, or
// at their end if cursor is nil.
//
// A terminal whose user has made it narrower may have broken the live lines
// into more rows. Their first rows then stay above, because removing too few
// rows loses no output.
func (s *Screen) Draw(done, live []Line, cursor *Cursor) error {
	width, height := s.Size()
	at := Cursor{Row: len(live) - 1}
	if len(live) > 0 {
		at.Column = live[at.Row].Width()
	}
	if cursor != nil {
		at = *cursor
	}
	if more := len(live) - (height - 1); more > 0 {
		live, at.Row = live[more:], max(at.Row-more, 0)
	}
	var below strings.Builder
	for i, l := range live {
		if i > 0 {
			below.WriteString("\r\n")
		}
		l.Cut(width-1).append(&below, s.colours)
	}
	if len(live) > 0 {
		s.place(&below, len(live)-1-at.Row, min(at.Column, width-1))
	}
	if len(done) == 0 && below.String() == s.last {
		return nil
	}
	var b strings.Builder
	b.WriteString(beginUpdate)
	if s.rows > 0 {
		b.WriteString("\r")
		if s.row > 0 {
			fmt.Fprintf(&b, "\x1b[%dA", s.row)
		}
		b.WriteString(eraseBelow)
	}
	for _, l := range done {
		l.append(&b, s.colours)
		b.WriteString("\r\n")
	}
	if len(live) > 0 {
		b.WriteString(wrapOff + below.String() + wrapOn)
	}
	b.WriteString(endUpdate)
	s.row, s.rows, s.last = at.Row, len(live), below.String()
	_, err := io.WriteString(s.out, b.String())
	return err
}

// place moves the cursor up and to a column.
func (s *Screen) place(b *strings.Builder, up, column int) {
	b.WriteString("\r")
	if up > 0 {
		fmt.Fprintf(b, "\x1b[%dA", up)
	}
	if column > 0 {
		fmt.Fprintf(b, "\x1b[%dC", column)
	}
}

// Clear removes the live lines. The next output of the program begins at their
// place.
func (s *Screen) Clear() error { return s.Draw(nil, nil, nil) }
