package providertest

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// RunReusedRequestIDs tests that each process of a session can ask under the
// same request id. The process of a session can be replaced, such as after a
// crash. A question of the new process is another question with another
// approval id, although the agent uses its request id again.
//
// The agent is a program of sh. After each prompt it asks once, in the turn or
// after it, always under the same id. A turn in which it asked must end after
// the answer. with returns a provider whose agent is the program at path.
func RunReusedRequestIDs(t *testing.T, program string, with func(path string) runnel.Provider) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(path, []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	log := new(runnel.Memory)
	s, err := runnel.Open(t.Context(), with(path), runnel.Options{Dir: t.TempDir()}, runnel.Config{ID: "s", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	after := int64(0)
	until := func(what string, f func(event.Event) bool) event.Event {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
		defer cancel()
		for ev, err := range runnel.Follow(ctx, log, "s", after) {
			if err != nil {
				t.Fatalf("waiting for %s: %v", what, err)
			}
			after = ev.Seq
			if f(ev) {
				return ev
			}
		}
		t.Fatalf("no %s", what)
		return event.Event{}
	}
	seen := map[string]bool{}
	for range 3 {
		begin(t, s)
		asked := until("question", func(ev event.Event) bool { _, ok := ev.Body.(event.ApprovalRequested); return ok })
		a := asked.Body.(event.ApprovalRequested).Approval
		if seen[a.ID] {
			t.Errorf("two questions have the approval id %s", a.ID)
		}
		seen[a.ID] = true
		if err := s.Decide(t.Context(), a.ID, runnel.Decision{Choice: string(event.ChoiceAllowOnce), ArgumentsDigest: a.ArgumentsDigest}); err != nil {
			t.Fatal(err)
		}
		until("end of the question's turn", func(ev event.Event) bool { return ev.Turn == asked.Turn && event.Ends(ev.Body) })
		if err := s.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
