package codex

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// TestQuestionAfterTurnIsAskedOrDenied checks that a question of work that
// continues after the turn either becomes an approval or is denied.
func TestQuestionAfterTurnIsAskedOrDenied(t *testing.T) {
	for method, params := range map[string]string{
		askCommand: `"command":"touch late","cwd":"/p"`, askFileChange: `"reason":"late"`,
	} {
		tr := inTurn(t)
		tr.Printed([]byte(`{"method":"turn/completed","params":{"threadId":"t","turn":{"id":"u","status":"completed","items":[]}}}`), fixtureStart)
		line := fmt.Appendf(nil, `{"id":9,"method":%q,"params":{"threadId":"t","turnId":"u","itemId":"i9",%s}}`, method, params)
		evs, replies := tr.Printed(line, fixtureStart)
		asked := bodies[event.ApprovalRequested](evs)
		switch {
		case len(asked) == 1 && len(replies) == 0:
			lines, err := tr.answer(asked[0].Approval.ID, runnel.Decision{Choice: deny})
			if err != nil || len(lines) != 1 || !bytes.Contains(object(lines[0]), []byte(`"decline"`)) {
				t.Errorf("%s: %s, %v", method, lines, err)
			}
		case len(asked) == 0 && len(replies) == 1:
			if reply := object(replies[0]); !bytes.Contains(reply, []byte(`"id":9`)) || bytes.Contains(reply, []byte("accept")) || bytes.Contains(reply, []byte("approved")) {
				t.Errorf("%s: answered with %s", method, reply)
			}
		default:
			t.Errorf("%s: %d questions, %d replies\n%s", method, len(asked), len(replies), dump(evs))
		}
	}
}
