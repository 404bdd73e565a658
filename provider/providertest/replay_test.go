package providertest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel/event"
)

// TestOnlyTiedCallsMayChangePlaces checks what Subject.TiedCalls ignores: the
// order of calls with the same stored start, and nothing else.
func TestOnlyTiedCallsMayChangePlaces(t *testing.T) {
	early, late := time.UnixMilli(1), time.UnixMilli(2)
	call := func(id, name string, at time.Time) event.Item {
		return event.Item{ID: id, Turn: "t", Type: event.TypeFunctionCall, CallID: name, Content: name, StartedAt: at}
	}
	output := func(id, name string) event.Item {
		return event.Item{ID: id + ":output", Turn: "t", Type: event.TypeFunctionCallOutput, CallID: name, Content: "of " + name, StartedAt: late}
	}
	live := []event.Item{call("1:0", "one", early), call("2:0", "two", early), output("1:0", "one"), output("2:0", "two")}
	for _, c := range []struct {
		name         string
		stored, want []event.Item
	}{
		{
			"tied",
			[]event.Item{call("1:0", "two", early), call("2:0", "one", early), output("1:0", "two"), output("2:0", "one")},
			[]event.Item{call("1:0", "one", early), call("2:0", "two", early), output("2:0", "two"), output("1:0", "one")},
		},
		{
			"not tied",
			[]event.Item{call("1:0", "two", early), call("2:0", "one", late), output("1:0", "two"), output("2:0", "one")},
			[]event.Item{call("1:0", "two", early), call("2:0", "one", late), output("1:0", "two"), output("2:0", "one")},
		},
		{
			"another content",
			[]event.Item{call("1:0", "two", early), call("2:0", "three", early)},
			[]event.Item{call("1:0", "three", early), call("2:0", "two", early)},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, untie(c.stored, live)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
