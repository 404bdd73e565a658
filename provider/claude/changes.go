package claude

import (
	"encoding/json"
	"strings"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/translate"
)

// patchRecord is the structured record of a change by Write or Edit.
type patchRecord struct {
	Type            string       `json:"type"` // of Write: create or update
	FilePath        string       `json:"filePath"`
	Content         *string      `json:"content"`      // Write: the new file
	OldString       *string      `json:"oldString"`    // Edit
	NewString       string       `json:"newString"`    // Edit
	ReplaceAll      bool         `json:"replaceAll"`   // Edit
	OriginalFile    *string      `json:"originalFile"` // nil: the file did not exist
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
// each. A change omits a larger text and keeps the hunks.
const maxFileText = 128 << 10

// changes returns the file changes of a finished call. It uses the agent's
// record of the call. A subagent's call has no record; its changes come from
// the arguments.
func changes(c *call, record json.RawMessage, failed bool) []event.Change {
	if failed || toolKind(c.name) != event.KindEdit {
		return nil
	}
	r := translate.DecodeLenient[patchRecord](record)
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

// edited returns the text of a file after an Edit, since the record has only
// the text before. It returns nil if the text cannot be computed.
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
		return nil // the agent matched inexactly, for example ignoring the kind of quotation marks
	case r.ReplaceAll:
		after = strings.ReplaceAll(before, *r.OldString, r.NewString)
	default:
		after = strings.Replace(before, *r.OldString, r.NewString, 1)
	}
	return &after
}

// intended returns the change that a call's arguments describe. They do not
// have the line number of an edit, so its hunk starts at line 0.
func intended(input json.RawMessage) []event.Change {
	in := translate.DecodeLenient[changeInput](input)
	if in.FilePath == "" {
		return nil
	}
	ch := event.Change{Path: in.FilePath, Kind: event.ChangeUpdate, NewText: in.Content, Hunks: []event.Hunk{}}
	if in.OldString != nil {
		removed, added := lines(*in.OldString, "-"), lines(in.NewString, "+")
		ch.Hunks = append(ch.Hunks, event.Hunk{
			OldLines: len(removed), NewLines: len(added), Lines: append(removed, added...),
		})
		ch.Edits = []event.Edit{{Old: *in.OldString, New: in.NewString, All: in.ReplaceAll}}
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

// bounded removes texts and hunks that are too large.
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
		ch.Hunks, ch.Edits = []event.Hunk{}, nil
	}
	return ch
}
