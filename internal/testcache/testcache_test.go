package testcache

import "testing"

func TestRepeatedLinesAreRemoved(t *testing.T) {
	log := "# test log\ngetenv HOME\nopen a\nstat a\nopen a\ngetenv HOME\nchdir /b\nopen a\nopen a\nchdir /c\nopen a\n"
	want := "# test log\ngetenv HOME\nopen a\nstat a\nchdir /b\nopen a\nchdir /c\nopen a\n"
	if got := string(once([]byte(log))); got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}
