package event

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// huge is larger than every bound in bytes except MaxText.
const huge = MaxOutput + 1

// fill sets every string in v to a huge one. It gives every list and map one
// element, sets every pointer, and sets raw JSON to a huge JSON string.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(strings.Repeat("x", huge))
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte(`"` + strings.Repeat("x", huge) + `"`))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		long := reflect.ValueOf(strings.Repeat("x", huge))
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(long, long)
	}
}

// content are the JSON names of the fields that may be longer than MaxNote,
// such as text and arguments.
var content = []string{"content", "deltaContent", "initialContent", "arguments", "updatedArguments", "output", "oldText", "newText", "lines"}

// long returns the names of the fields in v that are longer than MaxNote,
// except those in content.
func long(name string, v any) (found []string) {
	switch v := v.(type) {
	case string:
		if len(v) > MaxNote && !slices.Contains(content, name) {
			found = append(found, name)
		}
	case []any:
		for _, e := range v {
			found = append(found, long(name, e)...)
		}
	case map[string]any:
		for k, e := range v {
			if len(k) > MaxNote {
				found = append(found, name+" (a key)")
			}
			found = append(found, long(k, e)...)
		}
	}
	return found
}

func TestEveryStringOfAnEventHasABound(t *testing.T) {
	for _, b := range []Body{
		ResponseStart{}, ItemStart{}, ItemDelta{}, ItemDone{FinalItem: Message{}}, ItemDone{FinalItem: Reasoning{}},
		ItemDone{FinalItem: FunctionCall{}}, ItemDone{FinalItem: FunctionCallOutput{}}, ItemDone{FinalItem: Plan{}},
		ItemError{}, ItemCancelled{}, ResponseDone{}, ResponseError{}, ApprovalRequested{}, ApprovalResolved{},
		SessionUpdated{}, UsageUpdated{}, Notice{},
	} {
		full := reflect.New(reflect.TypeOf(b)).Elem()
		fill(full)
		if done, ok := b.(ItemDone); ok {
			final := reflect.New(reflect.TypeOf(done.FinalItem)).Elem()
			fill(final)
			full.FieldByName("FinalItem").Set(final)
		}
		for _, field := range []string{"ItemID", "ApprovalID"} { // valid ids, because Bounded would otherwise drop the whole event
			if f := full.FieldByName(field); f.IsValid() {
				f.SetString("id")
			}
		}
		if a, ok := full.Interface().(ApprovalRequested); ok {
			a.Approval.ID, a.Approval.ItemID = "id", "item"
			full.Set(reflect.ValueOf(a))
		}
		got, left := Bounded(full.Interface().(Body))
		if got == nil {
			if _, ok := b.(SessionUpdated); !ok {
				t.Errorf("%T: nothing is left but %q", b, left)
			}
			continue
		}
		text, err := MarshalBody(got)
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		if found := long("", v); len(found) > 0 {
			t.Errorf("%T: longer than %d bytes: %q", b, MaxNote, found)
		}
		if again, left := Bounded(got); len(left) > 0 || !reflect.DeepEqual(got, again) {
			t.Errorf("%T: bounding twice changes it again: %q", b, left)
		}
	}
}

func TestTooLongIDIsDroppedNotCut(t *testing.T) {
	a, b := strings.Repeat("x", huge)+"a", strings.Repeat("x", huge)+"b"
	for name, c := range map[string]struct {
		body Body
		left string
	}{
		"conversation": {SessionUpdated{AgentSessionID: a}, "agentSessionId"},
		"model":        {SessionUpdated{ModelID: a}, "modelId"},
		"mode":         {SessionUpdated{PermissionMode: a}, "permissionMode"},
		"item":         {ItemStart{ItemID: a}, "itemId"},
		"approval":     {ApprovalRequested{Approval{ID: a}}, "approval.id"},
	} {
		if got, left := Bounded(c.body); got != nil || !slices.Equal(left, []string{c.left}) {
			t.Errorf("%s: left %T, and %q was left out", name, got, left)
		}
	}
	call := func(id string) string {
		got, _ := Bounded(ItemStart{ItemID: "i", CallID: id})
		return got.(ItemStart).CallID
	}
	if call(a) == call(b) || len(call(a)) > MaxCallID || call("short") != "short" {
		t.Errorf("ids of calls became %s, %s and %s", call(a), call(b), call("short"))
	}
	out, _ := Bounded(ItemDone{ItemID: "i", FinalItem: FunctionCallOutput{CallID: a}})
	if got := out.(ItemDone).FinalItem.(FunctionCallOutput).CallID; got != call(a) {
		t.Errorf("a call and its output have the ids %s and %s", call(a), got)
	}
}

// Every status of a session has what its agent offers, as JSON.
func TestWhatAnAgentOffersIsBoundedTogether(t *testing.T) {
	wide := strings.Repeat("<", MaxName)
	var all SessionUpdated
	for range MaxFew {
		o := ConfigOption{ID: "o", Name: wide, Type: ConfigSelect}
		for range 40 {
			o.Choices = append(o.Choices, ConfigChoice{Value: "v", Name: wide})
		}
		all.Config = append(all.Config, o, ConfigOption{ID: "short"})
		all.Commands = append(all.Commands, AgentCommand{Name: "c", Description: wide, Hint: wide}, AgentCommand{Name: "short"})
	}
	for i := range MaxOffered - len(all.Commands) {
		all.Commands = append(all.Commands, AgentCommand{Name: fmt.Sprint("c", i), Description: wide, Hint: wide})
	}
	got, left := Bounded(all)
	b := got.(SessionUpdated)
	if !slices.Equal(left, []string{"commands", "config"}) {
		t.Errorf("left out %q", left)
	}
	const list = MaxListed + MaxListed/10 // with what is between the elements
	for name, v := range map[string]any{"commands": b.Commands, "config": b.Config} {
		if data, err := json.Marshal(v); err != nil || len(data) > list || len(data) < MaxListed/10 {
			t.Errorf("%s: %d bytes, %v", name, len(data), err)
		}
	}
	if again, left := Bounded(b); len(left) > 0 || !reflect.DeepEqual(again, got) {
		t.Errorf("bounding twice leaves out %q", left)
	}
}

func TestBoundedDoesNotModifyItsArgument(t *testing.T) {
	commands := []AgentCommand{{Name: "a", Description: strings.Repeat("x", huge)}}
	got, left := Bounded(SessionUpdated{Commands: commands})
	if len(left) > 0 || len(got.(SessionUpdated).Commands[0].Description) > MaxDescription || len(commands[0].Description) != huge {
		t.Errorf("left out %q; the argument has %d bytes", left, len(commands[0].Description))
	}
}

func TestJSONThatIsNestedTooDeepIsLeftOut(t *testing.T) {
	nested := func(levels int) json.RawMessage {
		return json.RawMessage(`{"a \"[":"{[[","b":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + "}")
	}
	fits, deep := nested(MaxDepth), nested(MaxDepth+1)
	for name, body := range map[string]func(json.RawMessage) Body{
		"arguments": func(raw json.RawMessage) Body {
			return ItemDone{"i", FunctionCall{Name: "n", CallID: "c", Arguments: raw}}
		},
		"detail":             func(raw json.RawMessage) Body { return ItemDone{"i", FunctionCallOutput{CallID: "c", Detail: raw}} },
		"error.details":      func(raw json.RawMessage) Body { return ResponseError{Error: Fault{Code: "C", Details: raw}} },
		"approval.arguments": func(raw json.RawMessage) Body { return ApprovalRequested{Approval{ID: "a", Arguments: raw}} },
	} {
		if _, left := Bounded(body(fits)); len(left) > 0 {
			t.Errorf("%s of %d levels: left out %q", name, MaxDepth, left)
		}
		got, left := Bounded(body(deep))
		if !slices.Equal(left, []string{name}) {
			t.Errorf("%s of %d levels: left out %q", name, MaxDepth+1, left)
		}
		if again, left := Bounded(got); len(left) > 0 {
			t.Errorf("%s: bounding twice leaves out %q of %+v", name, left, again)
		}
	}
}
