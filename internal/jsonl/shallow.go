package jsonl

import "bytes"

// MaxLevels is the number of levels of nesting that Shallow keeps. It is far
// above event.MaxDepth, so a check of a part of the message still detects that
// the part is too deep. It is far below the 10,000 levels that encoding/json
// decodes.
const MaxLevels = 1000

// Shallow returns line with null in the place of every list and object that is
// nested deeper than MaxLevels. Without it, a message of more than 10,000
// levels could not be decoded at all, and a question in it would never be
// answered. If nothing is nested deeper than MaxLevels, Shallow returns line
// itself.
func Shallow(line []byte) []byte {
	if bytes.Count(line, []byte{'['})+bytes.Count(line, []byte{'{'}) <= MaxLevels {
		return line
	}
	var out []byte
	depth, quoted, kept := 0, false, 0 // line[:kept] is in out or was dropped
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth == MaxLevels+1 {
				out = append(append(out, line[kept:i]...), "null"...)
			}
		case c == ']' || c == '}':
			if depth == MaxLevels+1 {
				kept = i + 1
			}
			depth--
		}
	}
	if out == nil || depth > MaxLevels { // depth exceeds MaxLevels only if line is not valid JSON
		return line
	}
	return append(out, line[kept:]...)
}

// MaxValues is the number of values in a line beyond which Crowded reports
// true. A value takes two bytes of a line, and may take a hundred times as much
// memory once it is decoded.
const MaxValues = 500_000

// Crowded reports whether the lists and objects of a line together have more
// than MaxValues commas.
func Crowded(line []byte) bool {
	if bytes.Count(line, []byte{','}) <= MaxValues {
		return false
	}
	commas, quoted := 0, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			commas++
		}
	}
	return commas > MaxValues
}
