//go:build unix

package docs

import (
	"bytes"
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
)

// pretty returns a response in the form in which a page shows it.
func pretty(out string) string {
	var b bytes.Buffer
	if json.Valid([]byte(out)) && json.Indent(&b, []byte(strings.TrimSpace(out)), "", "  ") == nil {
		return flatten(b.String()) + "\n"
	}
	if out = strings.TrimRight(out, "\n"); out == "" {
		return ""
	}
	return out + "\n"
}

// small is an object or array that contains no others.
var small = regexp.MustCompile(`(?m)([\[{])\n\s+([^\[\]{}]*?)\n\s*([\]}])`)

// flatten puts each object and array without nested ones on one line, if the
// line has at most 110 bytes.
func flatten(s string) string {
	return small.ReplaceAllStringFunc(s, func(found string) string {
		one := regexp.MustCompile(`\n\s*`).ReplaceAllString(found, " ")
		if len(one) > 110 {
			return found
		}
		return one
	})
}

// same reports whether a response equals the one on the page, except for the
// values of numbers, which count bytes, tokens and the like.
func same(want, got string) bool {
	a, okA := values(want)
	b, okB := values(got)
	if okA != okB {
		return false
	}
	if !okA {
		return numbers.ReplaceAllString(want, "0") == numbers.ReplaceAllString(got, "0")
	}
	return reflect.DeepEqual(a, b)
}

var numbers = regexp.MustCompile(`\d+`)

// values returns the JSON values of a response; for a stream, the names and the
// data of its frames. It reports false if there are none.
func values(s string) (out []any, ok bool) {
	if v, ok := value(s); ok {
		return []any{v}, true
	}
	for line := range strings.Lines(s) {
		if data, found := strings.CutPrefix(line, "data: "); found {
			v, valid := value(data)
			out, ok = append(out, v), valid
		} else if name, found := strings.CutPrefix(line, "event: "); found {
			out = append(out, name)
		}
	}
	return out, ok
}

func value(s string) (any, bool) {
	var v any
	if json.Unmarshal([]byte(s), &v) != nil {
		return nil, false
	}
	return zero(v), true
}

// zero replaces every number in v by zero.
func zero(v any) any {
	switch v := v.(type) {
	case float64:
		return 0.0
	case []any:
		for i := range v {
			v[i] = zero(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = zero(v[k])
		}
	}
	return v
}
