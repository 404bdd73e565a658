//go:build unix

package conformance

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"mime"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/internal/testschema"
)

// An operation is a method of a route in the OpenAPI document.
type operation struct {
	*testschema.Operation
	method, path string
	scope        string // "" if it needs no credential
	status       int    // status of success
}

func (op operation) name() string { return op.method + " " + op.path }

// body returns the schema of the JSON request body; nil if there is none.
func (op operation) body(d testschema.Document) *testschema.Schema {
	if op.RequestBody == nil {
		return nil
	}
	return d.Resolve(op.RequestBody.Content["application/json"].Schema)
}

var neededScope = regexp.MustCompile(`^Requires the scope (\w+)\.`)

// document reads the committed OpenAPI document and its operations by path and
// method.
func document() (testschema.Document, []operation, error) {
	data, err := os.ReadFile("../../docs/openapi.json")
	if err != nil {
		return testschema.Document{}, nil, err
	}
	d, err := testschema.Parse(data)
	if err != nil {
		return d, nil, err
	}
	var list []operation
	for path, methods := range d.Paths {
		for method, o := range methods {
			op := operation{Operation: o, method: strings.ToUpper(method), path: path}
			if m := neededScope.FindStringSubmatch(o.Description); m != nil {
				op.scope = m[1]
			}
			for status := range o.Responses {
				if strings.HasPrefix(status, "2") {
					op.status = int(status[0]-'0')*100 + int(status[1]-'0')*10 + int(status[2]-'0')
				}
			}
			list = append(list, op)
		}
	}
	slices.SortFunc(list, func(a, b operation) int {
		return cmp.Or(strings.Compare(a.path, b.path), strings.Compare(a.method, b.method))
	})
	return d, list, nil
}

// conforms reports an error unless the document lists the response for the
// operation, with its media type and with a schema that fits its body.
// INVALID_REQUEST may have several HTTP statuses; the document lists them all
// as default.
func conforms(t *testing.T, d testschema.Document, op operation, a answer) {
	t.Helper()
	listed, ok := op.Responses[fmt.Sprint(a.status)]
	if !ok && bytes.Contains(a.body, []byte(`"type":"INVALID_REQUEST"`)) {
		listed, ok = op.Responses["default"]
	}
	if !ok {
		t.Fatalf("%s: got %d %s, which the document does not list", a.what, a.status, a.body)
	}
	if len(listed.Content) == 0 {
		if len(a.body) > 0 {
			t.Errorf("%s: got the body %s, want none", a.what, a.body)
		}
		return
	}
	media, _, _ := mime.ParseMediaType(a.header.Get("Content-Type"))
	content, ok := listed.Content[media]
	if !ok {
		t.Fatalf("%s: got the media type %q, which the document does not list", a.what, media)
	}
	for i, v := range values(t, media, a.body) {
		if why := d.Check(content.Schema, v, fmt.Sprint(media, " ", i)); why != "" {
			t.Errorf("%s: %s", a.what, why)
		}
	}
}

// values returns the values in a body to which its schema applies: the body
// itself, each line of JSON lines, or each frame of an event stream.
func values(t *testing.T, media string, body []byte) []any {
	t.Helper()
	var parts [][]byte
	switch media {
	case "application/json":
		parts = [][]byte{body}
	case "application/jsonl":
		parts = bytes.Split(bytes.TrimSpace(body), []byte("\n"))
	case "text/event-stream":
		return frameValues(t, body)
	default:
		return []any{string(body)}
	}
	var all []any
	for _, part := range parts {
		var v any
		if err := json.Unmarshal(part, &v); err != nil {
			t.Fatalf("%v in %s", err, part)
		}
		all = append(all, v)
	}
	return all
}

// frameValues returns the frames of an event stream in the form that the schema
// describes.
func frameValues(t *testing.T, body []byte) []any {
	t.Helper()
	var all []any
	for _, f := range readFrames(t, body) {
		v := object{"event": f.event, "data": f.data}
		if f.id != "" {
			v["id"] = f.id
		}
		all = append(all, v)
	}
	return all
}
