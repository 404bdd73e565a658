package translate

import "testing"

func TestQuestionsGetApprovalIDsOfTheirOwn(t *testing.T) {
	derive := func(native string) string { return Derive("test", native) }
	var a, b Asked
	ids := make(map[string]bool)
	for _, id := range []string{
		a.ID("t", "1", "ls", derive),
		a.ID("t", "1", "ls", derive), // the same question again
		a.ID("t", "1", "rm", derive),
		a.ID("t", "1 ls", "", derive), // its id and digest join to the same text as those of the first question
		a.ID("t", "", "1 ls", derive),
		b.ID("t 1", "1", "ls", derive),
		b.ID("u", "1", "ls", derive),
	} {
		if ids[id] {
			t.Errorf("two questions have the id %s", id)
		}
		ids[id] = true
	}
	var again Asked // a server that has taken the agent over reads the turn's lines again
	if first := again.ID("t", "1", "ls", derive); !ids[first] {
		t.Errorf("the question has another id, %s, after a second reading", first)
	}
}
