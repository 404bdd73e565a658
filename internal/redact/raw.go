package redact

import (
	"bytes"
	"encoding/json"
)

// raw redacts a JSON value: first as plain text, like its deltas, and then each
// of its strings in decoded form. The result is valid JSON.
func (r *Redactor) raw(doc json.RawMessage) json.RawMessage {
	if len(doc) < minValue {
		return doc
	}
	out := json.RawMessage(r.String(string(doc)))
	if !json.Valid(out) { // a secret spanned JSON syntax
		out = doc
	}
	return r.literals(out)
}

// literals redacts each string of a JSON value and keeps all other bytes.
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

// literalEnd returns the index after the string that begins at doc[i].
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
