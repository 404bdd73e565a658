package main

import (
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/runnel-dev/runnel/internal/livescreen"
)

// A column is the heading of a table column and how the column may be cut.
type column struct {
	name string
	cut  cut
}

// cut is the way in which a column is shortened if the screen is too narrow.
type cut int

const (
	whole    cut = iota // never shortened: the column is only useful in full
	cutEnd              // omits the end
	cutStart            // omits the beginning, such as of a path
)

// A table prints rows of cells in columns.
type table struct {
	columns []column
	rows    [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// gap is the number of spaces between columns.
const gap = 2

// narrowest is the minimum width to which a column is cut.
const narrowest = 5

// write prints the table. It cuts columns until the table fits into width, as
// far as they can be cut. A width of 0 means no limit.
func (t *table) write(w io.Writer, width int) error {
	var names []string
	for _, c := range t.columns {
		names = append(names, c.name)
	}
	rows := t.rows
	if strings.Join(names, "") != "" {
		rows = slices.Insert(slices.Clone(rows), 0, names)
	}
	widths := t.widths(rows, width)
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		pad := 0
		for i, cell := range row {
			line.WriteString(strings.Repeat(" ", pad))
			cell = t.columns[i].cut.to(cell, widths[i])
			line.WriteString(cell)
			pad = gap + widths[i] - cells(cell)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// widths returns the width of each column. The widest column that can be cut
// becomes narrower until all fit.
func (t *table) widths(rows [][]string, width int) []int {
	widths := make([]int, len(t.columns))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], cells(cell))
		}
	}
	total := gap * (len(widths) - 1)
	for _, n := range widths {
		total += n
	}
	for ; width > 0 && total > width; total-- {
		widest := -1
		for i, c := range t.columns {
			if c.cut != whole && widths[i] > max(narrowest, len(c.name)) && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return widths
}

// to returns s cut to at most n terminal cells.
func (c cut) to(s string, n int) string {
	switch c {
	case cutEnd:
		return livescreen.CutText(s, n)
	case cutStart:
		return livescreen.CutStart(s, n)
	}
	return s
}

// cells returns how many terminal cells a text occupies.
func cells(s string) int { return livescreen.Width(s) }

// width returns the width of the terminal behind a.out, or 0 if a.out is no
// terminal. Programs thus receive uncut output.
func (a *app) width() int {
	if f := fileOf(a.out); f != nil && a.terminal(f) {
		return columns(f)
	}
	return 0
}

// fill wraps text so that a line has at most width cells. A width of 0 means no
// wrapping. A longer word has a line of its own.
func fill(text string, width int) string {
	if width <= 0 {
		return text
	}
	var b strings.Builder
	at := 0
	for i, word := range strings.Fields(text) {
		n := cells(word)
		switch {
		case i == 0:
		case at+1+n > width:
			b.WriteByte('\n')
			at = 0
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}

// output is the writer to which a command prints. gone reports that its reader
// has closed it.
type output struct {
	w    io.Writer
	gone atomic.Bool
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if isBrokenPipe(err) {
		o.gone.Store(true)
	}
	return n, err
}

// fileOf returns the file behind a standard stream, or nil if it is no file.
func fileOf(s any) *os.File {
	switch w := s.(type) {
	case *output:
		s = w.w
	case *diverted:
		s = w.usual
	}
	f, _ := s.(*os.File)
	return f
}
