package attach

import (
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
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
	s.most = 3 * (PerUpload + 100)
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

// Slow uploads are written to the disk as they arrive, so many at once use no
// memory.
func TestSlowUploadsHoldNoMemory(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "uploads"))
	const uploads, half = 30, MaxFile / 2
	var arrived, all sync.WaitGroup
	goOn := make(chan struct{})
	arrived.Add(uploads)
	for range uploads {
		all.Go(func() {
			if _, err := s.Save(&slow{left: half, arrived: arrived.Done, goOn: goOn}, "a.txt"); err != nil {
				t.Error(err)
			}
		})
	}
	arrived.Wait()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if most := uint64(uploads * half / 4); m.HeapAlloc > most {
		t.Errorf("%d uploads of %d bytes hold %d bytes of memory, want %d at most", uploads, half, m.HeapAlloc, most)
	}
	close(goOn)
	all.Wait()
}

// slow is an upload that blocks before its end.
type slow struct {
	left    int
	arrived func()
	goOn    chan struct{}
}

func (r *slow) Read(p []byte) (int, error) {
	if r.left == 0 {
		r.arrived()
		<-r.goOn
		return 0, io.EOF
	}
	n := min(len(p), r.left)
	for i := range p[:n] {
		p[i] = 'a'
	}
	r.left -= n
	return n, nil
}
