package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/runnel-dev/runnel/event"
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

// Every page gets the status of a session again at each change.
func TestStatusIsBoundedWhateverTheAgentOffersAndAsks(t *testing.T) {
	const most = 2 << 20
	long := strings.Repeat("<", 500)
	var config []event.ConfigOption
	for i := range 100 {
		o := event.ConfigOption{ID: fmt.Sprint("o", i), Type: event.ConfigSelect, Value: "v0"}
		for j := range 50 {
			o.Choices = append(o.Choices, event.ConfigChoice{Value: fmt.Sprint("v", j), Description: long})
		}
		config = append(config, o)
	}
	var changes []event.Change
	for i := range 50 {
		changes = append(changes, event.Change{Path: fmt.Sprint("f", i), Kind: event.ChangeUpdate, Hunks: []event.Hunk{{Lines: []string{"+" + strings.Repeat(long, 20)}}}})
	}
	script, err := json.Marshal(map[string]any{"steps": []any{
		map[string]any{"session": event.SessionUpdated{Config: config}},
		map[string]any{"tool": map[string]any{"name": "Edit", "kind": "edit", "arguments": map[string]any{}, "ask": map[string]any{}, "changes": changes}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	d := newDisk(t)
	g := d.open(t, func(c *Config) { c.StallTimeout = -1 }) // the race detector takes long for the megabytes
	defer closeIt(t, g)
	id := d.create(t, g)
	send(t, g, id, string(script))
	d.untilStatus(t, g, id, func(st Status) bool { return len(st.PendingApprovals) == 1 })
	st, err := g.Status(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(st)
	if err != nil || len(data) > most || len(st.Config) == 0 || len(st.PendingApprovals[0].Changes) != len(changes) {
		t.Errorf("status: %d bytes with %d options, %v", len(data), len(st.Config), err)
	}
	list, err := g.Listed(t.Context(), Filter{})
	if err != nil || len(list) != 1 || len(list[0].JSON) > most {
		t.Errorf("list: %v", err)
	}
	a, err := g.Approvals().Open(t.Context(), id, st.PendingApprovals[0].ID)
	if err != nil || len(a.Approval.Changes) != len(changes) || len(a.Approval.Changes[0].Hunks) != 1 {
		t.Errorf("the approval itself has no texts: %v", err)
	}
}
