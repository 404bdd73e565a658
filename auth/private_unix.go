//go:build unix

package auth

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

func checkPrivate(path string, info fs.FileInfo) error {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to another user", path)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("%s has mode %04o: others can use it; run chmod go= on it", path, mode)
	}
	return nil
}

// checkParent rejects a path that other users could replace.
func checkParent(path string) error {
	parent := filepath.Dir(filepath.Clean(path))
	info, err := os.Stat(parent)
	if err != nil {
		return fmt.Errorf("check %s: %w", parent, err)
	}
	if mode := info.Mode(); mode.Perm()&0o022 != 0 && mode&fs.ModeSticky == 0 {
		return fmt.Errorf("%s has mode %04o: others can replace what is in it", parent, mode.Perm())
	}
	return nil
}
