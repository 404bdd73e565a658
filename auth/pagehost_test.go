package auth

import (
	"os"
	"path/filepath"
	"testing"
)

func TestPageHostIsKeptAndRenewed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page-host")
	open := func() *PageHost {
		t.Helper()
		p, err := OpenPageHost(file)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := open()
	if again := open(); again.Name() != first.Name() {
		t.Errorf("after a restart: %q, was %q", again.Name(), first.Name())
	}
	old := first.Name()
	if err := first.Renew(); err != nil || first.Name() == old {
		t.Errorf("renewed: %q, was %q, %v", first.Name(), old, err)
	}
	if again := open(); again.Name() != first.Name() {
		t.Errorf("after another restart: %q, was %q", again.Name(), first.Name())
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestPageHostIsRandom(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page-host")
	for _, text := range []string{"", "runnel", "127.0.0.1", "abcdefghijklmnopqrstuvwxyz.evil", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if p, err := OpenPageHost(file); err == nil {
			t.Errorf("%q: got %q", text, p.Name())
		}
	}
}
