package jsonl_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel/internal/jsonl"
)

func TestAppend(t *testing.T) {
	for message, want := range map[string]string{
		`{"a":1}`:           `{"a":1}` + "\n",
		" 1 ":               " 1 \n",
		"\"\u2028\"":        `"\u2028"` + "\n",
		"\"x\u2029\u2028\"": `"x\u2029\u2028"` + "\n",
		"\"\u2027 \u202a\"": "\"\u2027 \u202a\"\n",
		"\"\xe2\x80":        "\"\xe2\x80\n",
	} {
		got, err := jsonl.Append([]byte("before\n"), []byte(message))
		if err != nil || string(got) != "before\n"+want {
			t.Errorf("Append(%q) = %q, %v", message, got, err)
		}
	}
	for _, message := range []string{"", " ", "\t", "a\nb", "a\r", "\n", "{\"x\":1}\n{\"type\":\"control_request\"}"} {
		got, err := jsonl.Append([]byte("before"), []byte(message))
		if !errors.Is(err, jsonl.ErrNotALine) || string(got) != "before" {
			t.Errorf("Append(%q) = %q, %v", message, got, err)
		}
	}
}

// FuzzAppend checks that a Reader returns each message that Append accepts as
// one line, with the same JSON value.
func FuzzAppend(f *testing.F) {
	for _, s := range []string{`{"a":"b"}`, "\"\u2028\u2029\"", "\xe2\x80", " ", "a\rb", "[\"\u2028\", 1]"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		framed, err := jsonl.Append(nil, message)
		if err != nil {
			return
		}
		got, _ := readAll(t, bytes.NewReader(append(framed, "next\n"...)), 0)
		if len(got) != 2 || got[1].Line != "next" {
			t.Fatalf("%q became %d lines", message, len(got))
		}
		if !json.Valid(message) {
			return
		}
		var want, have any
		if err := json.Unmarshal(message, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(got[0].Line), &have); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, have); diff != "" {
			t.Error(diff)
		}
	})
}
