package loadtest

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/recordtest"
)

// Hostile replays a recording once for each string in the agent's lines, grown
// to size bytes, and loads the result into a gateway. It fails the test if a
// field of an event or of the gateway's catalogue exceeds its bound. If fields
// is not empty, only strings whose path ends in one of fields are grown.
// Hostile also fails the test if there are fewer than least such strings. With
// -short, size is at most 64 KiB.
func Hostile(t *testing.T, p runnel.Provider, in []byte, size, least int, fields ...string) {
	t.Helper()
	lines := recordtest.All(t, in)
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
		evs := recordtest.Events(t, p.(runnel.Translator), hostile)
		for _, logged := range [][]event.Event{recordtest.Replayed(t, p, hostile), Events(t, p.Name(), evs)} {
			for _, ev := range logged {
				text, err := json.Marshal(ev)
				if err != nil {
					t.Fatal(err)
				}
				if found := recordtest.TooLong(t, text); len(found) > 0 {
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
