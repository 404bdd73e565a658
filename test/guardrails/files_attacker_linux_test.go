package guardrails

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	filesRole     = "play-files-attacker"
	oldKernelRole = "play-old-kernel"
)

// attackFiles tries everything in targets that a sandbox of files forbids, and
// then works in the project. It writes what succeeded to a report there.
func attackFiles() int {
	to, err := readTargets()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	done := map[string]string{}
	try := func(name string, f func() error) {
		if err := f(); err == nil {
			done[name] = "done"
		}
	}
	for _, path := range to.Read {
		attackPath(path, try)
	}
	for _, path := range to.Write {
		attackWrite(path, try)
	}
	try("read the server's environment", func() error { return read(fmt.Sprintf("/proc/%d/environ", to.Pid)) })
	try("read the server's memory", func() error { return read(fmt.Sprintf("/proc/%d/mem", to.Pid)) })
	try("read through the server's root", func() error { return read(fmt.Sprintf("/proc/%d/root%s", to.Pid, to.Read[0])) })
	try("debug the server", func() error { return unix.PtraceAttach(to.Pid) })
	try("signal the server", func() error { return syscall.Kill(to.Pid, 0) })
	try("read through namespaces of its own", func() error {
		out, err := exec.Command("unshare", "-Urm", "sh", "-c", "mount --bind "+filepath.Dir(to.Read[0])+" /mnt && cat /mnt/*").CombinedOutput()
		if err == nil && len(out) == 0 {
			return os.ErrNotExist
		}
		return err
	})
	for _, name := range to.Unix {
		try("connect to "+name, func() error {
			c, err := net.Dial("unix", name)
			if err == nil {
				c.Close()
			}
			return err
		})
	}
	work(try)
	out, err := json.Marshal(done)
	if err == nil {
		err = os.WriteFile(reportFile, out, 0o600)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 1 // it is no agent
}

// attackPath tries to read a file, by every path that may lead to it.
func attackPath(path string, try func(string, func() error)) {
	try("read "+path, func() error { return read(path) })
	try("list "+filepath.Dir(path), func() error { _, err := os.ReadDir(filepath.Dir(path)); return err })
	link := "link" + strings.ReplaceAll(path, "/", "-")
	try("read by a link "+path, func() error {
		if err := os.Symlink(path, link); err != nil {
			return nil // reported: the project is writable
		}
		return read(link)
	})
	try("read by a hard link "+path, func() error {
		if err := os.Link(path, "hard"+link); err != nil {
			return err
		}
		return read("hard" + link)
	})
	try("read by a move "+path, func() error { return os.Rename(path, "moved"+link) })
	try("read by another program "+path, func() error { return exec.Command("cat", path).Run() })
	try("read through /proc "+path, func() error { return read("/proc/self/root" + path) })
}

// attackWrite tries to change or create a file.
func attackWrite(path string, try func(string, func() error)) {
	try("write "+path, func() error {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o700)
		if err == nil {
			f.Close()
		}
		return err
	})
	try("empty "+path, func() error { return os.Truncate(path, 0) })
	try("replace "+path, func() error {
		if err := os.WriteFile("replacement", nil, 0o600); err != nil {
			return nil // reported: the project is writable
		}
		return os.Rename("replacement", path)
	})
	try("remove "+path, func() error { return os.Remove(path) })
	try("make a directory at "+path, func() error { return os.MkdirAll(path+".d", 0o700) })
	try("make a link at "+path, func() error { return os.Symlink("/etc/passwd", path+".link") })
}

func read(path string) error { _, err := os.ReadFile(path); return err }

// work does what an agent must be able to do. The names begin with "work".
func work(try func(string, func() error)) {
	try("work: files", func() error {
		return errors.Join(os.MkdirAll("made/by", 0o700), os.WriteFile("made/by/it", []byte("text"), 0o600), os.Rename("made/by/it", "made/it"), read("made/it"), os.RemoveAll("made"))
	})
	try("work: programs", func() error {
		return exec.Command("sh", "-c", "ls /usr >/dev/null && env | grep -q PATH= && ./program").Run()
	})
	try("work: temporary files", func() error {
		dir, err := os.MkdirTemp("", "")
		return errors.Join(err, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	})
	try("work: devices", func() error {
		return errors.Join(os.WriteFile(os.DevNull, nil, 0), exec.Command("sh", "-c", "cat <<E >/dev/null\nE\n").Run())
	})
	try("work: git", func() error {
		return exec.Command("sh", "-c", "git init -q repository && cd repository && echo a > a && git add a && git -c user.name=n -c user.email=e@example.com commit -qm a").Run()
	})
	try("work: names of hosts", func() error { _, err := net.LookupHost("localhost"); return err })
	try("work: its own processes", func() error {
		cmd := exec.Command("sleep", "60")
		return errors.Join(cmd.Start(), cmd.Process.Kill())
	})
}

// onOldKernel executes a program as on a kernel without Landlock.
func onOldKernel(args []string) int {
	const createRuleset = 444 // landlock_create_ruleset on every processor
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the system call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: createRuleset, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	runtime.LockOSThread()
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	if err == nil {
		err = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
	}
	if err == nil {
		err = syscall.Exec(args[0], args, os.Environ())
	}
	fmt.Println(err)
	return 1
}
