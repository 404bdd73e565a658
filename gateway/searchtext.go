package gateway

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/termtext"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/store"
)

// maxSearched is the size of a text that the search index has of one item, in
// bytes. Of a longer output it has the beginning and the end.
const maxSearched = 64 << 10

// searchItems returns the parts of an event that can be searched. Prompts,
// answers, tool calls with their outputs and changes to files can be searched.
func searchItems(ev event.Event) []store.SearchItem {
	done, ok := ev.Body.(event.ItemDone)
	if !ok {
		return nil
	}
	var items []store.SearchItem
	add := func(item string, kind store.SearchKind, content string) {
		content = strings.TrimSpace(termtext.Clean(content))
		content, _ = text.Cut(content, maxSearched)
		if content != "" {
			items = append(items, store.SearchItem{Item: item, Turn: ev.Turn, Seq: ev.Seq, Kind: kind, At: ev.At, Text: content})
		}
	}
	switch f := done.FinalItem.(type) {
	case event.Message:
		switch f.Origin {
		case event.OriginUser:
			add(done.ItemID, store.SearchPrompt, promptText(f))
		case event.OriginAgent:
			add(done.ItemID, store.SearchAnswer, f.Content)
		}
	case event.FunctionCall:
		add(done.ItemID, store.SearchCommand, callText(f))
	case event.FunctionCallOutput:
		call, _ := strings.CutSuffix(done.ItemID, ":output") // clients show the output with its call
		add(call, store.SearchCommand, ends(f.Output))
		add(call, store.SearchDiff, changesText(f.Changes))
	}
	return items
}

// promptText returns the text of a prompt and the names of its files.
func promptText(m event.Message) string {
	var b strings.Builder
	b.WriteString(m.Content)
	for _, a := range m.Attachments {
		b.WriteString("\n" + a.Name)
	}
	return b.String()
}

// callText returns the name of a tool and the strings in its arguments. It
// leaves out the new content of files, which is in the changes of the output.
func callText(f event.FunctionCall) string {
	var b strings.Builder
	b.WriteString(f.Name)
	if f.Title != "" && f.Title != f.Name {
		b.WriteString("\n" + f.Title)
	}
	if f.Kind == event.KindEdit {
		for _, at := range f.Locations {
			b.WriteString("\n" + at.Path)
		}
		return b.String()
	}
	var arguments any
	if json.Unmarshal(f.Arguments, &arguments) == nil {
		writeStrings(&b, arguments)
	}
	return b.String()
}

// writeStrings writes the strings in a JSON value, without the keys of objects.
func writeStrings(b *strings.Builder, v any) {
	switch v := v.(type) {
	case string:
		b.WriteString("\n" + v)
	case []any:
		for _, e := range v {
			writeStrings(b, e)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			writeStrings(b, v[key])
		}
	}
}

// changesText returns the paths and the changed lines of changes to files.
func changesText(changes []event.Change) string {
	var b strings.Builder
	for _, c := range changes {
		b.WriteString(c.Path + "\n")
		if c.MovedTo != "" {
			b.WriteString(c.MovedTo + "\n")
		}
		for _, h := range c.Hunks {
			for _, line := range h.Lines {
				if !strings.HasPrefix(line, " ") {
					b.WriteString(line + "\n")
				}
			}
		}
		if len(c.Hunks) == 0 && c.NewText != nil {
			b.WriteString(*c.NewText + "\n")
		}
		if b.Len() > maxSearched {
			break
		}
	}
	return b.String()
}

// ends returns the beginning and the end of a long text.
func ends(s string) string {
	if len(s) <= maxSearched {
		return s
	}
	const gap = "\n…\n"
	head, _ := text.Cut(s, maxSearched/2)
	return head + gap + strings.ToValidUTF8(s[len(s)-maxSearched/2+len(gap)+4:], "")
}
