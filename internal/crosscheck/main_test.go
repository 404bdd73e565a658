package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckReportsWhatOneSystemLacks(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":         "module example.com/m\n\ngo 1.26\n",
		"m.go":           "package m\n\nimport \"example.com/m/sub\"\n\nfunc all() int { return only() + sub.N }\n",
		"only_linux.go":  "package m\n\nfunc only() int { return 1 }\n",
		"only_darwin.go": "package m\n\nfunc only() int { return 2 }\n",
		"sub/sub.go":     "package sub\n\nconst N = 1\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for system, want := range map[string]string{"linux": "", "darwin": "", "windows": "undefined: only"} {
		err := check(t.Context(), newSource(), system, "./...")
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", system, err, want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "m.go"), []byte("package m\n\nimport \"example.com/m/gone\"\n\nvar _ = gone.N\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := check(t.Context(), newSource(), "linux", "./..."); err == nil {
		t.Error("a package that does not exist is accepted")
	}
}
