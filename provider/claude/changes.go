package claude

import (
	"encoding/json"
	"strings"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/translate"
)

// patchRecord is what Write and Edit record of a change.
type patchRecord struct {
	Type            string       `json:"type"` // of Write: create or update
	FilePath        string       `json:"filePath"`
	Content         *string      `json:"content"`      // Write: the new file
	OldString       *string      `json:"oldString"`    // Edit
	NewString       string       `json:"newString"`    // Edit
	ReplaceAll      bool         `json:"replaceAll"`   // Edit
	OriginalFile    *string      `json:"originalFile"` // nil: there was none
	StructuredPatch []event.Hunk `json:"structuredPatch"`
}

// changeInput are the arguments of file tools that describe the change.
type changeInput struct {
	FilePath   string  `json:"file_path"`
	Content    *string `json:"content"`    // Write
	OldString  *string `json:"old_string"` // Edit
	NewString  string  `json:"new_string"` // Edit
	ReplaceAll bool    `json:"replace_all"`
}

// maxFileText bounds the old and the new text of a file in a change, in bytes
// each. Of larger files there are only the hunks.
const maxFileText = 128 << 10

// changes returns what a finished call did to files: from the agent's record of
// it, or from the arguments of a subagent's call, which has no record.
func changes(c *call, record json.RawMessage, failed bool) []event.Change {
	if failed || toolKind(c.name) != event.KindEdit {
		return nil
	}
	r := translate.Loose[patchRecord](record)
	if r.FilePath == "" {
		return intended(c.input)
	}
	ch := event.Change{Path: r.FilePath, Kind: event.ChangeUpdate, Hunks: r.StructuredPatch, OldText: r.OriginalFile}
	switch {
	case r.Content != nil:
		ch.NewText = r.Content
	case r.OldString != nil:
		ch.NewText = edited(r)
	}
	if r.Type == "create" || r.OriginalFile == nil {
		ch.Kind = event.ChangeCreate
	}
	return []event.Change{bounded(ch)}
}

// edited returns the text of a file after an Edit: the record has only the text
// before it.
func edited(r patchRecord) *string {
	before := ""
	if r.OriginalFile != nil {
		before = *r.OriginalFile
	}
	var after string
	switch {
	case *r.OldString == "":
		after = r.NewString
	case !strings.Contains(before, *r.OldString):
		return nil // the agent matched it loosely, such as other quotation marks
	case r.ReplaceAll:
		after = strings.ReplaceAll(before, *r.OldString, r.NewString)
	default:
		after = strings.Replace(before, *r.OldString, r.NewString, 1)
	}
	return &after
}

// intended returns what a call would change by its arguments. They do not have
// the place of an edit in the file, so its hunk starts at line 0.
func intended(input json.RawMessage) []event.Change {
	in := translate.Loose[changeInput](input)
	if in.FilePath == "" {
		return nil
	}
	ch := event.Change{Path: in.FilePath, Kind: event.ChangeUpdate, NewText: in.Content, Hunks: []event.Hunk{}}
	if in.OldString != nil {
		removed, added := lines(*in.OldString, "-"), lines(in.NewString, "+")
		ch.Hunks = append(ch.Hunks, event.Hunk{
			OldLines: len(removed), NewLines: len(added), Lines: append(removed, added...),
		})
	} else if in.Content == nil {
		return nil
	}
	return []event.Change{bounded(ch)}
}

// lines returns the lines of a text, each with a mark before it.
func lines(text, mark string) []string {
	if text == "" {
		return nil
	}
	var out []string
	for line := range strings.Lines(text) {
		out = append(out, mark+strings.TrimSuffix(line, "\n"))
	}
	return out
}

// bounded leaves out texts and hunks that are too large.
func bounded(ch event.Change) event.Change {
	if ch.Hunks == nil {
		ch.Hunks = []event.Hunk{}
	}
	if ch.OldText != nil && len(*ch.OldText) > maxFileText {
		ch.OldText = nil
	}
	if ch.NewText != nil && len(*ch.NewText) > maxFileText {
		ch.NewText = nil
	}
	size := 0
	for _, h := range ch.Hunks {
		for _, l := range h.Lines {
			size += len(l)
		}
	}
	if size > 2*maxFileText {
		ch.Hunks = []event.Hunk{}
	}
	return ch
}
