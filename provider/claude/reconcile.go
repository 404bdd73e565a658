package claude

import (
	"maps"
	"slices"

	"github.com/runnel-dev/runnel/internal/translate"
)

// This file decides the final text of a turn if the events of its stream
// contradict each other: a block starts twice, grows or stops without a start,
// or never ends. The block's assistant frame is always right. If that frame is
// missing, the turn's result has the last text.

// reconcile completes the open blocks of the main thread from the turn's
// result. It reports whether the turn's last text is known.
func (tn *turn) reconcile(f frame) bool {
	if f.IsError || tn.interrupted {
		return true
	}
	th := tn.thread("")
	pending := th.pending()
	missing := pending != nil || len(th.missing) > 0 || tn.lastText == "" && f.Result != ""
	switch {
	case !missing && (tn.unconfirmed == "" || f.Result == "" || f.Result == tn.unconfirmed):
		return true
	case !missing, f.Result == "":
		tn.emit(translate.BrokenStream)
		return false
	case f.Result == tn.lastText: // another block is missing
		tn.emit(translate.BrokenStream)
	case pending == nil:
		th.whole(th.message, block{Type: "text", Text: f.Result})
	default:
		tn.finish(pending.id, block{Type: "text", Text: f.Result})
		maps.DeleteFunc(th.open, func(_ int, s *streamed) bool { return s == pending })
	}
	return true
}

// pending returns the last open text block; nil if there is none.
func (th *thread) pending() *streamed {
	for _, i := range slices.Backward(slices.Sorted(maps.Keys(th.open))) {
		if s := th.open[i]; s.kind == "text" {
			return s
		}
	}
	return nil
}
