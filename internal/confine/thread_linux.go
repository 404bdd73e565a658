package confine

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The rights of Landlock, by the version that added them.
const (
	rightsV1 = 1<<13 - 1
	rightsV2 = rightsV1 | unix.LANDLOCK_ACCESS_FS_REFER
	rightsV3 = rightsV2 | unix.LANDLOCK_ACCESS_FS_TRUNCATE

	rightsRead = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	rightsFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
)

// rights returns the rights that a version of Landlock has.
func rights(version int) uint64 {
	switch version {
	case 1:
		return rightsV1
	case 2:
		return rightsV2
	}
	return rightsV3
}

// Start calls start in a thread that may access only what the rules allow. The
// processes that start starts are restricted in the same way; the other threads
// of this process are not. Start skips rules for paths that do not exist or have
// a symbolic link. It fails, without calling start, if the kernel does not
// restrict the thread; see [Version].
func Start(rules []Rule, start func()) error {
	fd, err := ruleset(rules, rights(Version()))
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	done := make(chan error)
	inOwnThread(func() {
		err := restrictThread(fd)
		if err == nil {
			start()
		}
		done <- err
	})
	return <-done
}

// inOwnThread calls f in a thread that ends with f. The first thread of a
// process cannot end.
func inOwnThread(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			f()
			return // the thread ends, because it is still locked
		}
		ended := make(chan struct{})
		inOwnThread(func() { // in another thread, because this one is occupied
			defer close(ended)
			f()
		})
		<-ended
		runtime.UnlockOSThread()
	}()
}

// ruleset returns the descriptor of a set of rules.
func ruleset(rules []Rule, handled uint64) (int, error) {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: handled}
	r, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr.Handled_access_fs), 0)
	if errno != 0 {
		return 0, fmt.Errorf("create a set of rules: %w", errno)
	}
	fd := int(r)
	for _, rule := range rules {
		if err := allow(fd, rule, handled); err != nil {
			unix.Close(fd)
			return 0, fmt.Errorf("allow %s: %w", rule.Path, err)
		}
	}
	return fd, nil
}

// allow adds a rule to a set.
func allow(set int, rule Rule, handled uint64) error {
	fd, err := unix.Openat2(unix.AT_FDCWD, rule.Path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return nil //nolint:nilerr // the rule is skipped
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: handled, Parent_fd: int32(fd)}
	if rule.Access == Read {
		attr.Allowed_access &= rightsRead
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		attr.Allowed_access &= rightsFile
	}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(set), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// restrictThread restricts the calling thread to a set of rules.
func restrictThread(set int) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up privileges: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(set), 0, 0); errno != 0 {
		return fmt.Errorf("restrict the thread: %w", errno)
	}
	return nil
}
