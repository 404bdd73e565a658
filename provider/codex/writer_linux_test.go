package codex

import (
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
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
		owners, err := lockOwners(dir)
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

// A file of another file system may have the inode of a lock. The process that
// holds a lock on that file does not write the conversation, and is not asked
// to exit.
func TestLockOnOtherFileSystemIsNoWriter(t *testing.T) {
	const thread = "01234567-89ab-cdef-0123-456789abcdef"
	var homes, locks []string
	for range 2 { // on new file systems of one kind, the same files have the same inodes
		home := t.TempDir()
		if err := unix.Mount("tmpfs", home, "tmpfs", 0, "size=1m,mode=0700"); err != nil {
			t.Skipf("two equal file systems need the right to mount one: %v", err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(home, 0); err != nil {
				t.Error(err)
			}
		})
		lock := filepath.Join(lockFolder(home), thread+".lock")
		if err := os.Mkdir(lockFolder(home), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(lock, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		homes, locks = append(homes, home), append(locks, lock)
	}
	if a, b := inodeOf(t, locks[0]), inodeOf(t, locks[1]); a != b {
		t.Skipf("the files have the inodes %d and %d", a, b)
	}
	owner := func() int {
		t.Helper()
		owners, err := lockOwners(lockFolder(homes[0]))
		if err != nil {
			t.Fatal(err)
		}
		return ownerOf(homes[0], thread, owners)
	}
	for i, want := range []int{os.Getpid(), 0} {
		f, err := os.Open(locks[i])
		if err == nil {
			err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := owner(); got != want {
			t.Errorf("with a lock on file system %d, the owner is process %d, want %d", i, got, want)
		}
		f.Close()
	}
}

// A file of btrfs has another device than its mount, which the kernel reports for
// locks. Without a known mount, the inode alone decides.
func TestLockOwnersAreFoundByTheDeviceOfTheMount(t *testing.T) {
	const mounts = "22 1 254:1 / / rw - ext4 /dev/vda1 rw\n31 22 0:45 /home /home rw,relatime shared:9 - btrfs /dev/vdb rw\n"
	const locks = "1: FLOCK  ADVISORY  WRITE 12 00:2d:77 0 EOF\n2: FLOCK  ADVISORY  WRITE 13 fe:01:77 0 EOF\n3: FLOCK  ADVISORY  WRITE 14 fe:01:78 0 EOF\n"
	for id, want := range map[uint64]string{31: "00:2d", 22: "fe:01", 5: ""} {
		if got := deviceOfMount(mounts, id); got != want {
			t.Errorf("mount %d: %q, want %q", id, got, want)
		}
	}
	for device, want := range map[string]map[string]int{"00:2d": {"77": 12}, "fe:01": {"77": 13, "78": 14}, "": {"77": 13, "78": 14}} {
		owners := make(map[string]int)
		if addLockOwners(owners, locks, device); !maps.Equal(owners, want) {
			t.Errorf("%q: %v, want %v", device, owners, want)
		}
	}
}

func inodeOf(t *testing.T, file string) uint64 {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Stat(file, &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}
