package acp

import (
	"strings"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/translate"
)

// maxFileText is the maximum size of each text of a change, in bytes.
const maxFileText = 128 << 10

// maxChanges is the maximum number of changes of a call.
const maxChanges = 200

// changesOf returns the file changes of a call.
func changesOf(c *call, q *quirks) []event.Change {
	out := changes(c.content, q.live.wholeFiles)
	if len(out) == 0 && q.live.changes != nil {
		out = q.live.changes(c)
	}
	return out
}

// changes returns the file changes in the diffs of a call. whole means that
// the texts of a diff are whole files, not only the changed part.
func changes(content []toolContent, whole bool) []event.Change {
	var out []event.Change
	for _, c := range content {
		if c.Type != "diff" || len(out) >= maxChanges {
			continue
		}
		if c.Patch.Text != "" {
			out = append(out, patched(c)...)
		} else if c.Path != "" && c.NewText != nil {
			out = append(out, replaced(c, whole))
		}
	}
	return out
}

// replaced returns the change for a diff with an old and a new text.
func replaced(c toolContent, whole bool) event.Change {
	ch := event.Change{Path: c.Path, Kind: event.ChangeUpdate, Hunks: []event.Hunk{}}
	old := ""
	switch {
	case c.OldText == nil || c.Meta.Kind == "add":
		ch.Kind = event.ChangeCreate
	default:
		old = *c.OldText
	}
	if c.Meta.Kind == "delete" {
		ch.Kind = event.ChangeDelete
	}
	if whole || ch.Kind == event.ChangeCreate {
		if c.OldText != nil && ch.Kind != event.ChangeCreate && len(old) <= maxFileText {
			ch.OldText = &old
		}
		if len(*c.NewText) <= maxFileText && ch.Kind != event.ChangeDelete {
			ch.NewText = c.NewText
		}
	}
	if len(old)+len(*c.NewText) <= 2*maxFileText {
		ch.Hunks = hunk(old, *c.NewText, whole)
		if old != "" && !whole && ch.Kind == event.ChangeUpdate {
			ch.Edits = []event.Edit{{Old: old, New: *c.NewText}}
		}
	}
	return ch
}

// around is the maximum number of unchanged lines before and after the changed
// lines of a hunk.
const around = 3

// hunk returns the difference between two texts as one hunk, or no hunk if they
// are equal. whole means that the texts are whole files, so that line numbers
// are known.
func hunk(before, after string, whole bool) []event.Hunk {
	a, b := splitLines(before), splitLines(after)
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	if head == len(a) && head == len(b) {
		return []event.Hunk{}
	}
	from := max(0, head-around)
	more := min(tail, around)
	h := event.Hunk{OldLines: len(a) - tail + more - from, NewLines: len(b) - tail + more - from}
	if whole || before == "" {
		h.OldStart, h.NewStart = from+1, from+1
	}
	if h.OldLines == 0 {
		h.OldStart = 0
	}
	add := func(mark string, lines []string) {
		for _, l := range lines {
			h.Lines = append(h.Lines, mark+l)
		}
	}
	add(" ", a[from:head])
	add("-", a[head:len(a)-tail])
	add("+", b[head:len(b)-tail])
	add(" ", a[len(a)-tail:len(a)-tail+more])
	return []event.Hunk{h}
}

func splitLines(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		out = append(out, strings.TrimSuffix(line, "\n"))
	}
	return out
}

// patched returns the changes of a diff with a patch in git's format.
func patched(c toolContent) []event.Change {
	if len(c.Changes) == 0 || len(c.Patch.Text) > 2*maxFileText {
		return nil
	}
	var out []event.Change
	hunks := patchHunks(c.Patch.Text)
	for i, file := range c.Changes {
		if file.Path == "" {
			continue
		}
		ch := event.Change{Path: file.Path, Kind: event.ChangeUpdate, Hunks: []event.Hunk{}}
		switch file.Operation {
		case "add", "create":
			ch.Kind = event.ChangeCreate
		case "delete", "remove":
			ch.Kind = event.ChangeDelete
		case "move", "rename":
			ch.Kind = event.ChangeMove
			if file.OldPath != "" {
				ch.Path, ch.MovedTo = file.OldPath, file.Path
			}
		}
		if i < len(hunks) && len(hunks[i]) > 0 {
			ch.Hunks = hunks[i]
		}
		if ch.Kind == event.ChangeCreate {
			ch.NewText = created(ch.Hunks)
		}
		out = append(out, ch)
	}
	return out
}

// patchHunks returns the hunks of each file in a patch.
func patchHunks(patch string) [][]event.Hunk {
	var files [][]event.Hunk
	for i, part := range strings.Split("\n"+patch, "\ndiff --git ") {
		if hunks := translate.Hunks(part); i > 0 || len(hunks) > 0 {
			files = append(files, hunks)
		}
	}
	return files
}

// created returns the text of a new file from the hunks that add it.
func created(hunks []event.Hunk) *string {
	var b strings.Builder
	for _, h := range hunks {
		for _, l := range h.Lines {
			b.WriteString(strings.TrimPrefix(l, "+"))
			b.WriteByte('\n')
		}
	}
	text := b.String()
	return &text
}
