package extract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// facts is the content of a recording that people see. The readers of raw lines
// and the reader of events each produce one.
type facts struct {
	texts    []string          // texts of the agent
	thoughts []string          // reasoning of the agent
	calls    map[string]string // arguments by call id, as canonical JSON
	outputs  map[string]output // by call id
	cut      map[string]string // part of an output that was shown, if the output did not end in its turn
	ends     []string          // for each turn: completed, cancelled or error
	usage    map[string]string // input/output tokens by turn, numbered from 0
}

type output struct {
	text   string
	failed bool
}

// whatever matches any arguments or output. A reader uses it if the raw lines
// have no field for them.
const whatever = "*"

func newFacts() *facts {
	return &facts{
		calls: map[string]string{}, outputs: map[string]output{}, cut: map[string]string{}, usage: map[string]string{},
	}
}

func (f *facts) text(s string) {
	if strings.TrimSpace(s) != "" {
		f.texts = append(f.texts, s)
	}
}

func (f *facts) thought(s string) {
	if strings.TrimSpace(s) != "" {
		f.thoughts = append(f.thoughts, strings.TrimSpace(s))
	}
}

// end records how a turn ended and its usage, if known.
func (f *facts) end(status string, in, out int64) {
	if in+out > 0 {
		f.usage[fmt.Sprint("turn ", len(f.ends))] = fmt.Sprintf("%d/%d", in, out)
	}
	f.ends = append(f.ends, status)
}

// canonical returns JSON with sorted keys and without white space.
func canonical(raw []byte) string {
	if len(bytes.TrimSpace(raw)) == 0 {
		return ""
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return string(raw)
	}
	b, _ := json.Marshal(v)
	return string(b)
}

// differences returns the differences between two facts, one text for each.
func differences(raw, got *facts) (diffs []string) {
	say := func(format string, args ...any) { diffs = append(diffs, fmt.Sprintf(format, args...)) }
	asSet(say, "text", raw.texts, got.texts)
	asSet(say, "reasoning", raw.thoughts, got.thoughts)
	byID(say, "call", raw.calls, got.calls, func(v string) bool { return v == whatever })
	for id, cut := range got.cut { // the turn ended first, so the events lack the rest of the output
		if o, ok := raw.outputs[id]; ok && strings.HasPrefix(o.text, cut) {
			got.outputs[id] = o
		}
	}
	byID(say, "output", raw.outputs, got.outputs, func(v output) bool { return v.text == whatever })
	if !slices.Equal(raw.ends, got.ends) {
		say("ends: raw %v, events %v", raw.ends, got.ends)
	}
	byID(say, "usage", raw.usage, got.usage, func(string) bool { return false })
	return diffs
}

// asSet compares texts regardless of their order, which differs when work runs
// in parallel.
func asSet(say func(string, ...any), what string, raw, got []string) {
	count := map[string]int{}
	for _, s := range raw {
		count[s]++
	}
	for _, s := range got {
		count[s]--
	}
	for _, s := range slices.Sorted(maps.Keys(count)) {
		switch n := count[s]; {
		case n > 0:
			say("%s missing %d times: %.300q", what, n, s)
		case n < 0:
			say("%s that the agent did not write, %d times: %.300q", what, -n, s)
		}
	}
}

func byID[V comparable](say func(string, ...any), what string, raw, got map[string]V, matchesAll func(V) bool) {
	for _, id := range slices.Sorted(maps.Keys(raw)) {
		if v, ok := got[id]; !ok {
			say("%s %s missing: %.300q", what, id, fmt.Sprint(raw[id]))
		} else if v != raw[id] && !matchesAll(raw[id]) {
			say("%s %s: raw %.300q, events %.300q", what, id, fmt.Sprint(raw[id]), fmt.Sprint(v))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(got)) {
		if _, ok := raw[id]; !ok {
			say("%s %s that the agent did not report: %.300q", what, id, fmt.Sprint(got[id]))
		}
	}
}
