package jsonl

import (
	"bytes"
	"errors"
)

// ErrNotALine is returned for a message that a line reader would not give back as one line.
var ErrNotALine = errors.New("message is not one line")

// Append appends one message and its newline to dst. What it accepts, a Reader delivers as one line.
//
// A message that is blank or holds a line break ('\n', '\r') is refused, so that no content can smuggle in
// a second message. U+2028 and U+2029, which some readers also break at and which JSON allows only within
// strings, are written as their JSON escapes.
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
