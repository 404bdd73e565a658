package filediff

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/runnel-dev/runnel/event"
)

// A failer is a test, of this package or of rapid.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// patch applies hunks to a text, as a reader of a diff would.
func patch(t failer, text string, hunks []event.Hunk, newline Newline) string {
	t.Helper()
	lines := Split(text)
	var out []string
	at := 0 // lines of the old text that were taken
	for _, h := range hunks {
		start := h.OldStart - 1
		if h.OldLines == 0 {
			start++
		}
		if start < at || start > len(lines) {
			t.Fatalf("hunk %+v begins outside of %q, after line %d", h, text, at)
		}
		out = append(out, lines[at:start]...)
		at = start
		newStart, old, added := len(out)+1, 0, 0
		for _, l := range h.Lines {
			mark, body := l[0], l[1:]
			if mark != '+' {
				if at == len(lines) || lines[at] != body {
					t.Fatalf("hunk %+v does not fit %q at line %d", h, text, at+1)
				}
				at++
				old++
			}
			if mark != '-' {
				out = append(out, body)
				added++
			}
		}
		if added == 0 {
			newStart--
		}
		if old != h.OldLines || added != h.NewLines || newStart != h.NewStart {
			t.Fatalf("hunk %+v: has %d old and %d new lines from new line %d", h, old, added, newStart)
		}
	}
	out = append(out, lines[at:]...)
	ends := endOf(text)
	switch newline {
	case NewlineAdded:
		ends = withNewline
	case NewlineRemoved:
		ends = withoutNewline
	}
	return join(out, ends != withoutNewline)
}

var words = []string{"a", "b", "c", "}", "", "x := 1", "-d", "+e"}

func drawText(t *rapid.T, most int) string {
	lines := rapid.SliceOfN(rapid.SampledFrom(words), 0, most).Draw(t, "lines")
	return join(lines, true)
}

// drawNext draws a text that differs from before in some places.
func drawNext(t *rapid.T, before string) string {
	lines := Split(before)
	for range rapid.IntRange(1, 3).Draw(t, "places") {
		from := rapid.IntRange(0, len(lines)).Draw(t, "from")
		to := rapid.IntRange(from, min(len(lines), from+3)).Draw(t, "to")
		added := rapid.SliceOfN(rapid.SampledFrom(words), 0, 3).Draw(t, "added")
		lines = slices.Concat(lines[:from], added, lines[to:])
	}
	return join(lines, true)
}

func TestHunksLeadFromOneTextToTheOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := drawText(t, 30)
		after := drawNext(t, before)
		if rapid.Bool().Draw(t, "other") {
			after = drawText(t, 30)
		}
		if rapid.Bool().Draw(t, "no newline") {
			after = strings.TrimSuffix(after, "\n")
			if strings.HasSuffix(after, "\n") {
				after += "z"
			}
		}
		context := rapid.IntRange(0, 4).Draw(t, "context")
		hunks := Hunks(before, after, context)
		if got := patch(t, before, hunks, newlineOf(before, after)); got != after {
			t.Fatalf("%q with %+v: got %q, want %q", before, hunks, got, after)
		}
		for i, h := range hunks {
			if i > 0 && h.OldStart <= hunks[i-1].OldStart+hunks[i-1].OldLines-1 {
				t.Fatalf("hunks overlap: %+v", hunks)
			}
			if run := longestRun(h.Lines); run > 2*context {
				t.Fatalf("context %d: %d unchanged lines in one hunk: %+v", context, run, h)
			}
		}
	})
}

func longestRun(lines []string) (most int) {
	n := 0
	for _, l := range lines {
		if l[0] == ' ' {
			n++
		} else {
			n = 0
		}
		most = max(most, n)
	}
	return most
}

// A disk is a set of files, as an agent changes it.
type disk map[string]string

var paths = []string{"/p/a", "/p/b", "/p/c"}

// step makes one change to the disk and returns it in one of the forms in which
// agents report changes.
func (d disk) step(t *rapid.T) event.Change {
	path := rapid.SampledFrom(paths).Draw(t, "path")
	before, exists := d[path]
	if !exists {
		text := drawText(t, 6)
		d[path] = text
		return event.Change{Path: path, Kind: event.ChangeCreate, NewText: &text, Hunks: Hunks("", text, 3)}
	}
	switch rapid.IntRange(0, 7).Draw(t, "kind") {
	case 0:
		delete(d, path)
		return event.Change{Path: path, Kind: event.ChangeDelete, OldText: &before}
	case 1:
		to := rapid.SampledFrom(paths).Draw(t, "to")
		if _, taken := d[to]; taken { // what a move overwrites is not reported
			break
		}
		after := drawNext(t, before)
		delete(d, path)
		d[to] = after
		return event.Change{Path: path, Kind: event.ChangeMove, MovedTo: to, Hunks: Hunks(before, after, rapid.IntRange(0, 3).Draw(t, "context"))}
	case 2:
		line := rapid.SampledFrom(words).Draw(t, "word")
		if n := strings.Count(before, line); line != "" && n > 0 {
			e := event.Edit{Old: line, New: rapid.SampledFrom(words).Draw(t, "new"), All: n > 1}
			d[path] = strings.ReplaceAll(before, e.Old, e.New)
			return event.Change{Path: path, Kind: event.ChangeUpdate, Edits: []event.Edit{e}, Hunks: []event.Hunk{{Lines: []string{"-" + e.Old, "+" + e.New}}}}
		}
	}
	after := drawNext(t, before)
	d[path] = after
	c := event.Change{Path: path, Kind: event.ChangeUpdate, OldText: &before, NewText: &after, Hunks: Hunks(before, after, rapid.IntRange(0, 3).Draw(t, "context"))}
	switch rapid.IntRange(0, 2).Draw(t, "form") {
	case 0:
		if before != after { // a change without texts and hunks says nothing
			c.OldText, c.NewText = nil, nil
		}
	case 1:
		c.Hunks = []event.Hunk{}
	}
	return c
}

// after returns the disk after the combined changes, which happen at once. It
// returns the files whose changes could not be combined.
func (d disk) after(t failer, files []File) (out disk, apart []File) {
	out = maps.Clone(d)
	for _, f := range files {
		if f.Kind != event.ChangeCreate {
			delete(out, f.Path)
		}
	}
	written := make(map[string]bool)
	for _, f := range files {
		before := d[f.Path]
		to := f.Path
		switch f.Kind {
		case event.ChangeCreate:
			before = ""
		case event.ChangeMove:
			to = f.MovedTo
		}
		if len(f.Steps) > 0 {
			apart = append(apart, f)
			continue
		}
		text := patch(t, before, f.Hunks, f.Newline)
		if f.Kind == event.ChangeDelete {
			if text != "" && f.Whole {
				t.Fatalf("%+v leaves %q of the deleted %q", f, text, before)
			}
			continue
		}
		if written[to] {
			t.Fatalf("two files at %s: %+v", to, files)
		}
		out[to], written[to] = text, true
	}
	return out, apart
}

func TestNetChangeLeadsFromFirstTextsToLastOnes(t *testing.T) {
	combined, left := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		d := disk{"/p/a": drawText(t, 12), "/p/b": drawText(t, 12)}
		first := maps.Clone(d)
		net := NewNet("/p")
		var changes []event.Change
		for range rapid.IntRange(1, 8).Draw(t, "changes") {
			c := d.step(t)
			changes = append(changes, c)
			net.Add(c)
		}
		files := net.Files(rapid.IntRange(0, 3).Draw(t, "context"))
		got, apart := first.after(t, files)
		for _, f := range apart {
			to := f.Path
			if f.MovedTo != "" {
				to = f.MovedTo
			}
			got[to] = d[to] // not claimed
			if _, exists := d[to]; !exists {
				delete(got, to)
			}
		}
		combined += len(files) - len(apart)
		left += len(apart)
		if !maps.Equal(got, d) {
			t.Fatalf("first %q\nchanges %+v\nnet %+v\ngot  %q\nwant %q", first, changes, files, got, d)
		}
		for _, f := range files {
			if f.Outside {
				t.Fatalf("nothing else changed %s: %+v", f.Path, changes)
			}
		}
	})
	if combined < 3*left {
		t.Errorf("only %d of %d files have one combined change", combined, combined+left)
	}
}

func TestNetChangeOfWholeTextsIsAlwaysCombined(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawText(t, 12)
		first := text
		net := NewNet("/p")
		for range rapid.IntRange(1, 5).Draw(t, "changes") {
			before := text
			text = drawNext(t, before)
			c := event.Change{Path: "a", Kind: event.ChangeUpdate, OldText: &before, NewText: &text}
			if before != text && rapid.Bool().Draw(t, "hunks only") {
				c = event.Change{Path: "/p/a", Kind: event.ChangeUpdate, Hunks: Hunks(before, text, 1)}
			}
			net.Add(c)
		}
		files := net.Files(3)
		if first == text {
			if len(files) != 0 {
				t.Fatalf("got %+v for a file that is as before", files)
			}
			return
		}
		if len(files) != 1 || len(files[0].Steps) > 0 {
			t.Fatalf("got %+v, want one combined change", files)
		}
		if got := patch(t, first, files[0].Hunks, ""); got != text {
			t.Fatalf("got %q, want %q", got, text)
		}
	})
}

func TestNetKinds(t *testing.T) {
	text := func(s string) *string { return &s }
	write := func(path, from, to string) event.Change {
		return event.Change{Path: path, Kind: event.ChangeUpdate, OldText: text(from), NewText: text(to)}
	}
	create := func(path, to string) event.Change {
		return event.Change{Path: path, Kind: event.ChangeCreate, NewText: text(to)}
	}
	remove := func(path, from string) event.Change {
		return event.Change{Path: path, Kind: event.ChangeDelete, OldText: text(from)}
	}
	move := func(path, to string) event.Change {
		return event.Change{Path: path, Kind: event.ChangeMove, MovedTo: to}
	}
	for name, c := range map[string]struct {
		changes []event.Change
		want    string
	}{
		"create and update":       {[]event.Change{create("a", "1\n"), write("a", "1\n", "1\n2\n")}, "create /p/a +2 -0"},
		"create and delete":       {[]event.Change{create("a", "1\n"), remove("a", "1\n")}, ""},
		"delete and create":       {[]event.Change{remove("a", "1\n2\n"), create("a", "1\n3\n")}, "update /p/a +1 -1"},
		"there and back":          {[]event.Change{write("a", "1\n", "2\n"), write("a", "2\n", "1\n")}, ""},
		"two paths of one file":   {[]event.Change{write("a", "1\n", "2\n"), write("/p/x/../a", "2\n", "3\n")}, "update /p/a +1 -1"},
		"move and update":         {[]event.Change{move("a", "b"), write("b", "1\n", "2\n")}, "move /p/a → /p/b +1 -1"},
		"move and back":           {[]event.Change{move("a", "b"), move("b", "a")}, ""},
		"create and move":         {[]event.Change{create("a", "1\n"), move("a", "b")}, "create /p/b +1 -0"},
		"move and delete":         {[]event.Change{write("a", "1\n", "2\n"), move("a", "b"), remove("b", "2\n")}, "delete /p/a +0 -1"},
		"move over another":       {[]event.Change{write("b", "1\n", "2\n"), move("a", "b")}, "delete /p/b +0 -1, move /p/a → /p/b +0 -0"},
		"empty file":              {[]event.Change{create("a", "")}, "create /p/a +0 -0"},
		"only the last newline":   {[]event.Change{write("a", "1\n", "1")}, "update /p/a +0 -0 newline removed"},
		"unknown content":         {[]event.Change{{Path: "a", Kind: event.ChangeCreate}}, "create /p/a +0 -0 1 steps"},
		"written without the old": {[]event.Change{{Path: "a", Kind: event.ChangeUpdate, NewText: text("1\n")}}, "update /p/a +0 -0 1 steps"},
		"changed outside":         {[]event.Change{write("a", "1\n", "2\n"), write("a", "2\n9\n", "3\n9\n")}, "update /p/a +2 -1 outside"},
		"an edit of unknown text": {[]event.Change{
			{Path: "a", Kind: event.ChangeUpdate, Hunks: []event.Hunk{{OldStart: 4, OldLines: 1, NewStart: 4, NewLines: 1, Lines: []string{"-x", "+y"}}}},
			{Path: "a", Kind: event.ChangeUpdate, Edits: []event.Edit{{Old: "y", New: "z"}}, Hunks: []event.Hunk{{OldLines: 1, NewLines: 1, Lines: []string{"-y", "+z"}}}},
		}, "update /p/a +2 -2 2 steps"},
	} {
		net := NewNet("/p")
		for _, ch := range c.changes {
			net.Add(ch)
		}
		var got []string
		for _, f := range net.Files(3) {
			s := fmt.Sprintf("%s %s", f.Kind, f.Path)
			if f.MovedTo != "" {
				s += " → " + f.MovedTo
			}
			s += fmt.Sprintf(" +%d -%d", f.Added, f.Removed)
			if f.Newline != "" {
				s += " newline " + string(f.Newline)
			}
			if len(f.Steps) > 0 {
				s += fmt.Sprintf(" %d steps", len(f.Steps))
			}
			if f.Outside {
				s += " outside"
			}
			got = append(got, s)
		}
		if all := strings.Join(got, ", "); all != c.want {
			t.Errorf("%s: got %q, want %q", name, all, c.want)
		}
	}
}

// Hunks of distant places combine although most of the file is unknown.
func TestNetOfHunksOfAnUnknownFile(t *testing.T) {
	hunk := func(at int, lines ...string) event.Hunk {
		h := event.Hunk{OldStart: at, NewStart: at, Lines: lines}
		for _, l := range lines {
			if l[0] != '+' {
				h.OldLines++
			}
			if l[0] != '-' {
				h.NewLines++
			}
		}
		return h
	}
	net := NewNet("/p")
	for _, h := range []event.Hunk{
		hunk(100, " a", "-b", "+B", "+B2", " c"),
		hunk(10, " x", "-y"),
		hunk(99, " a", "-B", "+b", " B2"), // the first hunk's lines moved up by one
	} {
		net.Add(event.Change{Path: "a", Kind: event.ChangeUpdate, Hunks: []event.Hunk{h}})
	}
	files := net.Files(3)
	if len(files) != 1 || len(files[0].Steps) > 0 || files[0].Whole {
		t.Fatalf("got %+v", files)
	}
	want := []event.Hunk{
		{OldStart: 10, OldLines: 2, NewStart: 10, NewLines: 1, Lines: []string{" x", "-y"}},
		{OldStart: 100, OldLines: 3, NewStart: 99, NewLines: 4, Lines: []string{" a", " b", "+B2", " c"}},
	}
	if fmt.Sprint(files[0].Hunks) != fmt.Sprint(want) {
		t.Errorf("got  %+v\nwant %+v", files[0].Hunks, want)
	}
}

func TestNetIsBounded(t *testing.T) {
	net := NewNet("/p")
	big := strings.Repeat("a long line", 100_000)
	for i := range maxFiles + 10 {
		net.Add(event.Change{Path: fmt.Sprint("f", i), Kind: event.ChangeCreate, NewText: &big})
	}
	for range maxSteps + 10 {
		net.Add(event.Change{Path: "f0", Kind: event.ChangeUpdate, Edits: []event.Edit{{Old: "none", New: "x"}}})
	}
	files := net.Files(3)
	if len(files) != maxFiles || net.More() != 10 || net.held > maxHeld {
		t.Errorf("%d files, %d more, %d bytes", len(files), net.More(), net.held)
	}
	if !files[maxFiles-1].Omitted || len(files[0].Steps) > maxSteps || !files[0].Omitted {
		t.Errorf("the last file has %d hunks, the first one %d steps", len(files[maxFiles-1].Hunks), len(files[0].Steps))
	}
}

// An agent chooses how many lines its changes have.
func TestNetTakesManyLinesAtOnce(t *testing.T) {
	var lines []string
	for i := range 100_000 {
		lines = append(lines, "-", fmt.Sprint("+", i%7))
	}
	net := NewNet("/p")
	for range 3 {
		net.Add(event.Change{Path: "a", Kind: event.ChangeUpdate, Hunks: []event.Hunk{{OldStart: 1, OldLines: 100_000, NewStart: 1, NewLines: 100_000, Lines: lines}}})
	}
	if files := net.Files(3); len(files) != 1 {
		t.Errorf("got %d files", len(files))
	}
}
