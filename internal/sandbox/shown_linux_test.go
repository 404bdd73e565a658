package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestShownContainsWhatASandboxShows(t *testing.T) {
	w := newWorld(t)
	t.Setenv("HOME", w.home)
	module, login := filepath.Join(w.home, "go", "pkg", "mod", "file"), filepath.Join(w.home, ".local", "share", "uv", "credentials", "file")
	paths := []string{module, login, filepath.Join(w.home, ".ssh", "id"), filepath.Join(w.home, "code", "other", "file"), "/etc/passwd", "/etc/shadow", "/proc/1/environ"}
	for _, path := range []string{module, login} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := run(t, w.box(`for f in `+strings.Join(paths, " ")+`; do test -s $f && head -c1 $f >/dev/null && echo "<$f>"; done 2>/dev/null; true`))
	shown := NewShown()
	for _, path := range paths[:len(paths)-1] {
		if got, want := shown.Contains(path), strings.Contains(out, "<"+path+">"); got != want {
			t.Errorf("%s: %t, in the sandbox %t (%v)", path, got, want, err)
		}
	}
	if shown.Contains(paths[len(paths)-1]) { // that of another process
		t.Error("a sandbox shows no processes outside")
	}
	if !shown.Contains(module) || !shown.Contains("/etc/passwd") {
		t.Error("a module or a setting of the system is missing")
	}
}
