package main

import (
	"bytes"
	"encoding/json"
	"io"
)

// encoder returns an encoder for standard output. Characters that a terminal
// would obey or not show are written as escapes, which a program decodes to the
// same text.
func (a *app) encoder() *json.Encoder { return json.NewEncoder(visibleJSON{a.out}) }

// visibleJSON passes JSON on. Each write must end at the end of a character, as
// those of a json.Encoder do.
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
