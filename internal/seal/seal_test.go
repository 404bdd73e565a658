package seal

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

func load(t *testing.T, path string) *Key {
	t.Helper()
	k, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestKeyOpensWhatItSealed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "secrets.key")
	plain := []byte(`{"headers":{"Authorization":"Bearer 4f1c9d"}}`)
	sealed := load(t, path).Seal(plain)
	if strings.Contains(sealed, "4f1c9d") || strings.ContainsAny(sealed, "\"\\\n") {
		t.Errorf("sealed: %s", sealed)
	}
	k := load(t, path) // as after a restart
	if got, err := k.Open(sealed); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("got %q, %v", got, err)
	}
	if k.Seal(plain) == sealed {
		t.Error("the same plain text gives the same sealed text")
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file: %v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".key-*")); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

func TestOpenRejectsAnotherKeyAndDamage(t *testing.T) {
	dir := t.TempDir()
	mine, other := load(t, filepath.Join(dir, "a")), load(t, filepath.Join(dir, "b"))
	sealed := mine.Seal([]byte("text"))
	if _, err := other.Open(sealed); err == nil || !strings.Contains(err.Error(), mine.id) || !strings.Contains(err.Error(), filepath.Join(dir, "b")) {
		t.Errorf("with another key: %v", err)
	}
	for i := range sealed {
		b := []byte(sealed)
		b[i] ^= 1
		if plain, err := mine.Open(string(b)); err == nil {
			t.Errorf("byte %d changed: %q", i, plain)
		}
		if plain, err := mine.Open(sealed[:i]); err == nil {
			t.Errorf("cut at %d: %q", i, plain)
		}
	}
}

func TestLoadRejectsWhatIsNoKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	for _, text := range []string{"", "secret\n", strings.Repeat("a", 63), strings.Repeat("a", 64) + "\n\n", strings.Repeat("g", 64)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); err == nil {
			t.Errorf("%q is taken for a key", text)
		}
	}
	if runtime.GOOS == "windows" {
		return
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("a", 64)), 0o600); err != nil {
		t.Fatal(err)
	}
	load(t, path)
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "chmod go= ") {
		t.Errorf("a key that others can read: %v", err)
	}
}

func TestServersThatStartTogetherMakeOneKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	keys := make([]*Key, 8)
	var all sync.WaitGroup
	for i := range keys {
		all.Go(func() { keys[i], _ = Load(path) })
	}
	all.Wait()
	for _, k := range keys {
		if k == nil || k.id != keys[0].id {
			t.Fatalf("keys: %v", keys)
		}
	}
}
