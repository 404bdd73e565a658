package runnel

import (
	"reflect"
	"testing"

	"github.com/runnel-dev/runnel/event"
)

func TestAgentGetsOnlySettingsThatDiffer(t *testing.T) {
	all := Settings{Model: "m", PermissionMode: ModePlan, ReasoningEffort: "low", Config: Values{"a": "1"}}
	model := func(id string) event.Body { return event.SessionUpdated{ModelID: id} }
	for name, tt := range map[string]struct {
		gave   []Settings
		events []event.Body
		want   Settings
	}{
		"all is as it was started":         {want: Settings{}},
		"another model":                    {gave: []Settings{{Model: "n"}}, want: Settings{Model: "m", Config: Values{"a": "1"}}},
		"another model and back":           {gave: []Settings{{Model: "n"}, {Model: "m"}}, want: Settings{Config: Values{"a": "1"}}},
		"a setting of its own":             {gave: []Settings{{Config: Values{"b": "1"}}}, want: Settings{Model: "m", PermissionMode: ModePlan, ReasoningEffort: "low"}},
		"its own name of the model":        {events: []event.Body{model("m-2026"), model("m-2026")}, want: Settings{}},
		"a model of its own choice":        {events: []event.Body{model("m-2026"), model("n-2026")}, want: Settings{Model: "m"}},
		"a mode of its own choice":         {events: []event.Body{event.SessionUpdated{PermissionMode: "default"}}, want: Settings{PermissionMode: ModePlan}},
		"it reports the setting":           {events: []event.Body{event.SessionUpdated{Config: []event.ConfigOption{{ID: "a", Value: "1"}}}}, want: Settings{}},
		"it reports another value":         {events: []event.Body{event.SessionUpdated{Config: []event.ConfigOption{{ID: "a", Value: "2"}}}}, want: Settings{Config: Values{"a": "1"}}},
		"it reports another effort":        {events: []event.Body{event.SessionUpdated{Config: []event.ConfigOption{{ID: "x", Category: "effort", Value: "high"}}}}, want: Settings{ReasoningEffort: "low"}},
		"it refused a setting":             {events: []event.Body{event.Notice{Code: optionRefused}}, want: all},
		"a notice about something else":    {events: []event.Body{event.Notice{Code: "RETRYING"}}, want: Settings{}},
		"a report about something else":    {events: []event.Body{event.SessionUpdated{Title: "x"}}, want: Settings{}},
		"an agent that was taken over":     {events: []event.Body{event.Notice{Code: optionRefused}, model("m")}, want: all},
		"a report after another was given": {gave: []Settings{{Model: "n"}}, events: []event.Body{model("n-2026")}, want: Settings{Model: "m", Config: Values{"a": "1"}}},
	} {
		g := startedWith(Options{Model: "m", PermissionMode: ModePlan, ReasoningEffort: "low", Config: Values{"a": "1"}})
		for _, set := range tt.gave {
			g.gave(g.missing(set))
		}
		for _, b := range tt.events {
			switch b := b.(type) {
			case event.SessionUpdated:
				g.reported(b)
			case event.Notice:
				g.noticed(b)
			}
		}
		if got := g.missing(all); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
		}
	}
}
