package codex

import "github.com/runnel-dev/runnel/internal/jsonscan"

// The members of a notification about a growing item, the most frequent line of
// the agent. A line with other members is decoded as a message.
var (
	growthLine   = []string{"method", "params", "emittedAtMs", "jsonrpc"}
	growthParams = []string{"threadId", "turnId", "itemId", "delta", "summaryIndex", "contentIndex"}
)

// growthMethods are the methods of such notifications.
var growthMethods = []string{
	"item/agentMessage/delta", "item/commandExecution/outputDelta", "item/reasoning/summaryTextDelta", "item/reasoning/textDelta", "item/plan/delta",
}

// scanGrowth decodes a notification about a growing item. It reports false for
// every other line, and for a line of an unusual form. last is an earlier
// result, whose ids are used again if they are the same.
func scanGrowth(line []byte, last note) (method string, n note, ok bool) {
	s := jsonscan.New(line)
	s.Object(growthLine, func(member int) {
		switch member {
		case 0:
			text := s.Text()
			for _, known := range growthMethods {
				if text.Is(known) {
					method = known
				}
			}
		case 1:
			s.Object(growthParams, func(member int) {
				switch member {
				case 0:
					n.ThreadID = s.Text().Known(last.ThreadID)
				case 1:
					n.TurnID = s.Text().Known(last.TurnID)
				case 2:
					n.ItemID = s.Text().Known(last.ItemID)
				case 3:
					n.Delta = s.Text().String()
				case 4:
					n.Index = s.Int()
				default:
					s.Skip()
				}
			})
		default:
			s.Skip()
		}
	})
	return method, n, s.Done() && method != "" && n.ItemID != ""
}

// grow handles a notification about a growing item. It does what message does
// with the decoded line. It reports false, and does nothing, for any other line.
func (t *translator) grow(line []byte) bool {
	method, n, ok := scanGrowth(line, t.grown)
	if !ok {
		return false
	}
	t.grown = note{ThreadID: n.ThreadID, TurnID: n.TurnID, ItemID: n.ItemID}
	t.extend(method, n)
	return true
}

// extend dispatches a delta of an item.
func (t *translator) extend(method string, n note) {
	if r := t.running(n.TurnID); r == nil || !r.delta(method, n) {
		t.out.Skip() // its turn is over, or its item has not started
	}
}
