// Package testschema parses the OpenAPI document of the API as a client does,
// and checks JSON values against its schemas, for tests.
package testschema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A Schema holds the fields of an OpenAPI schema that tests use.
type Schema struct {
	Ref           string `json:"$ref"`
	Type          any
	Description   string
	Properties    map[string]*Schema
	Required      []string
	Items         *Schema
	OneOf         []*Schema
	Enum          []any
	Additional    any              `json:"additionalProperties"`
	Statuses      map[string][]int `json:"x-statuses"` // HTTP status codes of errors, by error type
	Discriminator *struct {
		PropertyName string
		Mapping      map[string]string
	}
}

// AdditionalSchema returns the schema of members that are not in Properties, or
// nil if there is none.
func (s *Schema) AdditionalSchema() (one *Schema) {
	more, ok := s.Additional.(map[string]any)
	if !ok {
		return nil
	}
	data, _ := json.Marshal(more)  // cannot fail: JSON was decoded into more
	_ = json.Unmarshal(data, &one) // cannot fail: the document was decoded in the same way
	return one
}

// A Media is the schema of one media type.
type Media struct{ Schema *Schema }

// A Parameter is a parameter of an operation.
type Parameter struct {
	Name, In string
	Required bool
	Schema   *Schema
}

// An Operation is a route with its method.
type Operation struct {
	OperationID, Description string
	Tags                     []string
	Parameters               []Parameter
	RequestBody              *struct {
		Required bool
		Content  map[string]Media
	}
	Responses map[string]struct {
		Description string
		Content     map[string]Media
	}
	Security []map[string][]string
}

// A Document is the OpenAPI document.
type Document struct {
	Paths      map[string]map[string]*Operation // by path and method in lower case
	Components struct{ Schemas map[string]*Schema }
	Tags       []struct{ Name string }
	WebSocket  struct {
		Path           string
		Client, Server *Schema
	} `json:"x-websocket"`
}

// Parse parses a document.
func Parse(data []byte) (Document, error) {
	var d Document
	err := json.Unmarshal(data, &d)
	return d, err
}

// Resolve follows the references of s.
func (d Document) Resolve(s *Schema) *Schema {
	for s != nil && s.Ref != "" {
		s = d.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
	}
	return s
}

// Members returns the schemas of a union by the values of its discriminator.
func (d Document) Members(s *Schema) map[string]*Schema {
	out := make(map[string]*Schema)
	for value, target := range d.Resolve(s).Discriminator.Mapping {
		out[value] = d.Resolve(&Schema{Ref: target})
	}
	return out
}

// Check returns the first deviation of v from s, or "". v must have been
// decoded from JSON. path is the location of v, for the result. A member that s
// does not describe is a deviation.
func (d Document) Check(s *Schema, v any, path string) string {
	if s = d.Resolve(s); s == nil {
		return path + ": no schema"
	}
	if s.Discriminator != nil {
		return d.chosen(s, v, path)
	}
	if len(s.OneOf) > 0 {
		return d.oneOf(s, v, path)
	}
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, v) {
		return fmt.Sprintf("%s: %v is none of %v", path, v, s.Enum)
	}
	if !typed(s.Type, v) {
		return fmt.Sprintf("%s: %T is no %v", path, v, s.Type)
	}
	switch v := v.(type) {
	case []any:
		for i, e := range v {
			if why := d.Check(s.Items, e, fmt.Sprintf("%s.%d", path, i)); s.Items != nil && why != "" {
				return why
			}
		}
	case map[string]any:
		return d.object(s, v, path)
	}
	return ""
}

// chosen checks v against the member of a union that the discriminator selects.
func (d Document) chosen(s *Schema, v any, path string) string {
	m, _ := v.(map[string]any)
	value, _ := m[s.Discriminator.PropertyName].(string)
	target, ok := s.Discriminator.Mapping[value]
	if !ok {
		return fmt.Sprintf("%s: no member for %s %q", path, s.Discriminator.PropertyName, value)
	}
	return d.Check(&Schema{Ref: target}, v, path)
}

func (d Document) oneOf(s *Schema, v any, path string) string {
	var whys []string
	for _, one := range s.OneOf {
		why := d.Check(one, v, path)
		if why == "" {
			return ""
		}
		whys = append(whys, why)
	}
	return path + ": fits none: " + strings.Join(whys, "; ")
}

func (d Document) object(s *Schema, v map[string]any, path string) string {
	for _, name := range s.Required {
		if _, ok := v[name]; !ok {
			return path + "." + name + ": is missing"
		}
	}
	for name, e := range v {
		p := s.Properties[name]
		if p == nil && (s.Additional == true || s.Type == nil) {
			continue
		}
		if p == nil {
			if p = s.AdditionalSchema(); p == nil {
				return path + "." + name + ": is not described"
			}
		}
		if why := d.Check(p, e, path+"."+name); why != "" {
			return why
		}
	}
	return ""
}

func typed(want, v any) bool {
	if list, ok := want.([]any); ok {
		return slices.ContainsFunc(list, func(one any) bool { return typed(one, v) })
	}
	switch want {
	case nil:
		return true
	case "null":
		return v == nil
	case "integer", "number":
		_, ok := v.(float64)
		return ok
	case "string":
		_, ok := v.(string)
		return ok
	case "boolean":
		_, ok := v.(bool)
		return ok
	case "array":
		_, ok := v.([]any)
		return ok
	}
	_, ok := v.(map[string]any)
	return ok
}
