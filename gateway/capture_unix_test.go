//go:build unix

package gateway

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/testload"
)

// A program of the user, such as an agent, replaces the file of a capture by a
// pipe. Opening a pipe blocks until another process opens its other end.
func TestPipeInPlaceOfACaptureBlocksNobody(t *testing.T) {
	for name, use := range map[string]func(cs *captures, c *capture){
		"a line": func(_ *captures, c *capture) {
			if c.put(runnel.DirIn, "x"); c.whyStopped() != CaptureFailed {
				t.Errorf("the capture continues: %q", c.whyStopped())
			}
		},
		"a reader": func(cs *captures, _ *capture) {
			if f, err := cs.open("s"); err == nil {
				f.Close()
				t.Error("the pipe was opened")
			}
		},
		"a restart": func(cs *captures, _ *capture) {
			later := &captures{dir: cs.dir, log: cs.log}
			if later.resume("s", "some"); later.find("s").whyStopped() != CaptureFailed {
				t.Errorf("the capture continues: %q", later.find("s").whyStopped())
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			cs, c := beginCapture(t)
			if err := os.Remove(c.path); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Mkfifo(c.path, 0o600); err != nil {
				t.Skip(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				use(cs, c)
			}()
			select {
			case <-done:
			case <-time.After(testload.Room(5 * time.Second)):
				t.Fatal("it waits for the other end of the pipe")
			}
		})
	}
}
