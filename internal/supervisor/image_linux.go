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

// itself is this program, also after its file was replaced.
const itself = "/proc/self/exe"

// imageFD is the descriptor that a supervisor's own program is executed from,
// and imagePath its name there. By the number that it has here it could not be
// named: between fork and exec that may be overwritten.
const (
	imageFD   = 5
	imagePath = "/proc/self/fd/5"
)

// images returns the programs that can be a supervisor, in the order in which
// they are to be tried: the small one, from memory, where it is built in, and
// this program. The descriptors live as long as the process.
var images = sync.OnceValue(func() (all []*os.File) {
	if f := inMemory(); f != nil {
		all = append(all, f)
	}
	if fd, err := unix.Open(itself, unix.O_PATH|unix.O_CLOEXEC, 0); err == nil {
		all = append(all, os.NewFile(uintptr(fd), itself))
	}
	return all
})

// inMemory returns the small program; nil if there is none, or the system has
// no memory that may be executed.
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
	if err == nil { // an agent may open it before a supervisor hides itself, and keep it
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	}
	if err != nil {
		f.Close()
		return nil
	}
	return f
}

// execute starts a supervisor that is born with these descriptors.
func execute(name string, control, output *os.File) (cmd *exec.Cmd, err error) {
	err = &fs.PathError{Op: "open", Path: itself, Err: unix.ENOENT}
	for _, program := range images() {
		cmd = &exec.Cmd{
			Path: imagePath, Args: []string{"runnel", procinfo.SuperviseCommand, name}, Dir: "/", Env: []string{"GOMAXPROCS=1"},
			ExtraFiles: []*os.File{control, output, program}, SysProcAttr: &syscall.SysProcAttr{Setsid: true},
		}
		if err = cmd.Start(); !errors.Is(err, fs.ErrPermission) { // there are systems that run nothing but what has a file
			break
		}
	}
	return cmd, err
}
