package httpapi

import (
	"encoding/json"
	"strings"
	"testing"
)

// A token's name appears in logs, on terminals and as the maker of a decision.
// It must not look like several lines, like nothing, or like another name.
func TestTokenNameIsOneVisibleLine(t *testing.T) {
	rg := newRig(t)
	for name, want := range map[string]int{
		"ci": 201, "Mein Büro 2": 201, "日本語": 201, "a/b_c-d.e@f": 201, strings.Repeat("x", 100): 201,
		"": 400, strings.Repeat("x", 101): 400, " ": 400, " ci": 400, "ci ": 400, "a\nb": 400, "a\tb": 400, "a\x1b[31mb": 400, "a\u0085b": 400,
		"\u202eci": 400, "ci\u200b": 400, "a\u2028b": 400, "\ufeffci": 400, "\U000e0041ci": 400,
	} {
		body, _ := json.Marshal(map[string]any{"name": name, "scopes": []string{"read"}})
		if w := rg.do("POST", "/api/tokens", string(body)); w.Code != want {
			t.Errorf("%q: got %d %s, want %d", name, w.Code, w.Body, want)
		}
	}
}
