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

// species is what the zoo has. Each is a line of sh, in which $0 is the zoo's
// program and $1 its directory; "stay" takes a while and cannot be asked to
// end.
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

// scripts are species that are files: they run themselves.
var scripts = map[string]string{
	// One process after another, each the child of one that is gone, 100 a
	// second.
	"hop": "trap '' INT TERM HUP\nsleep 0.01\n/bin/sh \"$0\" &\nexit 0\n",
	// 200 a second, for two seconds, which stay.
	"brood": "trap '' INT TERM HUP\ni=0\nwhile [ $i -lt 400 ]; do sleep 300 & sleep 0.005; i=$((i+1)); done\nwait\n",
}

// zoo starts one of each species and says so in a file.
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
	open := filepath.Join(dir, "zoo-open") // whole at once: who sees it may have all of this ended
	if err := os.WriteFile(open+".half", fmt.Append(nil, len(species)), 0o600); err != nil {
		panic(err)
	}
	if err := os.Rename(open+".half", open); err != nil {
		panic(err)
	}
	stay(nil)
}

// stay cannot be asked to end, and may call itself something else.
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
