package private

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDirIsMadePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "parent", "data")
	for range 2 { // the second call finds the directory
		if err := Dir(dir); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if info, err := os.Stat(d); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", d, info.Mode(), err)
		}
	}
}

func TestReadFileBoundsItsSize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("four"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := ReadFile(path, Nothing, 4); err != nil || string(text) != "four" {
		t.Errorf("got %q, %v", text, err)
	}
	if _, err := ReadFile(path, Nothing, 3); err == nil || !strings.Contains(err.Error(), "more than 3 bytes") {
		t.Errorf("got %v", err)
	}
}

func TestQuoteMakesOneWord(t *testing.T) {
	for path, want := range map[string]string{
		"/home/me/.config/c.yaml": "/home/me/.config/c.yaml",
		"/a b":                    "'/a b'",
		"/it's":                   `'/it'\''s'`,
		"/$(id)":                  "'/$(id)'",
		"-rf":                     "'-rf'",
	} {
		if got := Quote(path); got != want {
			t.Errorf("Quote(%q) = %s, want %s", path, got, want)
		}
	}
}
