package event_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/event"
)

// The zero value of a type has [] for each required list in its JSON, not null.
func TestListsAreNeverNullInJSON(t *testing.T) {
	seen := make(map[reflect.Type]bool)
	var walk func(typ reflect.Type)
	walk = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(typ.Elem())
			return
		case reflect.Struct:
		default:
			return
		}
		if seen[typ] || typ.PkgPath() != reflect.TypeFor[event.Event]().PkgPath() {
			return
		}
		seen[typ] = true
		var members map[string]json.RawMessage
		data, err := json.Marshal(reflect.Zero(typ).Interface())
		if err == nil { // the zero ItemDone cannot be encoded
			err = json.Unmarshal(data, &members)
		}
		for i := range typ.NumField() {
			f := typ.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Type.Kind() == reflect.Slice && f.Type != reflect.TypeFor[json.RawMessage]() && err == nil && string(members[name]) == "null" {
				t.Errorf("%v: %s is null", typ, name)
			}
			walk(f.Type)
		}
	}
	for _, b := range event.Bodies() {
		walk(reflect.TypeOf(b))
	}
	for _, f := range []event.FinalItem{event.Message{}, event.Reasoning{}, event.FunctionCall{}, event.FunctionCallOutput{}, event.Plan{}} {
		walk(reflect.TypeOf(f))
	}
	if len(seen) < 25 {
		t.Errorf("only %d types were checked", len(seen))
	}
}
