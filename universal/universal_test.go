package universal_test

import (
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/universal"
)

func TestFieldsAreBounded(t *testing.T) {
	long := strings.Repeat("é", 70_000)
	for _, b := range []event.Body{
		event.ItemDone{ItemID: "x", FinalItem: event.Message{Content: "a" + long, Origin: event.OriginAgent}},
		event.ResponseError{Error: event.Fault{Code: "X", Message: long}},
		event.ItemDone{ItemID: "x", FinalItem: event.FunctionCall{Name: strings.Repeat("n", 200), CallID: "c", Arguments: []byte(`"` + long + `"`)}},
	} {
		text := ""
		for _, u := range universal.From("script", b) {
			if len(u.Channel) > 128 || len(u.Text) > 65_536 || len(u.Message) > 4_096 || len(u.Data) > 65_536 {
				t.Errorf("%T: %d %d %d %d", b, len(u.Channel), len(u.Text), len(u.Message), len(u.Data))
			}
			if !strings.HasPrefix(string(u.Kind), "T") && u.Kind != universal.ErrorInfo {
				t.Error(u.Kind)
			}
			text += u.Text
		}
		if _, ok := b.(event.ItemDone); ok && text != "" && text != "a"+long {
			t.Error("the text was not kept whole")
		}
	}
}
