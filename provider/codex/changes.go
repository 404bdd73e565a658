package codex

import (
	"encoding/json"
	"path/filepath"
	"strings"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/translate"
)

// maxFileText bounds the text of one file in a change, in bytes.
const maxFileText = 128 << 10

// maxChanges bounds the files of one patch.
const maxChanges = 1000

// changes converts a patch to the form that is the same for all agents.
func changes(native []fileChange) []event.Change {
	var out []event.Change
	for _, c := range native[:min(len(native), maxChanges)] {
		c.Diff = c.text()
		ch := event.Change{Path: c.Path, Kind: event.ChangeUpdate, Hunks: []event.Hunk{}}
		whole := &c.Diff
		if len(c.Diff) > maxFileText {
			whole = nil
		}
		switch {
		case c.Kind.Type == "add":
			ch.Kind, ch.NewText = event.ChangeCreate, whole
		case c.Kind.Type == "delete":
			ch.Kind, ch.OldText = event.ChangeDelete, whole
		default:
			if c.Kind.Move != "" {
				ch.Kind, ch.MovedTo = event.ChangeMove, c.Kind.Move
			}
			if len(c.Diff) <= 2*maxFileText {
				ch.Hunks = translate.Hunks(c.Diff)
			}
		}
		out = append(out, ch)
	}
	return out
}

// text returns the diff without the note about a move that 0.169.0 appends to
// it (recording patch).
func (c fileChange) text() string {
	return strings.TrimSuffix(c.Diff, "\n\nMoved to: "+c.Kind.Move)
}

func patchKind(cs []fileChange) event.ToolKind {
	kind := event.KindEdit
	for i, c := range cs {
		k := event.KindEdit
		switch {
		case c.Kind.Type == "delete":
			k = event.KindDelete
		case c.Kind.Move != "":
			k = event.KindMove
		}
		if i > 0 && k != kind {
			return event.KindEdit
		}
		kind = k
	}
	return kind
}

func patchTitle(cs []fileChange) string {
	var names []string
	for _, c := range cs[:min(len(cs), 20)] {
		names = append(names, filepath.Base(c.Path))
	}
	return oneLine("Edit "+strings.Join(names, ", "), 200)
}

// patchText returns a line for each file of a patch: A, M or D and the path.
func patchText(cs []fileChange) string {
	var lines []string
	for _, c := range cs[:min(len(cs), maxChanges)] {
		mark := "M "
		switch c.Kind.Type {
		case "add":
			mark = "A "
		case "delete":
			mark = "D "
		}
		line := mark + c.Path
		if c.Kind.Move != "" {
			line += " -> " + c.Kind.Move
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// patchArguments returns the arguments of a patch call. Diffs that exceed
// maxArguments bytes together are empty.
func patchArguments(cs []fileChange) json.RawMessage {
	size := 0
	short := make([]fileChange, 0, min(len(cs), maxChanges))
	for _, c := range cs[:min(len(cs), maxChanges)] {
		c.Diff = c.text()
		if size += len(c.Diff); size > maxArguments {
			c.Diff = ""
		}
		short = append(short, c)
	}
	return translate.Object(map[string]any{"changes": short})
}
