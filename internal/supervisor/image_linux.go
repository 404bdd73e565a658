package supervisor

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/internal/procinfo"
)

// itself is the path of this program. It stays valid after the file is
// replaced.
const itself = "/proc/self/exe"

// imageFD is the descriptor from which a supervisor's program is executed, and
// imagePath the path of that descriptor. The descriptor's number in this
// process cannot be used, because it may be overwritten between fork and exec.
const (
	imageFD   = 4
	imagePath = "/proc/self/fd/4"
)

// images returns the programs that can run as a supervisor, in the order in
// which execute tries them: the small embedded program, from memory, and this
// program. Their descriptors stay open until the process ends.
var images = sync.OnceValue(func() (all []*os.File) {
	if f := inMemory(); f != nil {
		all = append(all, f)
	}
	if fd, err := unix.Open(itself, unix.O_PATH|unix.O_CLOEXEC, 0); err == nil {
		all = append(all, os.NewFile(uintptr(fd), itself))
	}
	return all
})

// inMemory returns the small embedded program in a memory file. It returns nil
// if none is embedded or the system does not support executable memory files.
func inMemory() *os.File {
	b, err := bin.ReadFile("bin/supervise_" + runtime.GOARCH)
	if err != nil {
		return nil
	}
	fd, err := unix.MemfdCreate("supervise", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), "supervise")
	_, err = f.Write(b)
	if err == nil {
		err = unix.Fchmod(fd, 0o700)
	}
	if err == nil { // sealed: an agent may open it before a supervisor hides itself, and keep it open
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	}
	if err != nil {
		f.Close()
		return nil
	}
	return f
}

// heldFD is the descriptor of proc.Command.Hold in a supervisor.
const heldFD = 5

// execute starts a supervisor with the descriptor of its connection, and with
// the file that it keeps open, if held is not nil.
func execute(name string, control, held *os.File) (cmd *exec.Cmd, err error) {
	err = &fs.PathError{Op: "open", Path: itself, Err: unix.ENOENT}
	for _, program := range images() {
		cmd = &exec.Cmd{
			Path: imagePath, Args: []string{"runnel", procinfo.SuperviseCommand, name}, Dir: "/", Env: []string{"GOMAXPROCS=1"},
			ExtraFiles: []*os.File{control, program}, SysProcAttr: &syscall.SysProcAttr{Setsid: true},
		}
		if held != nil {
			cmd.ExtraFiles = append(cmd.ExtraFiles, held)
		}
		if err = cmd.Start(); !errors.Is(err, fs.ErrPermission) { // some systems refuse to execute memory files
			break
		}
	}
	return cmd, err
}
