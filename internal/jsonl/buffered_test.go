package jsonl_test

import (
	"io"
	"testing"

	"github.com/runnel-dev/runnel/internal/jsonl"
)

func TestBufferedReportsLinesThatNextReturnsWithoutReading(t *testing.T) {
	src, w := io.Pipe()
	defer src.Close()
	r := jsonl.NewReader(src, 0)
	for _, step := range []struct {
		write string
		lines int  // that Next returns
		more  bool // Buffered after the first line
	}{
		{"one\n", 1, false},
		{"one\ntwo\n", 2, true},
		{"one\n\n \r\n", 1, false},
		{"one\n\ntwo\nhal", 2, true},
		{"f\nrest", 1, false},
		{"\n", 1, false},
	} {
		if r.Buffered() {
			t.Fatalf("before %q: a line is buffered", step.write)
		}
		go io.WriteString(w, step.write)
		for i := range step.lines {
			if i > 0 && !r.Buffered() {
				t.Fatalf("%q: line %d is not buffered", step.write, i)
			}
			if _, err := r.Next(); err != nil {
				t.Fatal(err)
			}
			if i == 0 && r.Buffered() != step.more {
				t.Errorf("%q: Buffered is %v after the first line", step.write, !step.more)
			}
		}
	}
}
