package jsonl

import (
	"bytes"
	"errors"
)

// ErrNotALine is the error for a message that a Reader would not return as
// exactly one line.
var ErrNotALine = errors.New("message is not one line")

// Append appends one message and a newline to dst. A Reader returns an accepted
// message as one line.
//
// Append rejects a message that is blank or contains a line break ('\n', '\r'),
// so content cannot inject a second message. It writes U+2028 and U+2029 as
// JSON escapes, because some readers treat them as line breaks. JSON allows
// these characters only within strings.
func Append(dst, message []byte) ([]byte, error) {
	if blank(message) || bytes.ContainsAny(message, "\r\n") {
		return dst, ErrNotALine
	}
	for {
		i := bytes.Index(message, []byte("\u2028"[:2])) // both begin with E2 80
		if i < 0 || i+2 >= len(message) {
			break
		}
		dst = append(dst, message[:i]...)
		switch message[i+2] {
		case "\u2028"[2]:
			dst = append(dst, `\u2028`...)
		case "\u2029"[2]:
			dst = append(dst, `\u2029`...)
		default:
			dst = append(dst, message[i:i+3]...)
		}
		message = message[i+3:]
	}
	dst = append(dst, message...)
	return append(dst, '\n'), nil
}
