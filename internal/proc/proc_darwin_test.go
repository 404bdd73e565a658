package proc

import (
	"os"
	"syscall"
	"testing"
)

func playHere(role string, args []string) {
	if !playUnix(role, args) {
		panic("no such role: " + role)
	}
}

const deathSignal = "SIGKILL"

// die ends this process by a signal.
func die() {
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
	forever()
}

func alive(pid int) bool {
	e, ok := process(pid)
	return ok && !e.dead
}

func descriptors(t testing.TB) int {
	t.Helper()
	names, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}
