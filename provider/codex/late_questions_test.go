package codex

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// TestQuestionAfterTurnIsAskedOrDenied: what goes on behind a turn runs nothing that
// nobody was asked for: somebody is asked, or it is denied.
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
			if said := object(replies[0]); !bytes.Contains(said, []byte(`"id":9`)) || bytes.Contains(said, []byte("accept")) || bytes.Contains(said, []byte("approved")) {
				t.Errorf("%s: answered with %s", method, said)
			}
		default:
			t.Errorf("%s: %d questions, %d replies\n%s", method, len(asked), len(replies), dump(evs))
		}
	}
}
