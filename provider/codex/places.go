package codex

import (
	"slices"

	"github.com/runnel-dev/runnel"
)

// places keeps the order in which the items of a turn that still runs were
// returned. Codex (0.169.0) stores an item when it ends. An item may therefore
// appear after items that started later, whose numbers are in use by then. It
// gets a place after them, so it has another number than in [Provider.History].
type places struct {
	shown  []runnel.ShownItem // items that have their places already, in order
	starts map[string]int64   // by [threadItem.key], in unix milliseconds
	last   int64              // the last start or end of an item that was returned
}

func newPlaces(shown []runnel.ShownItem) *places {
	return &places{shown: shown, starts: make(map[string]int64)}
}

// keep sets the starts of the items of one turn.
func (p *places) keep(all []threadItem) {
	p.recall(all)
	for _, s := range all {
		start, isKnown := p.starts[s.key()]
		if !isKnown {
			start = max(s.item.StartedAt, p.last)
			p.starts[s.key()] = start
		}
		s.item.StartedAt = start
	}
	for _, m := range moments(all) {
		p.last = max(p.last, m.at)
	}
}

// recall puts the items that were shown before into their order.
func (p *places) recall(all []threadItem) {
	for _, had := range p.shown {
		i := slices.IndexFunc(all, func(s threadItem) bool { return clip(s.item.ID, maxNative) == had.Native })
		if i < 0 {
			continue
		}
		start := all[i].item.StartedAt
		if start < p.last {
			start = p.last + 1
		}
		p.starts[all[i].key()], p.last = start, start
	}
	p.shown = nil
}
