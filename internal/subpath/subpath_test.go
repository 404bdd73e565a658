package subpath_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/runnel-dev/runnel/internal/subpath"
)

func TestWithinComparesWholeNames(t *testing.T) {
	for _, tt := range []struct {
		path, root string
		want       bool
	}{
		{"/a/b", "/a/b", true},
		{"/a/b/", "/a/b", true},
		{"/a/b/c", "/a/b", true},
		{"/a/b/c/d", "/a/b", true},
		{"/a/b/..c", "/a/b", true}, // a name that begins with dots
		{"/a/b/...", "/a/b", true},
		{"/a/b/./c", "/a/b", true},
		{"/a/b/c/../d", "/a/b", true},
		{"/a/b", "/", true},
		{"/", "/", true},
		{"a/b", "a", true},
		{"a", ".", true},

		{"/a/bc", "/a/b", false}, // only the text begins with the root
		{"/a", "/a/b", false},
		{"/a/c", "/a/b", false},
		{"/", "/a", false},
		{"/a/b/..", "/a/b", false},
		{"/a/b/../c", "/a/b", false},
		{"/a/b/c/../../d", "/a/b", false},
		{"a", "/a", false},
		{"/a", "a", false},
		{"..", ".", false},
		{"a", "..", false}, // the names do not tell where the working directory is
	} {
		if got := subpath.Within(filepath.FromSlash(tt.path), filepath.FromSlash(tt.root)); got != tt.want {
			t.Errorf("Within(%q, %q) is %v", tt.path, tt.root, got)
		}
	}
}

func TestNameInOtherCaseIsComparedByItsFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "Config")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(dir, "cONFIG")
	_, err := os.Lstat(want)
	ignored := err == nil // by the file system of this machine
	if other, same := subpath.InOtherCase(file); other != want || same != ignored {
		t.Errorf("%s, %v", other, same)
	}
	if err := os.Link(file, want); err != nil && !ignored {
		t.Fatal(err)
	}
	if other, same := subpath.InOtherCase(file); other != want || !same {
		t.Errorf("%s, %v", other, same)
	}
	for _, path := range []string{filepath.Join(dir, "1.2"), filepath.Join(dir, "missing")} {
		if other, same := subpath.InOtherCase(path); same {
			t.Errorf("%s is %s", path, other)
		}
	}
}
