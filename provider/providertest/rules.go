package providertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// CheckLog fails the test if the event log of a session breaks a rule for
// turns. A turn starts at most once, and nothing follows its end. An item ends
// after its start, at most once. No item and no approval is open at the end of
// its turn. All events are valid, and sequence numbers have no gaps.
func CheckLog(t testing.TB, log runnel.Log, session string) {
	t.Helper()
	turns := map[string]*checked{}
	seq := int64(0)
	for ev, err := range log.Read(t.Context(), session, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if seq++; ev.Seq != seq {
			t.Errorf("seq %d at %d", ev.Seq, seq)
			return
		}
		if err := ev.Validate(); err != nil {
			t.Errorf("%d: %v", seq, err)
		}
		if ev.Turn == "" {
			continue
		}
		if turns[ev.Turn] == nil {
			turns[ev.Turn] = &checked{open: map[string]event.ItemType{}, text: map[string]*strings.Builder{}, asked: map[string]bool{}}
		}
		if err := turns[ev.Turn].see(ev); err != nil {
			t.Errorf("%d: %v", seq, err)
		}
	}
}

// checked is the state of CheckLog for one turn.
type checked struct {
	started, ended bool
	open           map[string]event.ItemType
	text           map[string]*strings.Builder
	asked          map[string]bool
}

func (c *checked) see(ev event.Event) error {
	if c.ended {
		return fmt.Errorf("%s after the end of its turn", event.Type(ev.Body))
	}
	switch b := ev.Body.(type) {
	case event.ResponseStart:
		if c.started {
			return errors.New("a second response_start")
		}
		c.started = true
	case event.ItemStart:
		return c.start(ev, b)
	case event.ItemDelta:
		if c.open[b.ItemID] == "" {
			return fmt.Errorf("delta of %s, which is not open", b.ItemID)
		}
		c.text[b.ItemID].WriteString(b.DeltaContent)
	case event.ItemDone:
		return c.done(b)
	case event.ItemError:
		return c.end(b.ItemID)
	case event.ItemCancelled:
		return c.end(b.ItemID)
	case event.ApprovalRequested:
		c.asked[b.Approval.ID] = true
	case event.ApprovalResolved:
		if !c.asked[b.ApprovalID] {
			return fmt.Errorf("approval %s resolved, which is not open", b.ApprovalID)
		}
		delete(c.asked, b.ApprovalID)
	}
	if event.Ends(ev.Body) {
		c.ended = true
		if !c.started || len(c.open)+len(c.asked) > 0 {
			return fmt.Errorf("the turn ends: started %v, open items %v, open approvals %v", c.started, c.open, c.asked)
		}
	}
	return nil
}

func (c *checked) start(ev event.Event, b event.ItemStart) error {
	if !c.started && b.ItemID != runnel.UserItemID(ev.Turn) {
		return fmt.Errorf("%s before response_start", b.ItemID)
	}
	if !strings.HasPrefix(b.ItemID, ev.Turn+":") {
		return fmt.Errorf("item %s does not begin with its turn", b.ItemID)
	}
	if c.text[b.ItemID] != nil {
		return fmt.Errorf("item %s starts twice", b.ItemID)
	}
	c.open[b.ItemID] = b.ItemType
	c.text[b.ItemID] = new(strings.Builder)
	c.text[b.ItemID].WriteString(b.InitialContent)
	return nil
}

// done checks that the type of the final item is that of its start, and that
// the streamed text, if any, equals the final text.
func (c *checked) done(b event.ItemDone) error {
	typ := c.open[b.ItemID]
	if err := c.end(b.ItemID); err != nil {
		return err
	}
	if typ != b.FinalItem.ItemType() {
		return fmt.Errorf("item %s started as %s and ended as %s", b.ItemID, typ, b.FinalItem.ItemType())
	}
	streamed := c.text[b.ItemID].String()
	whole := ""
	switch f := b.FinalItem.(type) {
	case event.Message:
		whole = f.Content
	case event.Reasoning:
		whole = f.Content
	case event.FunctionCall:
		if !json.Valid(f.Arguments) {
			return fmt.Errorf("item %s: arguments are not JSON", b.ItemID)
		}
		return nil
	default:
		return nil
	}
	if streamed != "" && streamed != whole {
		return fmt.Errorf("item %s: %d bytes were streamed, the whole has %d and is not the same", b.ItemID, len(streamed), len(whole))
	}
	return nil
}

func (c *checked) end(id string) error {
	if c.open[id] == "" {
		return fmt.Errorf("item %s ends, which is not open", id)
	}
	delete(c.open, id)
	return nil
}

// Items returns the items of one turn, or of all turns if turn is "".
func Items(t testing.TB, log runnel.Log, session, turn string) []event.Item {
	t.Helper()
	var tr event.Transcript
	for ev, err := range log.Read(t.Context(), session, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if turn == "" || ev.Turn == turn {
			tr.Apply(ev)
		}
	}
	return tr.Items()
}

// dump returns the event log as text for failure messages, at most about 16
// KiB.
func (l *live) dump() string {
	var b strings.Builder
	for ev, err := range l.log.Read(l.t.Context(), l.ID(), 0) {
		if err != nil {
			return err.Error()
		}
		data, _ := event.MarshalBody(ev.Body)
		if len(data) > 300 {
			data = append(data[:300:300], "…"...)
		}
		fmt.Fprintf(&b, "%4d %s\n", ev.Seq, data)
		if b.Len() > 16<<10 {
			return b.String() + "…"
		}
	}
	return b.String()
}

// detail returns an error whose text includes the cause, which users do not
// see.
func detail(err error) error {
	if e, ok := errors.AsType[*runnel.Error](err); ok && e.Err != nil {
		return fmt.Errorf("%w (%w)", e, e.Err)
	}
	return err
}
