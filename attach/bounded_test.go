package attach

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
)

func openStore(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestStoreIsBounded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "uploads")
	s := openStore(t, dir)
	s.most = 3 * (perUpload + 100)
	save := func() error {
		_, err := s.Save(strings.NewReader(strings.Repeat("a", 100)), "a.txt")
		return err
	}
	for i := range 5 {
		if err := save(); (err == nil) != (i < 3) || err != nil && runnel.CodeOf(err) != runnel.RateLimited {
			t.Errorf("upload %d: %v", i, err)
		}
	}
	if kept, err := s.weigh(); err != nil || kept != s.kept {
		t.Errorf("there are %d bytes, %v, and %d are counted", kept, err, s.kept)
	}
	if err := s.Prune(time.Now().Add(time.Hour)); err != nil || s.kept != 0 {
		t.Errorf("%v, %d bytes are counted after all were removed", err, s.kept)
	}
	if err := save(); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if again := openStore(t, dir); again.kept != s.kept || again.kept == 0 {
		t.Errorf("opened again: %d bytes are counted, want %d", again.kept, s.kept)
	}
}
