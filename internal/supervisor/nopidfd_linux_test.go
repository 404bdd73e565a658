package supervisor

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/internal/proc"
)

// withoutPidfds starts an agent on a system without pidfds. Linux before 5.3
// has none, and some sandboxes forbid them.
func withoutPidfds() {
	if err := forbid(unix.SYS_PIDFD_OPEN); err != nil {
		fmt.Println("forbid:", err)
		return
	}
	a, err := Start(context.Background(), roleCommand("flood", "1"), Takeover{})
	if err != nil {
		fmt.Println("start:", err)
		return
	}
	_, _ = io.Copy(os.Stdout, a.Stdout())
	_ = a.Stop(context.Background(), proc.Now)
}

// forbid makes a system call fail with ENOSYS in this process and in all its
// children.
func forbid(call uint32) error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: call},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(filter)
	if errno != 0 {
		return errno
	}
	return nil
}

func TestStartWithoutPidfds(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{roleVar + "=nopidfd"}
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "line 0\n" {
		t.Errorf("%v, %q", err, out)
	}
}
