package main

import (
	"bytes"
	"encoding/json"
	"io"
)

// encoder returns a JSON encoder for standard output. It escapes characters
// that would control the terminal or be invisible. A program decodes the
// escapes to the same text.
func (a *app) encoder() *json.Encoder { return json.NewEncoder(visibleJSON{a.out}) }

// visibleJSON writes JSON to w. It escapes characters that would control the
// terminal or be invisible. No call of Write may split a character; a
// json.Encoder never does.
type visibleJSON struct{ w io.Writer }

// Write implements [io.Writer].
func (v visibleJSON) Write(p []byte) (int, error) {
	if bytes.IndexFunc(p, unseen) < 0 {
		return v.w.Write(p)
	}
	if _, err := io.WriteString(v.w, exactJSON(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
