package httpapi

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

const componentPrefix = "#/components/schemas/"

// schemas makes and keeps the components of the OpenAPI document: one for
// each struct, and one for each enumerated type. Unlike huma's own registry, it
// describes no list and no pointer as nullable. Answers omit absent values, and
// an empty list is [] in them.
type schemas struct {
	named map[string]*huma.Schema
	types map[string]reflect.Type
	enums map[reflect.Type][]any
	err   error // the first contradiction between types
}

var _ huma.Registry = (*schemas)(nil)

func newSchemas() *schemas {
	return &schemas{named: make(map[string]*huma.Schema), types: make(map[string]reflect.Type), enums: enums()}
}

// Schema implements [huma.Registry].
func (s *schemas) Schema(t reflect.Type, allowRef bool, hint string) *huma.Schema {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	values := s.enums[t]
	if values == nil && !isObject(t) {
		made := huma.SchemaFromType(s, t)
		if made != nil {
			made.Nullable = false
		}
		return made
	}
	name := schemaName(t, hint)
	if other := s.types[name]; other != nil && other != t {
		s.fail(fmt.Errorf("httpapi: %v and %v have the same name in the document: %s", other, t, name))
		return ref(name)
	}
	if s.named[name] == nil {
		s.types[name], s.named[name] = t, new(huma.Schema) // stored first, because the type may refer to itself
		if values != nil {
			*s.named[name] = huma.Schema{Type: huma.TypeString, Enum: values}
		} else {
			*s.named[name] = *huma.SchemaFromType(s, t)
		}
	}
	if !allowRef {
		return s.named[name]
	}
	return ref(name)
}

// isObject reports whether values of t are JSON objects that have the fields of
// t.
func isObject(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t != reflect.TypeFor[time.Time]() &&
		!reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// fail records the first error, which [describe] returns. The methods of a
// [huma.Registry] cannot return one.
func (s *schemas) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// define adds a component and returns a reference to it.
func (s *schemas) define(name string, made *huma.Schema) *huma.Schema {
	if s.named[name] != nil {
		s.fail(errors.New("httpapi: two schemas have the same name in the document: " + name))
	}
	s.named[name] = made
	return ref(name)
}

// fields returns the schema of v's type, a struct, without making it a
// component.
func (s *schemas) fields(v any) *huma.Schema { return huma.SchemaFromType(s, reflect.TypeOf(v)) }

// SchemaFromRef implements [huma.Registry].
func (s *schemas) SchemaFromRef(ref string) *huma.Schema {
	return s.named[strings.TrimPrefix(ref, componentPrefix)]
}

// TypeFromRef implements [huma.Registry].
func (s *schemas) TypeFromRef(ref string) reflect.Type {
	return s.types[strings.TrimPrefix(ref, componentPrefix)]
}

// Map implements [huma.Registry].
func (s *schemas) Map() map[string]*huma.Schema { return s.named }

// RegisterTypeAlias implements [huma.Registry]. There are no aliases.
func (s *schemas) RegisterTypeAlias(reflect.Type, reflect.Type) {}

// MarshalJSON implements [json.Marshaler].
func (s *schemas) MarshalJSON() ([]byte, error) { return json.Marshal(s.named) }

func ref(name string) *huma.Schema { return &huma.Schema{Ref: componentPrefix + name} }

// reach calls f once for each schema that roots contain or refer to. name is
// the component that contains the schema; "" if none does.
func (s *schemas) reach(roots []*huma.Schema, f func(name string, s *huma.Schema)) {
	seen := make(map[string]bool)
	var walk func(name string, at *huma.Schema)
	walk = func(name string, at *huma.Schema) {
		if at == nil {
			return
		}
		if at.Ref != "" {
			target := strings.TrimPrefix(at.Ref, componentPrefix)
			if !seen[target] {
				seen[target] = true
				walk(target, s.named[target])
			}
			return
		}
		f(name, at)
		for _, one := range slices.Concat(at.OneOf, []*huma.Schema{at.Items}) {
			walk(name, one)
		}
		for _, p := range at.Properties {
			walk(name, p)
		}
		if more, ok := at.AdditionalProperties.(*huma.Schema); ok {
			walk(name, more)
		}
	}
	for _, root := range roots {
		walk("", root)
	}
}

// finish removes the components that nothing refers to. Objects in answers
// allow further fields, so that a later server may add some; objects in
// requests do not.
func (s *schemas) finish(requests, answers []*huma.Schema) {
	used := make(map[string]bool)
	s.reach(requests, func(name string, _ *huma.Schema) { used[name] = true })
	s.reach(answers, func(name string, at *huma.Schema) {
		if at.AdditionalProperties == false {
			if used[name] && name != "" {
				s.fail(errors.New("httpapi: requests and answers share " + name + ", which takes no further fields in a request and any in an answer: give the answer its own type"))
			}
			at.AdditionalProperties = nil
		}
	})
	s.reach(answers, func(name string, _ *huma.Schema) { used[name] = true })
	maps.DeleteFunc(s.named, func(name string, _ *huma.Schema) bool { return !used[name] })
	for _, at := range s.named {
		for _, p := range at.Properties {
			s.narrow(p)
		}
	}
}

// narrow corrects a field whose tag lists values although its type is an
// enumerated component. If the tag lists all values of the type, the component
// is enough. If it lists fewer, the field gets a schema of its own.
func (s *schemas) narrow(p *huma.Schema) {
	if p.Ref == "" || len(p.Enum) == 0 {
		return
	}
	if len(s.SchemaFromRef(p.Ref).Enum) == len(p.Enum) {
		p.Enum = nil
	} else {
		p.Ref, p.Type = "", huma.TypeString
	}
}

// schemaName returns the name of the component for a type.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	switch pkg := t.PkgPath(); {
	case strings.HasSuffix(pkg, "/gateway") && name == "Status":
		return "SessionStatus"
	case strings.HasSuffix(pkg, "/changes") && (name == "Status" || name == "State"):
		return "Folder" + name
	case strings.HasSuffix(pkg, "/upsert") && slices.Contains([]string{"Approval", "Notice", "Usage", "Kind", "Status"}, name):
		return "Upsert" + name // types of package event have the names without prefix
	case strings.HasSuffix(pkg, "/event") && name == "Attachment":
		return "SentAttachment"
	case strings.HasSuffix(pkg, "/stream") && strings.HasSuffix(name, "Frame"):
		return strings.TrimSuffix(name, "Frame") + "Data" // the frame is another component, which contains it
	case name == "Ref":
		return "Attachment"
	case name == "From":
		return "OptionSource"
	case name == "ErrorBody":
		return "Error"
	case name == "TokenRow":
		return "Token"
	case name == "Level":
		return "NoticeLevel"
	case name == "Code":
		return "ErrorType" // its name on the wire is type
	}
	return name
}
