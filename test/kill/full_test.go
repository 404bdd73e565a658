//go:build linux

package kill

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/event"
)

// fill writes a file into dir until the disk is full. free removes the file.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 1<<20); len(block) > 0; {
		if _, err := f.Write(block); err != nil {
			block = block[:len(block)/2]
		}
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}

// TestFullDiskDuringRealTurnsLosesNothing fills the disk during real turns, and
// every second time also kills the server while the disk is full. What clients
// saw must be in the log, and every turn must end once. Turns must work again
// as soon as there is space.
func TestFullDiskDuringRealTurnsLosesNothing(t *testing.T) {
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=32m,mode=0700"); err != nil {
		t.Skipf("a disk that can be filled needs the right to mount one: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	w := newFastWorldIn(t, "60s", filepath.Join(disk, "data"))
	w.start()
	kills := 0
	sum := w.moments(seed(t), rounds(10, 2), 2, func() {
		free := fill(t, disk)
		pass(300 * time.Millisecond)
		if kills++; kills%2 == 0 {
			w.kill()
			w.refusesOrStarts()
		}
		free()
		if w.cmd.ProcessState != nil {
			w.start()
		}
	})
	t.Logf("%+v", sum)
	c := w.Follow(w.create())
	defer c.Leave()
	turn := c.Send(w.turnPrompt(1000))
	if end, ok := c.End(turn).Body.(event.ResponseDone); !ok || end.Status != event.StatusCompleted {
		t.Error("with space again, a turn does not end well")
	}
	w.stop(syscall.SIGINT)
	w.empty(time.Second)
}
