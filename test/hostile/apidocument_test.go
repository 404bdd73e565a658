//go:build linux

package hostile

import (
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

// An apiSchema is the part of a JSON schema that the fuzzers use.
type apiSchema struct {
	Ref        string `json:"$ref"`
	Type       any
	Properties map[string]*apiSchema
	Required   []string
	Items      *apiSchema
	OneOf      []*apiSchema
	Enum       []any
	Statuses   map[string][]int `json:"x-statuses"`

	Discriminator struct{ Mapping map[string]string }
}

// An apiOperation is a route with its method.
type apiOperation struct {
	method, path string
	Parameters   []struct {
		Name, In string
		Schema   *apiSchema
	}
	RequestBody *struct {
		Content map[string]struct{ Schema *apiSchema }
	}
	Responses map[string]any
}

// An apiDocument is the OpenAPI document, as the built program serves it.
type apiDocument struct {
	Paths      map[string]map[string]*apiOperation
	Components struct{ Schemas map[string]*apiSchema }
	WebSocket  struct {
		Path           string
		Client, Server *apiSchema
	} `json:"x-websocket"`

	list     []*apiOperation  // in a fixed order, so that a seed makes the same requests
	statuses map[string][]int // HTTP statuses of errors, by error type
}

func parseDocument(data []byte) (*apiDocument, error) {
	d := new(apiDocument)
	if err := json.Unmarshal(data, d); err != nil {
		return nil, err
	}
	for path, methods := range d.Paths {
		for method, op := range methods {
			op.method, op.path = strings.ToUpper(method), path
			d.list = append(d.list, op)
		}
	}
	d.list = append(d.list, &apiOperation{method: http.MethodGet, path: d.WebSocket.Path})
	slices.SortFunc(d.list, func(a, b *apiOperation) int {
		return strings.Compare(a.path+" "+a.method, b.path+" "+b.method)
	})
	if typ := d.Components.Schemas["ErrorType"]; typ != nil {
		d.statuses = typ.Statuses
	}
	if len(d.list) == 0 || len(d.statuses) == 0 {
		return nil, fmt.Errorf("the document lists %d operations, and the statuses of %d errors", len(d.list), len(d.statuses))
	}
	return d, nil
}

func (d *apiDocument) resolve(s *apiSchema) *apiSchema {
	for s != nil && s.Ref != "" {
		s = d.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
	}
	return s
}

// members returns the names that the members of a union have on the wire.
func (d *apiDocument) members(union *apiSchema) []string {
	return slices.Sorted(maps.Keys(d.resolve(union).Discriminator.Mapping))
}

// judge returns what is wrong with a response; "" if nothing is. A success must
// have a status that the document lists for the operation. op is nil if the
// request may have been for any operation. Every error must have the form of
// the API and a status that belongs to its type.
func (d *apiDocument) judge(op *apiOperation, res *http.Response, body []byte) string {
	switch {
	case res.StatusCode == http.StatusInternalServerError:
		return "an internal error"
	case res.StatusCode < 300:
		if op != nil && op.path != d.WebSocket.Path && op.Responses[fmt.Sprint(res.StatusCode)] == nil {
			return "success with a status that the document does not list"
		}
		return ""
	case res.StatusCode < 400:
		return "a redirect"
	}
	if res.Request != nil && res.Request.Method == http.MethodHead {
		return ""
	}
	if typ, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); typ != "application/json" {
		return "an error whose media type is " + typ
	}
	var answer struct{ Error json.RawMessage }
	if err := strict(body, &answer); err != nil {
		return "no error of the API: " + err.Error()
	}
	if what := d.problem(answer.Error, res.StatusCode); what != "" {
		return what
	}
	if op != nil && op.path != d.WebSocket.Path && op.Responses[fmt.Sprint(res.StatusCode)] == nil && !strings.Contains(string(answer.Error), `"INVALID_REQUEST"`) {
		return "an error whose status the document does not list for the operation"
	}
	return ""
}

// problem returns what is wrong with an error object; "" if nothing is. status
// is 0 for an error without an HTTP status.
func (d *apiDocument) problem(data []byte, status int) string {
	var p struct {
		Type, Message string
		Details       any
	}
	if err := strict(data, &p); err != nil {
		return "no problem of the API: " + err.Error()
	}
	listed, ok := d.statuses[p.Type]
	switch {
	case !ok:
		return "an error whose type the document does not list: " + p.Type
	case p.Type == "INTERNAL":
		return "an internal error"
	case status != 0 && !slices.Contains(listed, status):
		return fmt.Sprintf("%s with the status %d; the document lists %v", p.Type, status, listed)
	case p.Message == "" || len(p.Message) > 2<<10 || !utf8.ValidString(p.Message):
		return fmt.Sprintf("a message of %d bytes", len(p.Message))
	}
	return ""
}

// strict decodes one JSON value into v. It rejects unknown members and data
// after the value.
func strict(data []byte, v any) error {
	dec := json.NewDecoder(strings.NewReader(string(data)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if dec.More() {
		return fmt.Errorf("something follows the value")
	}
	return nil
}
