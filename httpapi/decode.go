package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/runnel-dev/runnel"
)

const maxBody = 1 << 20 // bytes of a JSON body

// wantsJSON refuses what a form or a beacon of any page can send without asking.
func wantsJSON(r *http.Request) error {
	mt, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset := params["charset"]
	if err != nil || mt != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return refuse(http.StatusUnsupportedMediaType, "send Content-Type: application/json")
	}
	return nil
}

// decode reads the JSON body of r into v, a pointer to a struct. No body is an
// empty object.
func (s *Server) decode(w http.ResponseWriter, r *http.Request, v any) error {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, big := errors.AsType[*http.MaxBytesError](err); big {
		return runnel.Fail(runnel.PayloadTooLarge, fmt.Sprintf("the body is larger than %d bytes; send files as uploads", maxBody))
	}
	if err != nil {
		return refuse(http.StatusRequestTimeout, "the body did not arrive")
	}
	// The body is here; what follows may stream for hours.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	if len(data) == 0 {
		return nil
	}
	return decodeStrict(data, v)
}

// decodeStrict is json.Unmarshal for bodies that decide something: unlike that,
// it takes keys only as they are written and only those it knows.
func decodeStrict(data []byte, v any) error {
	if err := checkJSON(data); err != nil {
		return invalid(err.Error())
	}
	if err := checkKeys(data, reflect.TypeOf(v), ""); err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return invalid(mismatch(err))
	}
	return nil
}

// mismatch says which field has the wrong type, in JSON's words.
func mismatch(err error) string {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Sprintf("%s: a %s does not fit here", e.Field, e.Value)
	}
	return "the body does not fit"
}

var raw = reflect.TypeFor[json.RawMessage]()

// checkKeys compares the keys of data, which is valid JSON, with the fields of
// t. Raw messages are not looked into.
func checkKeys(data []byte, t reflect.Type, path string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == raw || string(data) == "null" {
		return nil
	}
	switch t.Kind() {
	case reflect.Struct:
		var members map[string]json.RawMessage
		if json.Unmarshal(data, &members) != nil {
			return nil // decoding will say that it is no object
		}
		fields := jsonFields(t)
		for key, value := range members {
			ft, ok := fields[key]
			if !ok {
				return invalid(path + unknown(key, fields))
			}
			if err := checkKeys(value, ft, path+key+"."); err != nil {
				return err
			}
		}
	case reflect.Slice:
		var elems []json.RawMessage
		if t.Elem().Kind() == reflect.Uint8 || json.Unmarshal(data, &elems) != nil {
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

func unknown(key string, fields map[string]reflect.Type) string {
	for name := range fields {
		if fold(name) == fold(key) {
			return fmt.Sprintf("%s: write this key as %q", quoted(key), name)
		}
	}
	known := make([]string, 0, len(fields))
	for name := range fields {
		known = append(known, name)
	}
	slices.Sort(known)
	return fmt.Sprintf("%s: unknown field; known are %s", quoted(key), strings.Join(known, ", "))
}

// jsonFields returns the fields of a struct by their names in JSON.
func jsonFields(t reflect.Type) map[string]reflect.Type {
	out := make(map[string]reflect.Type)
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && name != "-" && name != "" {
			out[name] = f.Type
		}
	}
	return out
}

// fold maps keys that encoding/json takes for one another to the same string,
// among them the long s and the Kelvin sign.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return least
	}, s)
}

func invalid(message string) error { return runnel.Fail(runnel.InvalidRequest, message) }
