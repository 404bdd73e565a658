package providertest

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// subagent checks that the items of a subagent are nested in the call that
// started it: ParentCallID and the item id name that call.
func (s Subject) subagent(t *testing.T, c *conversation) {
	l, turn := s.begin(t, c, Subagent)
	l.answerAll(turn, event.ChoiceAllowOnce)
	l.completes(turn)
	items := l.items(turn.ID)
	calls := map[string]bool{}
	nested, answered := 0, map[string]bool{}
	for _, it := range items {
		if it.Type == event.TypeFunctionCallOutput {
			answered[it.CallID] = true
		}
		if it.Type == event.TypeFunctionCall {
			calls[it.CallID] = true
		}
		if it.ParentCallID == "" {
			continue
		}
		nested++
		if !calls[it.ParentCallID] {
			t.Errorf("item %s names call %s as its parent, which has not started", it.ID, it.ParentCallID)
		}
		if answered[it.ParentCallID] {
			t.Errorf("item %s comes after the output of its parent call", it.ID)
		}
		if !strings.HasPrefix(it.ID, turn.ID+":") || !strings.Contains(it.ID, "/") {
			t.Errorf("the id of a nested item is %s", it.ID)
		}
	}
	if nested < 3 { // a call, its output, a message
		t.Errorf("%d nested items\n%s", nested, l.dump())
	}
	for call := range calls {
		if !answered[call] {
			t.Errorf("call %s has no output", call)
		}
	}
}

// plan checks that the agent's plan is a separate item.
func (s Subject) plan(t *testing.T, c *conversation) {
	l, turn := s.begin(t, c, Plan)
	l.answerAll(turn, event.ChoiceAllowOnce)
	l.completes(turn)
	it, ok := find(l.items(turn.ID), ofType(event.TypePlan))
	if !ok {
		t.Fatalf("no plan\n%s", l.dump())
	}
	entries := it.Final.(event.Plan).Entries
	if len(entries) == 0 {
		t.Error("the plan is empty")
	}
	for _, e := range entries {
		if e.Content == "" || !slices.Contains([]string{"pending", "in_progress", "completed"}, e.Status) {
			t.Errorf("entry %+v", e)
		}
	}
}

// question checks that the agent can ask the user, and that the first choice is
// an answer.
func (s Subject) question(t *testing.T, c *conversation) {
	l, turn := s.begin(t, c, Question)
	asked := 0
	l.watch(turn, func(ev event.Event) bool {
		b, ok := ev.Body.(event.ApprovalRequested)
		if !ok {
			return false
		}
		asked++
		isForm := b.Approval.Kind == event.ApprovalForm
		if b.Approval.Kind != event.ApprovalQuestion && !isForm || b.Approval.Choices[0].Kind != event.ChoiceAllowOnce {
			t.Errorf("unexpected approval %+v", b.Approval)
		}
		d := runnel.Decision{Choice: b.Approval.Choices[0].ID, ArgumentsDigest: b.Approval.ArgumentsDigest}
		if isForm {
			d.UpdatedArguments = filledIn(t, b.Approval.Arguments)
		}
		if err := l.Decide(t.Context(), b.Approval.ID, d); err != nil {
			t.Fatal(detail(err))
		}
		return false
	})
	l.completes(turn)
	if asked != 1 {
		t.Errorf("asked %d times\n%s", asked, l.dump())
	}
}

// filledIn returns values for a form: the first allowed value of each field.
func filledIn(t *testing.T, arguments json.RawMessage) json.RawMessage {
	t.Helper()
	type field struct {
		Type  string   `json:"type"`
		Enum  []string `json:"enum"`
		OneOf []struct {
			Const string `json:"const"`
		} `json:"oneOf"`
	}
	var form struct {
		Schema struct {
			Properties map[string]field `json:"properties"`
		} `json:"schema"`
	}
	if err := json.Unmarshal(arguments, &form); err != nil || len(form.Schema.Properties) == 0 {
		t.Fatalf("a form without fields: %s, %v", arguments, err)
	}
	values := map[string]any{}
	for name, f := range form.Schema.Properties {
		switch {
		case len(f.Enum) > 0:
			values[name] = f.Enum[0]
		case len(f.OneOf) > 0:
			values[name] = f.OneOf[0].Const
		}
	}
	out, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// backgroundTask checks work that outlives its turn. The agent asks for
// approval and sends a message in further turns, which have no user message.
func (s Subject) backgroundTask(t *testing.T) {
	s.prompt(t, Background)
	l := s.open(t, Background, runnel.Config{})
	turn := s.play(l, Background)
	l.answerAll(turn, event.ChoiceAllowOnce)
	l.completes(turn)
	if err := os.WriteFile(filepath.Join(l.opt.Dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	said := false
	for ev, err := range runnel.Follow(ctx, l.log, l.ID(), 0) {
		if err != nil {
			t.Fatalf("%v\n%s", err, l.dump())
		}
		if ev.Turn == turn.ID {
			continue
		}
		switch b := ev.Body.(type) {
		case event.ApprovalRequested:
			l.answer(b.Approval, event.ChoiceAllowOnce)
		case event.ItemDone:
			m, ok := b.FinalItem.(event.Message)
			if ok && m.Origin == event.OriginUser {
				t.Errorf("turn %s, which the agent started, has a user message", ev.Turn)
			}
			said = said || ok && strings.HasSuffix(m.Content, s.MessageEnd)
		}
		if said && event.Ends(ev.Body) {
			break
		}
	}
	s.nextTurnWorks(t, l)
	CheckLog(t, l.log, l.ID())
}
