//go:build linux

package hostile

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// species are the kinds of processes that the zoo starts. Each is a line of sh,
// in which $0 is the zoo's program and $1 its directory. play-stay runs for
// minutes and ignores signals.
var species = []string{
	`"$0" play-stay`,
	`("$0" play-stay &)`,
	`(("$0" play-stay &) &)`,
	`setsid "$0" play-stay`,
	`(setsid sh -c '(setsid "$0" play-stay &)' "$0" &)`,
	`nohup "$0" play-stay >/dev/null 2>&1`,
	`env -i setsid "$0" play-stay`,
	`(env -i setsid "$0" play-stay </dev/null >/dev/null 2>&1 &)`,
	`(cd /; env -i setsid "$0" play-stay 0<&- 1>&- 2>&- &)`,
	`(setsid env -i "$0" play-stay renamed &)`,
	`trap "" INT TERM HUP; while :; do "$0" play-stay & wait; done`,
	`env -i setsid /bin/sh "$1/hop" & exit 0`,
	`env -i setsid /bin/sh "$1/brood" & exit 0`,
}

// scripts are the files that the last species run.
var scripts = map[string]string{
	// A chain of processes, 100 a second, each the child of a process that has
	// exited.
	"hop": "trap '' INT TERM HUP\nsleep 0.01\n/bin/sh \"$0\" &\nexit 0\n",
	// 200 new processes a second for two seconds. They keep running.
	"brood": "trap '' INT TERM HUP\ni=0\nwhile [ $i -lt 400 ]; do sleep 300 & sleep 0.005; i=$((i+1)); done\nwait\n",
}

// zoo is the role of an agent's tool. It starts one of each species and then
// writes the file zoo-open.
func zoo(args []string) {
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	dir := args[0]
	for name, text := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			panic(err)
		}
	}
	for i, s := range species {
		cmd := exec.Command("/bin/sh", "-c", s, self, dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: i%2 == 0}
		if err := cmd.Start(); err != nil {
			panic(err)
		}
	}
	open := filepath.Join(dir, "zoo-open") // written atomically, because the test may kill the zoo once the file exists
	if err := os.WriteFile(open+".half", fmt.Append(nil, len(species)), 0o600); err != nil {
		panic(err)
	}
	if err := os.Rename(open+".half", open); err != nil {
		panic(err)
	}
	stay(nil)
}

// stay is a role that runs for five minutes and ignores signals. With the
// argument "renamed" it changes its process name.
func stay(args []string) {
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	if len(args) > 0 && args[0] == "renamed" {
		runtime.LockOSThread()
		name := []byte("kworker/u8:2\x00")
		_ = unix.Prctl(unix.PR_SET_NAME, uintptr(bytesPointer(name)), 0, 0, 0)
	}
	<-time.After(5 * time.Minute)
}

func bytesPointer(b []byte) unsafe.Pointer { return unsafe.Pointer(&b[0]) }
