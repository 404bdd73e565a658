package acp

import (
	"bytes"
	"encoding/json"

	"github.com/runnel-dev/runnel/event"
)

// A question shows what a call will do. An agent may say later that it does
// something else: that cannot be stopped, what it does is its own, but it does
// not go unnoticed.

// asked remembers what somebody was shown of a call.
func (c *call) asked(input json.RawMessage) {
	if c != nil && isObject(input) {
		c.shown, c.swapped = input, false
	}
}

// compare holds what is said of a call against what somebody was shown of it.
func (t *translator) compare(c *call, input json.RawMessage) {
	if c.swapped || c.shown == nil || !isObject(input) || !differs(c.shown, input) {
		return
	}
	c.swapped = true
	t.notice(event.LevelWarning, "ARGUMENTS_CHANGED", "The agent says of a call ("+c.name+") that it does something else than what was asked for.")
}

// differs reports whether two sets of arguments contradict each other. Agents
// add to them, and leave out: only what is in both counts.
func differs(a, b json.RawMessage) bool {
	x, y := decodeLoose[map[string]json.RawMessage](a), decodeLoose[map[string]json.RawMessage](b)
	for key, was := range x {
		if is, ok := y[key]; ok && !bytes.Equal(canonical(was), canonical(is)) {
			return true
		}
	}
	return false
}

func canonical(raw json.RawMessage) []byte {
	b, err := json.Marshal(decodeLoose[any](raw))
	if err != nil {
		return raw
	}
	return b
}
