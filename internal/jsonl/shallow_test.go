package jsonl_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/internal/jsonl"
)

func nested(levels int, inner string) string {
	return strings.Repeat(`[`, levels) + inner + strings.Repeat(`]`, levels)
}

func TestShallow(t *testing.T) {
	const most = jsonl.MaxLevels
	tests := map[string]struct{ line, want string }{
		"flat":             {`{"a":1}`, `{"a":1}`},
		"many, not deep":   {`[` + strings.Repeat(`[],{},`, most) + `1]`, `[` + strings.Repeat(`[],{},`, most) + `1]`},
		"as deep as kept":  {nested(most, `1`), nested(most, `1`)},
		"one more":         {nested(most+1, `1`), nested(most, `null`)},
		"objects":          {strings.Repeat(`{"a":`, most+3) + `1` + strings.Repeat(`}`, most+3), strings.Repeat(`{"a":`, most) + `null` + strings.Repeat(`}`, most)},
		"two deep values":  {`{"a":` + nested(50_000, `1`) + `,"b":` + nested(20_000, ``) + `,"c":2}`, `{"a":` + nested(most-1, `null`) + `,"b":` + nested(most-1, `null`) + `,"c":2}`},
		"siblings":         {nested(most, `1,[2,[3]],{"x":4},5`), nested(most, `1,null,null,5`)},
		"in strings":       {`["` + nested(2*most, `\"[`) + `"]`, `["` + nested(2*most, `\"[`) + `"]`},
		"strings in a cut": {nested(most+1, `"]\"]\\"`), nested(most, `null`)},
		"not closed":       {strings.Repeat(`[`, 2*most), strings.Repeat(`[`, 2*most)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := strings.Clone(tt.line)
			got := string(jsonl.Shallow([]byte(tt.line)))
			if got != tt.want {
				t.Errorf("got %.200q of %d bytes, want %.200q of %d", got, len(got), tt.want, len(tt.want))
			}
			if name != "not closed" && !json.Valid([]byte(got)) {
				t.Error("the result is no JSON")
			}
			if before != tt.line {
				t.Error("the line was changed")
			}
		})
	}
}

func TestCrowded(t *testing.T) {
	const most = jsonl.MaxValues
	for name, tt := range map[string]struct {
		line string
		want bool
	}{
		"list":                {`[` + strings.Repeat(`0,`, most) + `0]`, false},
		"longer list":         {`[` + strings.Repeat(`0,`, most+1) + `0]`, true},
		"nested lists":        {`[` + strings.Repeat(`[0,0],`, most/2+1) + `0]`, true},
		"objects":             {`{"a":[` + strings.Repeat(`{"b":1,"c":2},`, most/2+1) + `{}]}`, true},
		"text":                {`{"text":"` + strings.Repeat(`a,`, 2*most) + `"}`, false},
		"text with quotes":    {`{"text":"` + strings.Repeat(`\"a,\\\",`, most) + `"}`, false},
		"list after the text": {`{"text":"` + strings.Repeat(`,`, most) + `\\","a":[` + strings.Repeat(`0,`, most+1) + `0]}`, true},
	} {
		if got := jsonl.Crowded([]byte(tt.line)); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
