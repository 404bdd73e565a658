package httpapi

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/event"
)

// Closing a WebSocket waits for the client, which need not hurry: what it says
// meanwhile is not obeyed any more.
func TestA09_RevokedSocketDecidesNothing(t *testing.T) {
	rg := newRig(t)
	id := rg.create()
	rg.prompt(id, "approve")
	a := rg.until(id, is[event.ApprovalRequested]).Body.(event.ApprovalRequested).Approval
	ctx, end := context.WithCancelCause(t.Context())
	k := &socket{s: rg.Server, id: auth.Identity{ID: "x", Scopes: auth.All()}, req: rg.request("GET", "/api/ws", ""), ctx: ctx, end: end}
	end(auth.ErrEnded)
	for _, verb := range []string{
		fmt.Sprintf(`{"type":"session:decide","sessionId":%q,"approvalId":%q,"choice":"allow"}`, id, a.ID),
		fmt.Sprintf(`{"type":"session:send","sessionId":%q,"content":"text","queue":true}`, id),
		fmt.Sprintf(`{"type":"session:kill","sessionId":%q}`, id),
	} {
		if err := k.handle([]byte(verb)); !errors.Is(err, auth.ErrEnded) {
			t.Errorf("%s: got %v", verb, err)
		}
	}
	st, err := rg.gw.Status(t.Context(), id)
	if err != nil || len(st.PendingApprovals) != 1 || st.Queued != 0 || st.State != event.StateOpen {
		t.Errorf("something was obeyed: %+v, %v", st, err)
	}
}
