package providertest

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/event"
)

// Parity compares the events of live conversations with those from the agent's
// own history, for all recordings of one agent. Each difference must have a row
// in [Differences].
type Parity struct {
	agent string
	seen  []shown
}

// shown is a recording with the names of its differing facts.
type shown struct {
	recording, version string
	facts              []string
}

// NewParity returns an empty comparison. agent is the name of the provider.
func NewParity(agent string) *Parity { return &Parity{agent: agent} }

// Compare compares the live events of one recording with the stored ones. path
// ends with name@version.txtar. Every difference without a row in [Differences]
// fails the test.
func (p *Parity) Compare(t *testing.T, path string, live, stored []event.Event) {
	t.Helper()
	recording, version, _ := strings.Cut(strings.TrimSuffix(filepath.Base(path), ".txtar"), "@")
	s := shown{recording: recording, version: version}
	for _, d := range differ(readFacts(live), readFacts(stored)) {
		s.facts = append(s.facts, d.fact)
		if !slices.ContainsFunc(Differences, func(row Difference) bool { return row.covers(p.agent, s, d.fact) }) {
			t.Errorf("%s: %s\n\tlive:   %.600s\n\tstored: %.600s", p.agent, d.fact, d.live, d.stored)
		}
	}
	p.seen = append(p.seen, s)
}

// Unused fails the test for every row of the agent that no recording needs.
// Every recording that a row applies to must show the difference, if the row
// names its recording. Call Unused after all calls of Compare. It does nothing
// if -run selects sub-tests.
func (p *Parity) Unused(t *testing.T) {
	t.Helper()
	if strings.Contains(flag.Lookup("test.run").Value.String(), "/") {
		return
	}
	for _, row := range Differences {
		if row.Agent != p.agent {
			continue
		}
		used := false
		for _, s := range p.seen {
			needs := slices.ContainsFunc(s.facts, func(fact string) bool { return row.covers(p.agent, s, fact) })
			used = used || needs
			if !needs && row.Recording != "*" && row.appliesTo(p.agent, s) {
				t.Errorf("unused row: %s@%s does not show %q any more; remove the row, or name the versions that do", s.recording, s.version, row.Fact)
			}
		}
		if !used {
			t.Errorf("unused row: no recording of %s shows %q (%s@%s)", row.Agent, row.Fact, row.Recording, row.Version)
		}
	}
}

// appliesTo reports whether the row applies to a recording.
func (row Difference) appliesTo(agent string, s shown) bool {
	return row.Agent == agent && (row.Version == "" || row.Version == s.version) && (row.Recording == "*" || row.Recording == s.recording)
}

func (row Difference) covers(agent string, s shown, fact string) bool {
	return row.appliesTo(agent, s) && matches(row.Fact, fact)
}

// matches reports whether a fact matches a pattern. In a pattern, * matches any
// text.
func matches(pattern, fact string) bool {
	parts := strings.Split(pattern, "*")
	rest, ok := strings.CutPrefix(fact, parts[0])
	for i, part := range parts[1:] {
		if !ok {
			return false
		}
		if i == len(parts)-2 {
			return strings.HasSuffix(rest, part)
		}
		_, rest, ok = strings.Cut(rest, part)
	}
	return ok && rest == ""
}

// facts holds the facts of a conversation by turn id and by name, such as "item
// 1:0" and "end". The facts of the session have the turn id "".
type facts struct {
	turns []string // ids, in the order of their starts
	of    map[string]map[string]any
	items map[string][]string // names of each turn's items, in order
}

func (f *facts) set(turn, name string, value any) {
	if f.of[turn] == nil {
		f.of[turn] = make(map[string]any)
		if turn != "" {
			f.turns = append(f.turns, turn)
		}
	}
	f.of[turn][name] = value
}

// list appends a value to a fact that is a list.
func (f *facts) list(turn, name string, value any) {
	was, _ := f.of[turn][name].([]any)
	f.set(turn, name, append(was, value))
}

// readFacts folds events into facts.
func readFacts(evs []event.Event) facts {
	f := facts{of: make(map[string]map[string]any), items: make(map[string][]string)}
	var tr event.Transcript
	for _, ev := range evs {
		tr.Apply(ev)
		switch b := ev.Body.(type) {
		case event.ResponseStart:
			f.set(ev.Turn, "model", b.ModelID)
		case event.ResponseDone:
			f.set(ev.Turn, "end", string(b.Status))
			f.set(ev.Turn, "finish reason", b.FinishReason)
			f.set(ev.Turn, "usage", b.Usage)
		case event.ResponseError:
			f.set(ev.Turn, "end", b.Error)
		case event.ApprovalRequested, event.ApprovalResolved:
			f.list(ev.Turn, "approvals", b)
		case event.Notice:
			f.list(ev.Turn, "notice "+b.Code, b.Message)
		case event.UsageUpdated:
			f.used(ev.Turn, b)
		case event.SessionUpdated:
			f.updated(b)
		}
	}
	for _, it := range tr.Items() {
		name := "item " + strings.TrimPrefix(it.ID, it.Turn+":")
		f.set(it.Turn, name, value(it))
		f.items[it.Turn] = append(f.items[it.Turn], name)
	}
	return f
}

func (f *facts) used(turn string, b event.UsageUpdated) {
	if b.ContextTokens > 0 {
		f.set(turn, "context tokens", b.ContextTokens)
	}
	if b.ContextWindow > 0 {
		f.set(turn, "context window", b.ContextWindow)
	}
	if b.CostUSD != nil {
		f.set(turn, "cost", *b.CostUSD)
	}
	if b.RateLimit != nil {
		f.set(turn, "rate limit", *b.RateLimit)
	}
}

// updated sets the facts of the session. Each file is a separate fact.
func (f *facts) updated(b event.SessionUpdated) {
	for _, file := range b.Files {
		f.set("", "file "+file.Kind+" "+filepath.Base(file.Path), file.Path)
	}
	b.Files = nil
	data, err := json.Marshal(b)
	var fields map[string]any
	if err != nil || json.Unmarshal(data, &fields) != nil {
		panic("providertest: an event is not an object")
	}
	for name, v := range fields {
		if name != "type" {
			f.set("", "session "+name, v)
		}
	}
}

// value returns an item as an object, without its times and its position in the
// log.
func value(it event.Item) map[string]any {
	out := map[string]any{
		"type": it.Type, "status": it.Status, "call": it.CallID, "name": it.Name, "parent": it.ParentCallID,
		"fault": it.Fault, "reason": it.Reason, "native": it.Native,
	}
	if it.Final == nil {
		out["content"] = it.Content
		return out
	}
	data, err := json.Marshal(it.Final)
	var final map[string]any
	if err != nil || json.Unmarshal(data, &final) != nil {
		panic("providertest: a final item is not an object")
	}
	for k, v := range final {
		if k != "type" && k != "callId" {
			out[k] = v
		}
	}
	return out
}

// difference is a fact with different values in the live and in the stored
// events.
type difference struct{ fact, live, stored string }

// differ returns the differing facts. It numbers turns by their position in the
// live conversation, and turns that are only stored by their position there.
func differ(live, stored facts) (out []difference) {
	add := func(fact string, l, s any) {
		out = append(out, difference{fact, printed(l), printed(s)})
	}
	compare := func(prefix, turn string) {
		l, s := live.of[turn], stored.of[turn]
		for _, name := range slices.Sorted(maps.Keys(merged(l, s))) {
			differOne(prefix+name, l[name], s[name], add)
		}
		if a, b := common(live.items[turn], s), common(stored.items[turn], l); !slices.Equal(a, b) {
			add(prefix+"order of items", a, b)
		}
	}
	compare("", "")
	for i, turn := range live.turns {
		if stored.of[turn] == nil {
			add(fmt.Sprintf("turn %d: only live", i+1), live.items[turn], nil)
			continue
		}
		compare(fmt.Sprintf("turn %d: ", i+1), turn)
	}
	for i, turn := range stored.turns {
		if live.of[turn] == nil {
			add(fmt.Sprintf("turn %d: only stored", i+1), nil, stored.items[turn])
		}
	}
	return out
}

// differOne compares two values of a fact. For two objects, it adds each
// differing field.
func differOne(name string, live, stored any, add func(fact string, live, stored any)) {
	switch {
	case stored == nil:
		add(name+": only live", live, nil)
		return
	case live == nil:
		add(name+": only stored", nil, stored)
		return
	}
	l, ok := live.(map[string]any)
	s, both := stored.(map[string]any)
	if !ok || !both {
		if !reflect.DeepEqual(live, stored) {
			add(name, live, stored)
		}
		return
	}
	for _, field := range slices.Sorted(maps.Keys(merged(l, s))) {
		if !reflect.DeepEqual(l[field], s[field]) {
			add(name+": "+field, l[field], s[field])
		}
	}
}

// merged returns the keys of both maps.
func merged(a, b map[string]any) map[string]bool {
	keys := make(map[string]bool)
	for k := range a {
		keys[k] = true
	}
	for k := range b {
		keys[k] = true
	}
	return keys
}

// common returns the names that are also in other.
func common(names []string, other map[string]any) (out []string) {
	for _, name := range names {
		if other[name] != nil {
			out = append(out, name)
		}
	}
	return out
}

func printed(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(data)
}

// EachParity compares the live events of each recording of an agent with the
// events from its history. each iterates over the recordings. of returns the
// events of a recording; ok is false for a recording without a history.
func EachParity[F, A any](t *testing.T, agent string, each func(*testing.T, func(*testing.T, F, string, A)),
	of func(t *testing.T, a A) (live, stored []event.Event, ok bool)) {
	t.Helper()
	p := NewParity(agent)
	each(t, func(t *testing.T, _ F, path string, a A) {
		if live, stored, ok := of(t, a); ok {
			p.Compare(t, path, live, stored)
		}
	})
	p.Unused(t)
}
