package event

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestListsHaveNoLongChangesOfAnApproval(t *testing.T) {
	short := Approval{ID: "a", Arguments: json.RawMessage(`{"x":"<"}`), Changes: []Change{{Path: "p", Kind: ChangeUpdate, Hunks: []Hunk{{Lines: []string{"+a"}}}}}}
	if got := short.Outline(); !reflect.DeepEqual(got, short) {
		t.Errorf("%+v", got)
	}
	long := strings.Repeat("<", 10_000) // of which JSON makes 60 kB
	for name, c := range map[string]Change{
		"lines": {Hunks: []Hunk{{Lines: []string{long}}}},
		"edits": {Edits: []Edit{{Old: long, New: long}}},
		"old":   {OldText: &long},
		"new":   {NewText: &long},
		"path":  {Path: strings.Repeat("<", MaxPath)},
	} {
		a := short
		for i := range 200 {
			c := c
			c.Path += fmt.Sprint("p", i)
			a.Changes = append(a.Changes, c)
		}
		got := a.Outline()
		if n := len(got.Changes); n == 0 || name != "path" && n != 201 || got.Changes[1].Path != a.Changes[1].Path {
			t.Errorf("%s: %d changes", name, n)
		}
		data, err := json.Marshal(got)
		if err != nil || len(data) > maxListedChanges+1000 || a.Listed() != len(data) {
			t.Errorf("%s: %d bytes, said to be %d, %v", name, len(data), a.Listed(), err)
		}
		if len(a.Changes[1].Hunks) != len(c.Hunks) {
			t.Errorf("%s: the approval itself was changed", name)
		}
	}
}
