package procinfo

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// roleVar makes the test binary play a process with a large environment, or one
// whose first thread has ended.
const roleVar = "PROCINFO_TEST_ROLE"

const largeEnviron = 64 << 20

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		if role == "headless" {
			loseMainThread()
		} else if err := extendEnviron(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// extendEnviron makes the kernel report zero bytes, of which the process uses
// no memory, as the environment of this process.
func extendEnviron() error {
	const size = largeEnviron
	at, _, errno := unix.Syscall6(unix.SYS_MMAP, 0, size, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE, ^uintptr(0), 0)
	if errno != 0 {
		return errno
	}
	field, err := ownStat()
	if err != nil {
		return err
	}
	brk, _, _ := unix.Syscall(unix.SYS_BRK, 0, 0, 0)
	var layout []byte // struct prctl_mm_map
	for _, v := range []uint64{
		field(26), field(27), field(45), field(46), field(47), uint64(brk), field(28), field(48), field(49), uint64(at), uint64(at) + size,
		0, 1<<32 - 1, // no auxiliary vector, and no other program
	} {
		layout = binary.NativeEndian.AppendUint64(layout, v)
	}
	binary.NativeEndian.PutUint64(layout[len(layout)-8:], 0xffffffff<<32) // a length of 0 and a descriptor of -1
	if _, _, errno = unix.Syscall6(unix.SYS_PRCTL, unix.PR_SET_MM, unix.PR_SET_MM_MAP, uintptr(unsafe.Pointer(&layout[0])), uintptr(len(layout)), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// ownStat returns a function that returns a field of the stat of this process.
func ownStat() (func(field int) uint64, error) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	return func(i int) uint64 { n, _ := strconv.ParseUint(fields[i-fieldState], 10, 64); return n }, nil
}

// An agent's process can choose what the kernel reports as its environment.
func TestLargeEnvironmentIsReadInPart(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{roleVar + "=large"}
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		in.Close()
		_ = cmd.Wait()
	}()
	if said, err := bufio.NewReader(out).ReadString('\n'); said != "ready\n" {
		t.Skipf("this system does not allow it: %s%v", said, err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	Marks(cmd.Process.Pid)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > largeEnviron/16 {
		t.Errorf("took %d bytes of memory", took)
	}
}
