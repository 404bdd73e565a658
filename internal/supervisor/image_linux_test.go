package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// The embedded supervisor program, if there is one, must be built from the
// current source. Otherwise these tests, and those that build the whole
// program, would test an older supervisor.
func TestImageIsOfThisSource(t *testing.T) {
	have, err := bin.ReadFile("bin/supervise_" + runtime.GOARCH)
	if err != nil {
		return // no supervisor program is embedded
	}
	fresh := filepath.Join(t.TempDir(), "supervise")
	build := exec.CommandContext(t.Context(), "go", "build", "-tags", "supervise", "-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false", "-ldflags", "-s -w", "-o", fresh, "github.com/runnel-dev/runnel/cmd/supervise")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want, err := os.ReadFile(fresh)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Errorf("the supervisor that is built in (%d bytes) is not of this source (%d bytes): run make build", len(have), len(want))
	}
}

// Later supervisors are started from the same file in memory, so nobody may
// change it.
func TestImageInMemoryCannotBeChanged(t *testing.T) {
	f := inMemory()
	if f == nil {
		t.Skip("cmd/supervise is not built in")
	}
	defer f.Close()
	again, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if _, err := again.WriteAt([]byte("#!/bin/sh\n"), 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("write: %v, want %v", err, unix.EPERM)
	}
	if err := again.Truncate(0); !errors.Is(err, unix.EPERM) {
		t.Errorf("truncate: %v, want %v", err, unix.EPERM)
	}
}
