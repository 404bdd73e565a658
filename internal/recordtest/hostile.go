package recordtest

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// content lists the event fields whose bound is event.MaxText, event.MaxOutput
// or the length of the agent's line.
var content = []string{"content", "deltaContent", "initialContent", "arguments", "updatedArguments", "output", "oldText", "newText", "lines", "detail"}

// TooLong returns the names of the fields in a JSON value whose strings exceed
// event.MaxNote bytes. It ignores the fields in content.
func TooLong(t testing.TB, encoded []byte) []string {
	t.Helper()
	var v any
	if err := json.Unmarshal(encoded, &v); err != nil {
		t.Fatal(err)
	}
	return tooLong("", v)
}

func tooLong(name string, v any) (found []string) {
	switch v := v.(type) {
	case string:
		if len(v) > event.MaxNote {
			found = append(found, name)
		}
	case []any:
		for _, e := range v {
			found = append(found, tooLong(name, e)...)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if !slices.Contains(content, k) {
				found = append(found, tooLong(k, v[k])...)
			}
		}
	}
	return found
}

// Hostile replays a recording once for each string in the agent's lines, grown
// to size bytes, and loads the result into a gateway. It fails the test if a
// field of an event or of the gateway's catalogue exceeds its bound. If fields
// is not empty, only strings whose path ends in one of fields are grown.
// Hostile also fails the test if there are fewer than least such strings. With
// -short, size is at most 64 KiB.
func Hostile(t *testing.T, p runnel.Provider, in []byte, size, least int, fields ...string) {
	t.Helper()
	lines := All(t, in)
	if testing.Short() {
		size = min(size, 64<<10)
	}
	grown := strings.Repeat("x", size)
	paths := make(map[string]bool)
	for _, l := range lines {
		if l.Dir == runnel.DirOut {
			rewrite(l.Text, func(path, value string) string { paths[path] = true; return value })
		}
	}
	if len(fields) > 0 {
		maps.DeleteFunc(paths, func(path string, _ bool) bool {
			return !slices.Contains(fields, path[strings.LastIndexByte(path, '.')+1:])
		})
	}
	if len(paths) < least {
		t.Errorf("only %d strings: %q", len(paths), slices.Sorted(maps.Keys(paths)))
	}
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		hostile := slices.Clone(lines)
		for i, l := range lines {
			if l.Dir == runnel.DirOut {
				hostile[i].Text = rewrite(l.Text, func(at, value string) string {
					if at == path {
						return grown
					}
					return value
				})
			}
		}
		evs := Events(t, p.(runnel.Translator), hostile)
		for _, logged := range [][]event.Event{replay(t, p, evs), LoadedEvents(t, p.Name(), evs)} {
			for _, ev := range logged {
				text, err := json.Marshal(ev)
				if err != nil {
					t.Fatal(err)
				}
				if found := TooLong(t, text); len(found) > 0 {
					t.Errorf("%s is too long: %s has %q", path, event.Type(ev.Body), found)
				}
			}
		}
	}
}

// rewrite returns a line of JSON with every string replaced by the result of
// change. A path consists of the keys that lead to a string; elements of a list
// have the list's path. rewrite returns a line that is not JSON unchanged.
func rewrite(line []byte, change func(path, value string) string) []byte {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return line
	}
	out, err := json.Marshal(rewritten("", v, change))
	if err != nil {
		return line
	}
	return out
}

func rewritten(path string, v any, change func(path, value string) string) any {
	switch v := v.(type) {
	case string:
		return change(path, v)
	case []any:
		for i := range v {
			v[i] = rewritten(path, v[i], change)
		}
	case map[string]any:
		for k := range v {
			v[k] = rewritten(path+"."+k, v[k], change)
		}
	}
	return v
}

// Deepened returns lines in which the parameters of every message of the agent
// have one more member, which is nested deeper than JSON decoders accept.
func Deepened(lines []runnel.Line) []runnel.Line {
	const levels = 20_000
	params := []byte(`"params":{`)
	deeper := slices.Concat(params, []byte(`"deeper":`), bytes.Repeat([]byte{'['}, levels), bytes.Repeat([]byte{']'}, levels), []byte{','})
	deep := slices.Clone(lines)
	for i, l := range deep {
		if l.Dir == runnel.DirOut && !bytes.Contains(l.Text, []byte(`"params":{}`)) {
			deep[i].Text = bytes.Replace(l.Text, params, deeper, 1)
		}
	}
	return deep
}
