package subpath_test

import (
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
