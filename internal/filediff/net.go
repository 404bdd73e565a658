package filediff

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel/event"
)

// Bounds of a Net.
const (
	maxFiles = 2000     // files; changes of further files are only counted
	maxHeld  = 32 << 20 // bytes of text; beyond, files are listed without a diff
	maxSteps = 200      // changes of one file that are not combined
	perLine  = 40       // bytes that a line occupies in addition to its text
)

// A Net combines the changes of a series into one per file: from the first text
// of the file to its last. Add the changes in the order in which they were made.
type Net struct {
	dir  string
	at   map[string]*file // by current path
	all  []*file          // in the order of their first change
	held int
	more int // changes of files beyond maxFiles
}

// NewNet returns an empty Net. Relative paths of changes are relative to dir.
func NewNet(dir string) *Net { return &Net{dir: dir, at: make(map[string]*file)} }

// A File is the combined change of one file. Added and Removed also count lines
// of Steps.
type File struct {
	Path    string // before the change, absolute; of a new file, after it
	Kind    event.ChangeKind
	MovedTo string
	Hunks   []event.Hunk // empty if Steps is not
	Newline Newline
	Steps   []event.Change // the changes one after another, if they cannot be combined
	Whole   bool           // all lines of the file are known
	Outside bool           // something else changed the file between two changes
	Omitted bool           // texts were dropped, because there are too many
	Added   int
	Removed int
}

// A file is the state of a file after the changes so far.
type file struct {
	first, path string // before the first change, and now
	born        bool   // it did not exist before the first change
	gone        bool   // it does not exist now
	text        *sheet // nil: the first text, or the last, cannot be known
	ends        [2]end // of the first and of the last text
	steps       []event.Change
	dropped     int  // steps beyond maxSteps
	outside     bool // something else changed the file between two changes
	omitted     bool
	size        int // bytes of text
}

// An end tells whether a text ends with a newline.
type end int

const (
	unknownEnd end = iota
	withNewline
	withoutNewline
)

func endOf(text string) end {
	if text == "" || strings.HasSuffix(text, "\n") {
		return withNewline
	}
	return withoutNewline
}

// Add adds a change. The change must have succeeded.
func (n *Net) Add(c event.Change) {
	path := n.clean(c.Path)
	f := n.at[path]
	if f == nil {
		if len(n.all) >= maxFiles {
			n.more++
			return
		}
		f = &file{first: path, path: path, born: c.Kind == event.ChangeCreate}
		n.at[path], n.all = f, append(n.all, f)
	}
	switch {
	case n.held-f.size+weightOf(c) > maxHeld:
		f.omit()
	case f.text == nil && f.steps == nil && !f.omitted:
		f.begin(c)
	default:
		f.change(c)
	}
	if c.Kind == event.ChangeMove && c.MovedTo != "" {
		n.move(f, n.clean(c.MovedTo))
	}
	f.gone = c.Kind == event.ChangeDelete
	n.bound(f)
}

// More returns the number of changes that Add did not take because there are
// too many files.
func (n *Net) More() int { return n.more }

func (n *Net) clean(path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(n.dir, path)
	}
	return filepath.Clean(path)
}

// move gives f another path. It replaces a file at that path.
func (n *Net) move(f *file, to string) {
	delete(n.at, f.path)
	if other := n.at[to]; other != nil && other != f {
		other.gone = true
	}
	f.path, n.at[to] = to, f
}

// bound drops the text of f if all files together have too much.
func (n *Net) bound(f *file) {
	n.held -= f.size
	f.size = f.weigh()
	if n.held+f.size > maxHeld {
		f.omit()
		f.size = 0
	}
	n.held += f.size
}

// omit drops the text of f.
func (f *file) omit() { f.text, f.steps, f.omitted = nil, nil, true }

func (f *file) weigh() (size int) {
	add := func(lines []string) {
		for _, l := range lines {
			size += len(l) + perLine
		}
	}
	if f.text != nil {
		add(f.text.first.lines)
		for _, l := range f.text.first.some {
			size += len(l) + perLine
		}
		for _, p := range f.text.parts {
			size += perLine
			add(p.added)
		}
	}
	for _, c := range f.steps {
		size += weightOf(c)
	}
	return size
}

// weightOf returns the size of the texts of a change, in bytes.
func weightOf(c event.Change) (size int) {
	for _, h := range c.Hunks {
		for _, l := range h.Lines {
			size += len(l) + perLine
		}
	}
	for _, e := range c.Edits {
		size += len(e.Old) + len(e.New)
	}
	for _, t := range []*string{c.OldText, c.NewText} {
		if t != nil {
			size += len(*t)
		}
	}
	return size
}

// begin takes the first change of a file.
func (f *file) begin(c event.Change) {
	switch {
	case f.born:
		f.text, f.ends[0] = sheetOf(nil), withNewline
	case c.OldText != nil:
		f.text, f.ends[0] = sheetOf(Split(*c.OldText)), endOf(*c.OldText)
	default:
		f.text = sheetOfUnknown()
	}
	f.ends[1] = f.ends[0]
	f.change(c)
}

// change takes a further change of a file.
func (f *file) change(c event.Change) {
	switch {
	case f.omitted:
	case f.text == nil || !f.combine(c):
		f.keepAside(c)
	}
}

// combine applies a change to the text of f. It returns false if the combined
// change cannot be known.
func (f *file) combine(c event.Change) bool {
	if f.gone {
		f.text.clear()
	}
	f.compare(c)
	switch {
	case c.Kind == event.ChangeDelete:
		return f.text.first.whole // what the hunks of a deletion show is the whole text
	case c.NewText != nil:
		if !f.text.first.whole {
			return false
		}
		f.text.replace(Split(*c.NewText))
		f.ends[1] = endOf(*c.NewText)
		return true
	case len(c.Edits) > 0:
		return f.edit(c.Edits)
	case len(c.Hunks) > 0:
		return f.text.apply(c.Hunks)
	}
	return c.Kind == event.ChangeMove
}

// compare completes the text of f by the text before a change, and reports in f
// whether something else changed the file.
func (f *file) compare(c event.Change) {
	if c.OldText == nil || f.gone || f.text.learn(Split(*c.OldText)) {
		if c.OldText != nil && f.ends[0] == unknownEnd {
			f.ends[0] = endOf(*c.OldText)
		}
		return
	}
	f.outside = true
	if f.text.first.whole { // later hunks refer to this text
		f.text.replace(Split(*c.OldText))
		f.ends[1] = endOf(*c.OldText)
	}
}

// edit replaces parts of the text, which must be known.
func (f *file) edit(edits []event.Edit) bool {
	lines, ok := f.text.lines()
	if !ok {
		return false
	}
	text := join(lines, f.ends[1] != withoutNewline)
	for _, e := range edits {
		if text, ok = replaced(text, e); !ok {
			return false
		}
	}
	f.text.replace(Split(text))
	f.ends[1] = endOf(text)
	return true
}

func join(lines []string, newline bool) string {
	text := strings.Join(lines, "\n")
	if newline && len(lines) > 0 {
		text += "\n"
	}
	return text
}

// replaced returns text after an edit, unless the edit does not apply to it.
func replaced(text string, e event.Edit) (string, bool) {
	switch n := strings.Count(text, e.Old); {
	case e.Old == "" && text == "":
		return e.New, true
	case e.Old == "" || n == 0 || n > 1 && !e.All:
		return "", false
	}
	return strings.ReplaceAll(text, e.Old, e.New), true
}

// keepAside adds a change to the steps of f, after what is combined so far.
func (f *file) keepAside(c event.Change) {
	if f.text != nil {
		if hunks := f.text.hunks(3); len(hunks) > 0 {
			f.steps = append(f.steps, event.Change{Path: f.path, Kind: event.ChangeUpdate, Hunks: hunks})
		}
		f.text = nil
	}
	if len(f.steps) >= maxSteps {
		f.dropped++
		return
	}
	f.steps = append(f.steps, c)
}

func (s *sheet) clear() { s.parts = nil }

// Files returns the combined change of each file, with up to context unchanged
// lines around each difference. It leaves out files that the changes did not
// affect in the end.
func (n *Net) Files(context int) []File {
	out := []File{}
	for _, f := range n.all {
		if one, ok := f.net(context); ok {
			out = append(out, one)
		}
	}
	return out
}

// net returns the combined change, and false if there is none.
func (f *file) net(context int) (File, bool) {
	out := File{Path: f.first, Kind: event.ChangeUpdate, Hunks: []event.Hunk{}, Steps: f.steps, Outside: f.outside, Omitted: f.omitted || f.dropped > 0}
	switch {
	case f.born && f.gone:
		return out, false
	case f.born:
		out.Kind, out.Path = event.ChangeCreate, f.path
	case f.gone:
		out.Kind = event.ChangeDelete
	case f.path != f.first:
		out.Kind, out.MovedTo = event.ChangeMove, f.path
	}
	if f.text != nil {
		if f.gone {
			f.text.clear()
		}
		out.Whole = f.text.first.whole
		out.Hunks = f.text.hunks(context)
		out.Newline = f.newline()
	}
	out.Added, out.Removed = Count(slices.Concat(out.Hunks, hunksOf(f.steps)))
	same := out.Kind == event.ChangeUpdate && f.text != nil && len(out.Hunks) == 0 && out.Newline == ""
	return out, !same
}

func (f *file) newline() Newline {
	switch {
	case f.born || f.gone || f.ends[0] == f.ends[1] || f.ends[0] == unknownEnd || f.ends[1] == unknownEnd:
		return ""
	case f.ends[1] == withNewline:
		return NewlineAdded
	}
	return NewlineRemoved
}

func hunksOf(steps []event.Change) (out []event.Hunk) {
	for _, c := range steps {
		out = append(out, c.Hunks...)
	}
	return out
}

// Count returns the numbers of added and removed lines in hunks.
func Count(hunks []event.Hunk) (added, removed int) {
	for _, h := range hunks {
		for _, l := range h.Lines {
			switch mark, _ := cut(l); mark {
			case '+':
				added++
			case '-':
				removed++
			}
		}
	}
	return added, removed
}

// Cut returns the first n lines of a hunk.
func Cut(h event.Hunk, n int) event.Hunk {
	h.Lines = h.Lines[:n]
	h.OldLines, h.NewLines = 0, 0
	for _, l := range h.Lines {
		mark, _ := cut(l)
		if mark == ' ' || mark == '-' {
			h.OldLines++
		}
		if mark == ' ' || mark == '+' {
			h.NewLines++
		}
	}
	return h
}
