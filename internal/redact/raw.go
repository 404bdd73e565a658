package redact

import (
	"bytes"
	"encoding/json"
)

// raw redacts a JSON value: as text, as its deltas are, and then whatever its
// strings say once their escapes are read. The result is JSON again.
func (r *Redactor) raw(doc json.RawMessage) json.RawMessage {
	if len(doc) < minValue {
		return doc
	}
	out := json.RawMessage(r.String(string(doc)))
	if !json.Valid(out) { // a secret across a border of the syntax
		out = doc
	}
	return r.literals(out)
}

// literals redacts the strings of a JSON value one by one, and leaves the rest
// of its bytes as they are.
func (r *Redactor) literals(doc []byte) json.RawMessage {
	var out []byte
	done := 0 // doc[:done] is in out
	for i := 0; i < len(doc); {
		if doc[i] != '"' {
			i++
			continue
		}
		end := literalEnd(doc, i)
		var text string
		if json.Unmarshal(doc[i:end], &text) == nil {
			if red := r.String(text); red != text {
				quoted, err := quote(red)
				if err == nil {
					out = append(append(out, doc[done:i]...), quoted...)
					done = end
				}
			}
		}
		i = end
	}
	if done == 0 {
		return doc
	}
	return append(out, doc[done:]...)
}

// literalEnd returns where the string that begins at doc[i] has ended.
func literalEnd(doc []byte, i int) int {
	for i++; i < len(doc); i++ {
		switch doc[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(doc)
}

func quote(s string) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(s)
	return bytes.TrimRight(buf.Bytes(), "\n"), err
}
