// Package strictjson decodes JSON that every parser understands in the same
// way, into structs that define the allowed keys.
package strictjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// Decode is [json.Unmarshal] for request bodies, where a misread key could
// change a decision. It rejects data that [Check] rejects, keys that v does not
// have, and keys whose case differs.
func Decode(data []byte, v any) error {
	if err := Check(data); err != nil {
		return err
	}
	if err := checkKeys(data, reflect.TypeOf(v), ""); err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return errors.New(mismatch(err))
	}
	return nil
}

// mismatch returns which field has the wrong type, with JSON's names of types.
func mismatch(err error) string {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Sprintf("%s: a %s does not fit here", e.Field, e.Value)
	}
	return "the body does not fit"
}

// Raw is the type of JSON values that are passed on unparsed.
var Raw = reflect.TypeFor[json.RawMessage]()

// checkKeys checks that t has a field for every key of data, which is valid
// JSON. It does not check inside values of type Raw.
func checkKeys(data []byte, t reflect.Type, path string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == Raw || string(data) == "null" {
		return nil
	}
	switch t.Kind() {
	case reflect.Struct:
		var members map[string]json.RawMessage
		if json.Unmarshal(data, &members) != nil {
			return nil // json.Unmarshal in Decode reports that it is no object
		}
		fields := Fields(t)
		for key, value := range members {
			ft, ok := fields[key]
			if !ok {
				return errors.New(path + Unknown(key, fields))
			}
			if err := checkKeys(value, ft, path+key+"."); err != nil {
				return err
			}
		}
	case reflect.Slice:
		if tooLong(data) {
			return errTooLong(strings.TrimSuffix(path, "."))
		}
		var elems []json.RawMessage
		if t.Elem() == Raw || t.Elem().Kind() == reflect.Uint8 || json.Unmarshal(data, &elems) != nil {
			return nil
		}
		for i, e := range elems {
			if err := checkKeys(e, t.Elem(), fmt.Sprintf("%s%d.", path, i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// tooLong reports whether data, which is valid JSON, is an array with too many
// elements. It decodes nothing, because the elements of a long array can take
// much more memory than data.
func tooLong(data []byte) bool {
	s := &scanner{data: data}
	if s.peek() != '[' {
		return false
	}
	s.pos++
	for n := 0; s.peek() != ']'; n++ {
		if n == MaxElements || s.value(0) != nil {
			return n == MaxElements
		}
		if s.peek() == ',' {
			s.pos++
		}
	}
	return false
}

func errTooLong(field string) error {
	return fmt.Errorf("%s: has more than %d elements", field, MaxElements)
}

// Unknown returns the error text for a key that is none of fields. It suggests
// the field that differs from key only in case, if there is one.
func Unknown(key string, fields map[string]reflect.Type) string {
	for name := range fields {
		if fold(name) == fold(key) {
			return fmt.Sprintf("%s: write this key as %q", Quote(key), name)
		}
	}
	known := make([]string, 0, len(fields))
	for name := range fields {
		known = append(known, name)
	}
	if len(known) == 0 {
		return Quote(key) + ": unknown field; this request has no fields"
	}
	slices.Sort(known)
	return fmt.Sprintf("%s: unknown field; known are %s", Quote(key), strings.Join(known, ", "))
}

// Fields returns the types of a struct's fields by their JSON names.
func Fields(t reflect.Type) map[string]reflect.Type {
	out := make(map[string]reflect.Type)
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && name != "-" && name != "" {
			out[name] = f.Type
		}
	}
	return out
}

// fold maps keys that encoding/json treats as equal to the same string. They
// may differ in case, and contain the long s or the Kelvin sign.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return least
	}, s)
}

// Almost reports whether key equals one of fields, ignoring case.
func Almost(key string, fields map[string]reflect.Type) bool {
	for name := range fields {
		if fold(name) == fold(key) {
			return true
		}
	}
	return false
}

// Fit decodes the members of an object into v. name is the prefix of fields in
// errors; if it is empty there is no prefix.
func Fit(name string, members map[string]json.RawMessage, v any) error {
	for field, t := range Fields(reflect.TypeOf(v).Elem()) {
		if t != Raw && tooLong(members[field]) {
			return errTooLong(strings.TrimPrefix(name+"."+field, "."))
		}
	}
	data, err := json.Marshal(members)
	if err != nil {
		return errors.New(strings.TrimPrefix(name+": not JSON", ": "))
	}
	if err := json.Unmarshal(data, v); err != nil {
		return errors.New(strings.TrimPrefix(name+"."+mismatch(err), "."))
	}
	return nil
}
