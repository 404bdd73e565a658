package extract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// facts is what a recording shows to people. The readers of raw lines and the
// reader of events fill one each.
type facts struct {
	texts    []string          // of the agent
	thoughts []string          // its reasoning
	calls    map[string]string // arguments by call id, as canonical JSON
	outputs  map[string]output // by call id
	cut      map[string]string // what was shown of an output that did not end in its turn
	ends     []string          // a turn each: completed, cancelled or error
	usage    map[string]string // input/output tokens by turn, numbered from 0
}

type output struct {
	text   string
	failed bool
}

// whatever stands for arguments and outputs that have no native field of their
// own.
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

// end notes how a turn ended, and the tokens that it used, if they are known.
func (f *facts) end(status string, in, out int64) {
	if in+out > 0 {
		f.usage[fmt.Sprint("turn ", len(f.ends))] = fmt.Sprintf("%d/%d", in, out)
	}
	f.ends = append(f.ends, status)
}

// canonical returns JSON with sorted keys and without blanks.
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

// differences returns where two readers disagree, a line each.
func differences(raw, got *facts) (diffs []string) {
	say := func(format string, args ...any) { diffs = append(diffs, fmt.Sprintf(format, args...)) }
	asSet(say, "text", raw.texts, got.texts)
	asSet(say, "reasoning", raw.thoughts, got.thoughts)
	byID(say, "call", raw.calls, got.calls, func(v string) bool { return v == whatever })
	for id, cut := range got.cut { // the turn ended first: the rest came too late
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

// asSet compares texts without regard to order, which parallel work changes.
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
