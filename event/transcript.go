package event

import (
	"strings"
	"time"
)

// An Item is the current state of one item of a turn: a message, reasoning, a
// tool call, its output, or a plan.
type Item struct {
	ID           string
	Type         ItemType
	Turn         string
	Status       ItemStatus
	CallID       string
	Name         string // name of the tool
	ParentCallID string
	Content      string    // text so far; for an open function_call the JSON of its arguments so far
	Final        FinalItem // set once Status is ItemComplete
	Fault        *Fault    // set once Status is ItemFailed
	Reason       CancelReason
	Native       map[string]string
	StartedAt    time.Time
	UpdatedAt    time.Time // time of the newest event of the item
	Seq          int64     // position of that event
}

// ItemStatus is the progress of an item.
type ItemStatus string

// The item states.
const (
	ItemOpen     ItemStatus = "open"
	ItemComplete ItemStatus = "complete"
	ItemFailed   ItemStatus = "error"
	ItemStopped  ItemStatus = "cancelled"
)

// A Transcript folds events into items. The zero value is ready to use.
//
// Live delivery and history replay both use it, so both produce the same items.
type Transcript struct {
	order []string
	items map[string]*entry
}

// An entry holds an item and its growing text. Strings of a Builder share its
// memory, so neither a delta nor a call of Item copies the earlier text.
type entry struct {
	item Item
	text strings.Builder // appended text; empty once the item has a final item
}

// Apply folds e into its item. It returns the id of the changed item, or "" if
// no item changed. An item that has ended does not change any more.
func (t *Transcript) Apply(e Event) string {
	switch b := e.Body.(type) {
	case ItemStart:
		return t.start(e, b)
	case ItemDelta:
		if en := t.open(b.ItemID); en != nil {
			en.text.WriteString(b.DeltaContent)
			return en.touch(e)
		}
	case ItemDone:
		return t.done(e, b)
	case ItemError:
		if en := t.open(b.ItemID); en != nil {
			en.item.Status, en.item.Fault = ItemFailed, &b.Error
			return en.touch(e)
		}
	case ItemCancelled:
		if en := t.open(b.ItemID); en != nil {
			en.item.Status, en.item.Reason = ItemStopped, b.Reason
			return en.touch(e)
		}
	}
	return ""
}

// Item returns the current state of the item with this id.
func (t *Transcript) Item(id string) (Item, bool) {
	en := t.items[id]
	if en == nil {
		return Item{}, false
	}
	it := en.item
	if en.text.Len() > 0 {
		it.Content = en.text.String()
	}
	return it, true
}

// Items returns the items in the order in which they started.
func (t *Transcript) Items() []Item {
	out := make([]Item, 0, len(t.order))
	for _, id := range t.order {
		it, _ := t.Item(id)
		out = append(out, it)
	}
	return out
}

// Open reports whether an item with this id exists and has not ended.
func (t *Transcript) Open(id string) bool { return t.open(id) != nil }

// Release drops the content of an item that has ended. The Transcript still
// knows the item, so a late event cannot start it again.
func (t *Transcript) Release(id string) {
	if en := t.items[id]; en != nil && en.item.Status != ItemOpen {
		t.items[id] = &entry{item: Item{ID: id, Type: en.item.Type, Turn: en.item.Turn, Status: en.item.Status}}
	}
}

// DropTurn drops all items of a turn, so that the memory of a long-lived reader
// does not grow with the session.
func (t *Transcript) DropTurn(turn string) {
	kept := t.order[:0]
	for _, id := range t.order {
		if t.items[id].item.Turn == turn {
			delete(t.items, id)
			continue
		}
		kept = append(kept, id)
	}
	clear(t.order[len(kept):])
	t.order = kept
}

func (t *Transcript) open(id string) *entry {
	if en := t.items[id]; en != nil && en.item.Status == ItemOpen {
		return en
	}
	return nil
}

func (t *Transcript) start(e Event, b ItemStart) string {
	if t.items[b.ItemID] != nil {
		return ""
	}
	en := t.add(Item{
		ID: b.ItemID, Type: b.ItemType, Turn: e.Turn, Status: ItemOpen, CallID: b.CallID, Name: b.Name,
		ParentCallID: b.ParentCallID, Native: b.Native, StartedAt: e.At,
	})
	en.text.WriteString(b.InitialContent)
	return en.touch(e)
}

func (t *Transcript) done(e Event, b ItemDone) string {
	en := t.open(b.ItemID)
	if en == nil {
		if t.items[b.ItemID] != nil || b.FinalItem == nil {
			return ""
		}
		// The start of the item was not folded, but the final item is complete.
		en = t.add(Item{ID: b.ItemID, Turn: e.Turn, StartedAt: e.At})
	}
	it := &en.item
	it.Status, it.Final, it.Type = ItemComplete, b.FinalItem, b.FinalItem.ItemType()
	en.text.Reset()
	switch f := b.FinalItem.(type) {
	case Message:
		it.Content = f.Content
	case Reasoning:
		it.Content = f.Content
	case FunctionCall:
		it.Name, it.CallID, it.Content = f.Name, f.CallID, string(f.Arguments)
	case FunctionCallOutput:
		it.CallID, it.Content = f.CallID, f.Output
	}
	return en.touch(e)
}

func (t *Transcript) add(it Item) *entry {
	if t.items == nil {
		t.items = make(map[string]*entry)
	}
	en := &entry{item: it}
	t.items[it.ID] = en
	t.order = append(t.order, it.ID)
	return en
}

func (en *entry) touch(e Event) string {
	en.item.UpdatedAt, en.item.Seq = e.At, e.Seq
	return en.item.ID
}
