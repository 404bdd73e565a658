package main

import (
	"strings"
	"testing"
)

func TestEnding(t *testing.T) {
	for _, c := range []struct {
		goos               string
		supervised, fenced bool
		want               []string
	}{
		{"linux", true, true, []string{"supervised: ", "cgroup", "both"}},
		{"linux", true, false, []string{"supervised: ", "may be left"}},
		{"linux", false, false, []string{"not supervised: ", "may be left", "killed server leaves"}},
		{"windows", false, true, []string{"not supervised: ", "job object"}},
		{"darwin", false, false, []string{"not supervised: ", "may be left", "killed server leaves"}},
		{"freebsd", false, false, []string{"not supervised: ", "process group"}},
	} {
		got := cleanupGuaranteeOn(c.goos, c.supervised, c.fenced)
		for _, want := range c.want {
			if !strings.Contains(got, want) || strings.Contains(got, "\n") {
				t.Errorf("%+v: %q lacks %q", c, got, want)
			}
		}
		if c.supervised != strings.HasPrefix(got, "supervised: ") {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
