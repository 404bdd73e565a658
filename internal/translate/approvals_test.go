package translate_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/translate"
)

// ask adds a question whose id, turn and request all contain the number n.
func ask(a *translate.Approvals[string], n int, outOfTurn bool) {
	a.Add(translate.Approval[string]{
		ID: fmt.Sprint("a", n), Turn: fmt.Sprint("t", n), Request: fmt.Sprint("r", n), Digest: "d",
		OutOfTurn: outOfTurn, Question: fmt.Sprint("q", n),
	})
}

func TestApprovalsAreSorted(t *testing.T) {
	var a translate.Approvals[string]
	for _, n := range []int{3, 1, 2} {
		ask(&a, n, false)
	}
	if got, want := a.IDs(), []string{"a1", "a2", "a3"}; !slices.Equal(got, want) {
		t.Errorf("ids %v, want %v", got, want)
	}
	if of := a.Of("t2"); len(of) != 1 || of[0].Question != "q2" {
		t.Errorf("questions of t2: %v", of)
	}
	if q, ok := a.ByRequest("r3"); !ok || q.ID != "a3" {
		t.Errorf("by request: %v %v", q, ok)
	}
	if _, ok := a.ByRequest("r4"); ok {
		t.Error("a question with an unknown request was found")
	}
}

func TestOpenApprovalsAreBounded(t *testing.T) {
	var a translate.Approvals[string]
	for n := range translate.MaxOpen {
		if a.Full() {
			t.Fatalf("full with %d questions", n)
		}
		ask(&a, n, false)
	}
	if !a.Full() || a.Len() != translate.MaxOpen {
		t.Errorf("%d questions are not full", a.Len())
	}
}

func TestOpenApprovalsAreBoundedByTheirSize(t *testing.T) {
	var a translate.Approvals[string]
	for _, id := range []string{"a1", "a2"} {
		if a.Full() {
			t.Fatalf("full with %d questions", a.Len())
		}
		a.Add(translate.Approval[string]{ID: id, Shown: translate.MaxShown - 1})
	}
	if !a.Full() {
		t.Error("large questions are not full")
	}
	a.Remove("a1")
	if a.Full() {
		t.Error("full after a question was settled")
	}
}

func TestSettledApprovalCannotBeDecided(t *testing.T) {
	var a translate.Approvals[string]
	ask(&a, 1, false)
	if q, err := a.Open("a1"); err != nil || q.Question != "q1" {
		t.Errorf("%v %v", q, err)
	}
	a.Remove("a1")
	if _, err := a.Open("a1"); runnel.CodeOf(err) != runnel.ApprovalGone {
		t.Errorf("a settled approval: %v", err)
	}
	a.Remove("a1") // a second call has no effect
	if !a.Idle() {
		t.Error("not idle")
	}
}

func TestChangedQuestionIsRemoved(t *testing.T) {
	for _, c := range []struct {
		name, request, digest string
		changed, open         bool
	}{
		{"the same", "r1", "d", false, true},
		{"changed", "r1", "other", true, false},
		{"another", "r2", "other", false, true},
	} {
		var a translate.Approvals[string]
		ask(&a, 1, false)
		if _, changed := a.Changed(c.request, c.digest); changed != c.changed {
			t.Errorf("%s: changed %v", c.name, changed)
		}
		if _, open := a.Get("a1"); open != c.open {
			t.Errorf("%s: open %v", c.name, open)
		}
	}
}

func TestSettledReturnsTurnsOfOutOfTurnQuestions(t *testing.T) {
	var a translate.Approvals[string]
	ask(&a, 1, true)
	ask(&a, 2, false)
	ask(&a, 3, true)
	a.Remove("a3")
	a.Remove("a2")
	a.Remove("a1")
	if a.Idle() {
		t.Error("idle before the turns of the questions have ended")
	}
	if got, want := a.Settled(), []string{"t3", "t1"}; !slices.Equal(got, want) {
		t.Errorf("settled %v, want %v", got, want)
	}
	if left := a.Settled(); len(left) > 0 || !a.Idle() {
		t.Errorf("settled again: %v", left)
	}
}

func TestDroppedQuestionsSettleNothing(t *testing.T) {
	var a translate.Approvals[string]
	ask(&a, 1, true)
	ask(&a, 2, false)
	if dropped := a.Drop("t1"); len(dropped) != 1 || dropped[0].ID != "a1" {
		t.Errorf("dropped %v", dropped)
	}
	if got := a.Settled(); len(got) > 0 {
		t.Errorf("settled %v", got)
	}
	if got := a.IDs(); !slices.Equal(got, []string{"a2"}) {
		t.Errorf("left %v", got)
	}
}
