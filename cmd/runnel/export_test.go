package main

import (
	"bufio"
	"bytes"
	"testing"
)

// A terminal shows the last line of an interrupted export, and no control
// characters.
func TestCleanLinesPrintLastLineWithoutNewline(t *testing.T) {
	for _, tt := range []struct {
		parts []string
		want  string
	}{
		{[]string{"one\ntw", "o\nthr", "ee"}, "one\ntwo\nthree"},
		{[]string{"one\n\x1b[31mred\x1b]0;ti", "tle"}, "one\nred"},
		{[]string{"\x1b[2Jone\n"}, "one\n"},
		{nil, ""},
	} {
		var out bytes.Buffer
		c := &cleanLines{out: bufio.NewWriter(&out)}
		for _, p := range tt.parts {
			if n, err := c.Write([]byte(p)); n != len(p) || err != nil {
				t.Fatal(n, err)
			}
		}
		if err := c.Close(); err != nil || out.String() != tt.want {
			t.Errorf("%q: printed %q, want %q (%v)", tt.parts, &out, tt.want, err)
		}
	}
}
