package acp

import "github.com/runnel-dev/runnel/event"

// A turn may have many calls, and an agent may repeat large arguments and
// contents in each. Calls hold them until they end, at most maxHeld bytes in a
// turn.

// account determines how many bytes a call holds. If the calls of the turn then
// hold too many, the call drops its content, its output, and arguments that are
// not final yet.
func (cs *toolCalls) account(c *call) {
	if cs.recount(c); cs.held <= maxHeld {
		return
	}
	c.content, c.rawOutput = nil, nil
	if !c.described {
		c.dropInput()
	}
	if cs.recount(c); !cs.noted {
		cs.noted = true
		cs.out.Notice(event.LevelWarning, "CALL_TOO_LARGE", "The agent's calls are too large together; the arguments or the output of some were left out.")
	}
}

// forget releases the content of an ended call.
func (cs *toolCalls) forget(c *call) {
	c.content, c.rawOutput = nil, nil
	if len(c.input)+len(c.shown) > maxEndedInput {
		c.dropInput()
	}
	cs.recount(c)
}

func (c *call) dropInput() { c.input, c.shown, c.dropped = nil, nil, true }

func (cs *toolCalls) recount(c *call) {
	size := len(c.input) + len(c.shown) + len(c.rawOutput)
	for i := range c.content {
		size += c.content[i].size()
	}
	cs.held += size - c.held
	c.held = size
}

// perContent is the memory that a piece of content takes without its texts, in
// bytes.
const perContent = 512

// size returns how much memory a piece of content takes, in bytes.
func (tc *toolContent) size() int {
	b := &tc.Content
	n := perContent + len(b.Text) + len(b.Data) + len(b.URI) + len(b.Name) + len(b.Resource.URI) + len(b.Resource.Text) + len(b.Resource.Blob) +
		len(tc.Path) + len(tc.TerminalID) + len(tc.Patch.Text)
	for _, text := range []*string{tc.OldText, tc.NewText} {
		if text != nil {
			n += len(*text)
		}
	}
	for _, c := range tc.Changes {
		n += len(c.Path) + len(c.OldPath)
	}
	return n
}
