package gateway

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/runnel-dev/runnel/gateway/policy"
)

// The status lists an approval only after every policy source has left the
// decision to a person. Watchers of the session list are then notified, so that
// they read the status again.
func TestWatchersLearnThatAnApprovalWaitsForPeople(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t)
		g := d.open(t)
		defer closeIt(t, g)
		pass := make(chan struct{})
		g.opener.policy.AllowRules = func(context.Context, policy.Call) (policy.Verdict, bool) {
			<-pass
			return policy.Verdict{}, false
		}
		id := d.create(t, g)
		send(t, g, id, "approve")
		synctest.Wait()
		_, version := g.Changes(-1)
		if st, err := g.Status(t.Context(), id); err != nil || len(st.PendingApprovals) != 0 {
			t.Fatalf("before the sources passed: %+v, %v", st, err)
		}
		close(pass)
		synctest.Wait()
		if ids, _ := g.Changes(version); len(ids) != 1 || ids[0] != id {
			t.Errorf("changed: %v", ids)
		}
		if st, err := g.Status(t.Context(), id); err != nil || len(st.PendingApprovals) != 1 {
			t.Errorf("once they have: %+v, %v", st, err)
		}
	})
}
