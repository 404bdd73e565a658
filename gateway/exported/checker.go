package exported

import (
	"fmt"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// A checker checks that events obey the rules of a log: positions grow, a turn
// begins once and ends once, and what begins in a turn ends before the turn.
type checker struct {
	session string
	line    int // of the newest event
	seq     int64
	open    map[string]*turn
	over    map[string]int // line of the end, by turn
	items   int            // items and approvals of open turns
	most    int            // maximum of items
	running int            // items and approvals that have not ended
	text    int            // bytes of the text of items that have not ended
}

type turn struct {
	line    int            // where the turn begins
	started bool           // it has a response_start
	items   map[string]int // line of the start, by item; 0: the item has ended
	asked   map[string]int // line of the request, by approval; 0: the approval is resolved
	running int            // items and approvals that have not ended
	types   map[string]event.ItemType
	text    map[string]int // bytes of the text of each item that has not ended
}

func newChecker() *checker {
	return &checker{open: make(map[string]*turn), over: make(map[string]int), most: maxItems}
}

// check returns an error if ev, the event of a line, cannot follow the events
// so far.
func (c *checker) check(line int, ev event.Event) error {
	if c.line == 0 {
		c.session = ev.Session
	}
	if why := c.place(ev); why != "" {
		return refuse(line, "%s", why)
	}
	c.line, c.seq = line, ev.Seq
	if ev.Turn == "" {
		if !fact(ev.Body) {
			return refuse(line, "turnId: is missing; %s belongs to a turn", event.Type(ev.Body))
		}
		return nil
	}
	t, err := c.turn(line, ev)
	if err != nil {
		return err
	}
	before, running := t.size(), t.running
	if why := t.judge(line, ev); why != "" {
		return refuse(line, "%s: %s", event.Type(ev.Body), why)
	}
	if c.items += t.size() - before; c.items > c.most {
		return runnel.Fail(runnel.PayloadTooLarge, fmt.Sprintf("line %d: the turns that have not ended here have more than %d items", line, c.most))
	}
	if c.running += t.running - running; c.running > event.MaxOpenItems {
		return runnel.Fail(runnel.PayloadTooLarge, fmt.Sprintf("line %d: more than %d items have not ended here", line, event.MaxOpenItems))
	}
	if why := c.weigh(t, ev.Body); why != "" {
		return runnel.Fail(runnel.PayloadTooLarge, fmt.Sprintf("line %d: %s", line, why))
	}
	if event.Ends(ev.Body) {
		delete(c.open, ev.Turn)
		c.items -= t.size()
		c.over[ev.Turn] = line
	}
	return nil
}

// weigh counts the text of the items of t that have not ended. It returns why
// they have too much text, or "".
func (c *checker) weigh(t *turn, b event.Body) string {
	id, size := "", 0
	switch b := b.(type) {
	case event.ItemStart:
		id, size = b.ItemID, len(b.InitialContent)
	case event.ItemDelta:
		id, size = b.ItemID, len(b.DeltaContent)
	case event.ItemDone:
		id, size = b.ItemID, -t.text[b.ItemID]
	case event.ItemError:
		id, size = b.ItemID, -t.text[b.ItemID]
	case event.ItemCancelled:
		id, size = b.ItemID, -t.text[b.ItemID]
	default:
		return ""
	}
	c.text += size
	if t.text[id] += size; t.text[id] <= 0 {
		delete(t.text, id)
	}
	switch {
	case t.text[id] > maxText:
		return fmt.Sprintf("an item has more than %d bytes of text", maxText)
	case c.text > maxOpenText:
		return fmt.Sprintf("the items that have not ended here have more than %d bytes of text", maxOpenText)
	}
	return ""
}

// place checks the session and the position of ev.
func (c *checker) place(ev event.Event) string {
	switch {
	case !isID(ev.Session):
		return "sessionId: is not an id"
	case ev.Session != c.session:
		return "sessionId: is not that of the first line"
	case ev.Seq <= c.seq:
		return fmt.Sprintf("seq: %d does not follow %d", ev.Seq, c.seq)
	case ev.Turn != "" && !isID(ev.Turn):
		return "turnId: is not an id"
	}
	return ""
}

// turn returns the turn of ev, which may begin with ev.
func (c *checker) turn(line int, ev event.Event) (*turn, error) {
	if end := c.over[ev.Turn]; end > 0 {
		return nil, refuse(line, "turnId: this turn ended on line %d", end)
	}
	t := c.open[ev.Turn]
	if t != nil {
		return t, nil
	}
	if len(c.open)+len(c.over) >= maxTurns {
		return nil, runnel.Fail(runnel.PayloadTooLarge, fmt.Sprintf("line %d: the file has more than %d turns", line, maxTurns))
	}
	_, response := ev.Body.(event.ResponseStart)
	if start, ok := ev.Body.(event.ItemStart); !response && (!ok || start.ItemID != runnel.UserItemID(ev.Turn)) {
		return nil, refuse(line, "%s: its turn has not begun", event.Type(ev.Body))
	}
	t = &turn{line: line, items: make(map[string]int), asked: make(map[string]int), types: make(map[string]event.ItemType), text: make(map[string]int)}
	c.open[ev.Turn] = t
	return t, nil
}

// end returns an error if the log cannot end here.
func (c *checker) end() error {
	if c.line == 0 {
		return runnel.Fail(runnel.InvalidRequest, "the file has no events")
	}
	first := 0
	for _, t := range c.open {
		if first == 0 || t.line < first {
			first = t.line
		}
	}
	if first > 0 {
		return refuse(first, "the turn that begins here has no end; export the session again when no turn runs")
	}
	return nil
}

// size returns the number of items and approvals of the turn.
func (t *turn) size() int { return len(t.items) + len(t.asked) }

// judge returns why ev cannot be the next event of the turn, or "".
func (t *turn) judge(line int, ev event.Event) string {
	switch b := ev.Body.(type) {
	case event.ResponseStart:
		if t.started {
			return "the turn already has one"
		}
		t.started = true
		return ""
	case event.ItemStart:
		if !t.started && b.ItemID != runnel.UserItemID(ev.Turn) {
			return "response_start is missing"
		}
		return t.begin(line, ev, b)
	case event.ItemDone:
		if typ, ok := t.types[b.ItemID]; ok && typ != b.FinalItem.ItemType() {
			return "finalItem.type: is not that of the item's start"
		}
		return t.finish(t.items, b.ItemID, "itemId")
	}
	if !t.started && !fact(ev.Body) {
		return "response_start is missing"
	}
	switch b := ev.Body.(type) {
	case event.ItemDelta:
		if t.items[b.ItemID] == 0 {
			return "itemId: no such item is open"
		}
	case event.ItemError:
		return t.finish(t.items, b.ItemID, "itemId")
	case event.ItemCancelled:
		return t.finish(t.items, b.ItemID, "itemId")
	case event.ApprovalRequested:
		if _, again := t.asked[b.Approval.ID]; again {
			return "approval.id: occurs twice"
		}
		t.asked[b.Approval.ID] = line
		t.running++
	case event.ApprovalResolved:
		return t.finish(t.asked, b.ApprovalID, "approvalId")
	case event.ResponseDone:
		if b.Status == event.StatusError {
			return "status: a failed turn ends with response_error"
		}
		return t.unfinished()
	case event.ResponseError:
		return t.unfinished()
	}
	return ""
}

func (t *turn) begin(line int, ev event.Event, b event.ItemStart) string {
	if _, again := t.items[b.ItemID]; again {
		return "itemId: occurs twice"
	}
	if !strings.HasPrefix(b.ItemID, ev.Turn+":") {
		return "itemId: does not begin with the id of its turn"
	}
	t.items[b.ItemID], t.types[b.ItemID] = line, b.ItemType
	t.running++
	return ""
}

// finish ends an item or an approval.
func (t *turn) finish(of map[string]int, id, field string) string {
	if of[id] == 0 {
		return field + ": none with this id is open"
	}
	of[id] = 0
	t.running--
	return ""
}

// unfinished returns an error if the turn cannot end yet.
func (t *turn) unfinished() string {
	if t.running == 0 {
		return ""
	}
	first := 0
	for _, of := range []map[string]int{t.items, t.asked} {
		for _, line := range of {
			if line > 0 && (first == 0 || line < first) {
				first = line
			}
		}
	}
	return fmt.Sprintf("what begins on line %d has not ended", first)
}

// fact reports whether b may occur outside of turns.
func fact(b event.Body) bool {
	switch b.(type) {
	case event.SessionUpdated, event.UsageUpdated, event.Notice:
		return true
	}
	return false
}

// isID reports whether s has the form of an id of a session or a turn. It has
// no colon, which separates the id of a turn from the rest of an item's id.
func isID(s string) bool {
	const maxID = 128
	if s == "" || len(s) > maxID {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return r != '-' && r != '_' && r != '.' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}
