package supervisor

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// TestImageIsOfThisSource: the small program that is built in, if one is, comes
// of the source as it is now. Else these tests, and those that build the whole
// program, would look at an older supervisor.
func TestImageIsOfThisSource(t *testing.T) {
	have, err := bin.ReadFile("bin/supervise_" + runtime.GOARCH)
	if err != nil {
		return // there is none: the program is its own supervisor
	}
	fresh := filepath.Join(t.TempDir(), "supervise")
	build := exec.CommandContext(t.Context(), "go", "build", "-tags", "supervise", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", fresh, "github.com/runnel-dev/runnel/cmd/supervise")
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
