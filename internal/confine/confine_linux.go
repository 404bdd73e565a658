package confine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"github.com/landlock-lsm/go-landlock/landlock"
	"golang.org/x/sys/unix"
)

// Main confines this process and becomes the agent, in a process that was
// started for this. Otherwise it returns at once.
func Main() {
	if len(os.Args) < 2 || os.Args[1] != Command {
		return
	}
	err := become(os.Args[2:])
	fmt.Fprintf(os.Stderr, "runnel: the sandbox cannot be made: %v\n", err)
	os.Exit(failed) //nolint:forbidigo // this process only becomes the agent
}

// failed is the exit code of a process that did not become its program, as of a
// shell that cannot execute a command.
const failed = 126

// Version returns the version of Landlock that the kernel offers, or 0.
func Version() int {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(version)
}

// become restricts this process and executes the program. It returns only an
// error. Nothing is executed unless every restriction holds.
func become(args []string) error {
	rules, program, ok := parse(args)
	if !ok {
		return errors.New("wrong arguments")
	}
	version := Version()
	if version < MinVersion {
		return fmt.Errorf("this kernel has version %d of Landlock; want %d or newer", version, MinVersion)
	}
	runtime.LockOSThread() // the keyring and the capabilities are those of a thread
	// Without keyrings for this process, this fails, too. But another agent may
	// also have as many keys as the user may have.
	if _, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0); errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("leave the keyring of the user's session: %w", err)
	}
	allowed, err := open(rules)
	if err != nil {
		return err
	}
	if err := dropCapabilities(); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	if err := restriction(version).Restrict(allowed...); err != nil { // also sets no_new_privs
		return err
	}
	return fmt.Errorf("start %s: %w", program[0], syscall.Exec(program[0], program, os.Environ()))
}

// restriction returns what a version of Landlock restricts: every access to
// files, from version 5 on commands to devices, and from version 6 on signals
// and abstract unix sockets to processes outside. It leaves the network alone.
func restriction(version int) landlock.Config {
	c := landlock.Config{HandledAccessFS: landlock.V3.HandledAccessFS}
	if version >= 5 {
		c.HandledAccessFS = landlock.V5.HandledAccessFS
	}
	if version >= 6 {
		c.Scoped = landlock.V6.Scoped
	}
	return c
}

// open opens the paths of the rules, checks them, and returns the rules for the
// open descriptors. Executing the program closes them.
func open(rules []Rule) (out []landlock.Rule, err error) {
	for _, r := range rules {
		fd, err := unix.Openat2(unix.AT_FDCWD, r.Path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
		if err != nil && r.Ino == 0 {
			continue // replaced or removed since: not allowed
		}
		var st unix.Stat_t
		if err == nil {
			err = unix.Fstat(fd, &st)
		}
		if err != nil {
			return nil, fmt.Errorf("%s was replaced while the sandbox was being made: %w", r.Path, err)
		}
		if r.Ino != 0 && (uint64(st.Dev) != r.Dev || st.Ino != r.Ino) { //nolint:unconvert // another type on some architectures
			return nil, fmt.Errorf("%s was replaced while the sandbox was being made; start the session again", r.Path)
		}
		out = append(out, r.Access.to("/proc/self/fd/"+strconv.Itoa(fd), st.Mode&unix.S_IFMT))
	}
	return out, nil
}

// to returns the rule that allows access to a path of a type.
func (a Access) to(path string, kind uint32) landlock.Rule {
	switch {
	case kind == unix.S_IFDIR && a == Write:
		return landlock.RWDirs(path).WithRefer()
	case kind == unix.S_IFDIR:
		return landlock.RODirs(path)
	case kind == unix.S_IFCHR && a == Write:
		return landlock.RWFiles(path).WithIoctlDev()
	case a == Write:
		return landlock.RWFiles(path)
	}
	return landlock.ROFiles(path)
}

// dropCapabilities removes the privileges of this thread, and so those of the
// program: root could otherwise load kernel modules, for example. With
// no_new_privs, executing a program does not bring them back.
func dropCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&header, &none[0])
}
