package stream

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/event"
)

// A frame has no field for what an agent does not report. No field is null.
func TestFramesOfTurnHoldNoNull(t *testing.T) {
	frames := NewTurnFrames("s", "t")
	for _, b := range []event.Body{
		event.ResponseStart{ProviderID: "p"},
		event.ItemStart{ItemID: "t:1:0", ItemType: event.TypePlan},
		event.ItemDone{ItemID: "t:1:0", FinalItem: event.Plan{}},
		event.ApprovalRequested{Approval: event.Approval{ID: "a", Kind: event.ApprovalTool}},
		event.ResponseDone{Status: event.StatusCompleted},
	} {
		for _, f := range frames.Push(event.Event{Session: "s", Turn: "t", Seq: 1, Body: b}) {
			data, err := json.Marshal(f.Data)
			if err != nil || strings.Contains(string(data), "null") {
				t.Errorf("%s: %s %v", f.Name, data, err)
			}
		}
	}
}
