package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestTableFitsTheScreen(t *testing.T) {
	tab := &table{columns: []column{{"ID", whole}, {"FOLDER", cutStart}, {"TITLE", cutEnd}}}
	tab.add("0192f0c1-7d5e", "/home/somebody/projects/with/a/long/path/to/the/app", strings.Repeat("long title ", 20))
	tab.add("0192f0c1-7d5f", "/tmp", "世界你好世界你好世界你好世界你好世界你好世界你好世界你好世界你好世界你好")
	for _, width := range []int{40, 80, 100, 300} {
		var out bytes.Buffer
		if err := tab.write(&out, width); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if n := cells(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%d cells on a screen of %d: %s", n, width, line)
			}
		}
		if !strings.Contains(out.String(), "0192f0c1-7d5e  ") || width < 100 && !strings.Contains(out.String(), "/app  long") {
			t.Errorf("width %d: the id, or the end of the folder, is not readable:\n%s", width, out.String())
		}
	}
	var out bytes.Buffer
	if err := tab.write(&out, 0); err != nil || strings.Contains(out.String(), "…") {
		t.Errorf("cut without a screen: %v\n%s", err, out.String())
	}
}

func TestShortIDsTellSessionsApart(t *testing.T) {
	ids := []string{"0192f0c1-7d5e-7c3a-9d0e-2b1f6f0f6a11", "0192f0c1-7d5e-7c3b-9d0e-2b1f6f0f6a11", "0192f0c2-7d5e-7c3b-9d0e-2b1f6f0f6a11"}
	got := beginnings(ids)
	if want := []string{ids[0][:18], ids[1][:18], ids[2][:18]}; strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := beginnings(ids[1:]); got[0] != ids[1][:13] {
		t.Errorf("got %v, want 13 characters", got)
	}
}

func TestFillBreaksBetweenWords(t *testing.T) {
	if got := fill("one two three four", 9); got != "one two\nthree\nfour" {
		t.Errorf("got %q", got)
	}
	if got := fill("one two", 0); got != "one two" {
		t.Errorf("without a width: %q", got)
	}
}
