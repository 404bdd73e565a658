package codex

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// The kernel writes /proc/locks in pages, and may skip a lock between two pages
// when another one is released meanwhile.
func TestHeldLockIsFoundWhileOthersChange(t *testing.T) {
	dir := t.TempDir()
	lock := func(name string) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		if err == nil {
			err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		}
		if err != nil {
			t.Error(err)
		}
		return f
	}
	for i := range 300 {
		defer lock("kept" + strconv.Itoa(i)).Close()
	}
	held := lock("held")
	defer held.Close()
	st, err := held.Stat()
	if err != nil {
		t.Fatal(err)
	}
	inode := strconv.FormatUint(st.Sys().(*syscall.Stat_t).Ino, 10)

	var over atomic.Bool
	var all sync.WaitGroup
	for i := range 2 {
		all.Go(func() {
			for !over.Load() {
				var files []*os.File
				for j := range 40 {
					files = append(files, lock("other"+strconv.Itoa(i)+"."+strconv.Itoa(j)))
				}
				for _, f := range files {
					f.Close()
				}
			}
		})
	}
	missed := 0
	for range 300 {
		owners, err := lockOwners()
		if err != nil {
			t.Fatal(err)
		}
		if owners[inode] != os.Getpid() {
			missed++
		}
	}
	over.Store(true)
	all.Wait()
	if missed > 0 {
		t.Errorf("missed in %d of 300 searches", missed)
	}
}
