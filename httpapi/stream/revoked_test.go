package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/access"
	"github.com/runnel-dev/runnel/httpapi/command"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/provider/script"
	"github.com/runnel-dev/runnel/store/memory"
)

// Closing a WebSocket waits for the client. Messages that the client sends
// meanwhile have no effect.
func TestRevokedSocketDecidesNothing(t *testing.T) {
	log := new(memory.Log)
	gw, err := gateway.Open(t.Context(), gateway.Config{Log: log, Catalogue: memory.New(log), Providers: []runnel.Provider{script.New()}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, done := context.WithTimeout(context.Background(), time.Minute)
		defer done()
		if err := gw.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	visible := access.Sessions{Gateway: gw}
	s := New(Config{
		Gateway: gw, Sessions: visible, Commands: command.Commands{Sessions: visible},
		Reply: reply.Writer{Redact: func(s string) string { return s }, Log: slog.New(slog.DiscardHandler)},
	})
	created, err := gw.Create(t.Context(), "script", t.TempDir(), runnel.Options{}, "")
	if err != nil {
		t.Fatal(err)
	}
	id := created.SessionID
	if _, err := gw.Send(t.Context(), id, gateway.Prompt{Text: "approve"}); err != nil {
		t.Fatal(err)
	}
	var asked event.ApprovalRequested
	for ev, err := range runnel.Follow(t.Context(), log, id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		var ok bool
		if asked, ok = ev.Body.(event.ApprovalRequested); ok {
			break
		}
	}
	for version := int64(0); ; { // wait until a person may answer
		changed := gw.Changed(version)
		_, version = gw.Changes(version)
		if st, err := gw.Status(t.Context(), id); err != nil || len(st.PendingApprovals) == 1 {
			break
		}
		<-changed
	}
	ctx, end := context.WithCancelCause(t.Context())
	k := &socket{s: s, id: auth.Identity{ID: "x", Scopes: auth.All()}, req: httptest.NewRequest("GET", "/api/ws", nil), ctx: ctx, end: end}
	end(auth.ErrEnded)
	for _, message := range []string{
		fmt.Sprintf(`{"type":"session:decide","sessionId":%q,"approvalId":%q,"choice":"allow"}`, id, asked.Approval.ID),
		fmt.Sprintf(`{"type":"session:send","sessionId":%q,"content":"text","queue":true}`, id),
		fmt.Sprintf(`{"type":"session:kill","sessionId":%q}`, id),
	} {
		if err := k.handle([]byte(message)); !errors.Is(err, auth.ErrEnded) {
			t.Errorf("%s: got %v", message, err)
		}
	}
	st, err := gw.Status(t.Context(), id)
	if err != nil || len(st.PendingApprovals) != 1 || st.Queued != 0 || st.State != event.StateOpen {
		t.Errorf("a message had an effect: %+v, %v", st, err)
	}
}
