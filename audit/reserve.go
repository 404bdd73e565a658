package audit

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// reserveName is the file of a log's folder that holds disk space. When the disk
// is full, the space is released for the entries of some actions, see
// [Action.mayUseReserve].
const reserveName = "reserve"

// reserveBytes is enough for some hundred entries.
const reserveBytes = 64 << 10

// mayUseReserve reports whether an entry of this kind may use the reserve.
// Without its entry no session could be deleted, and so no space would become
// free; and somebody with a stolen credential, or an agent that a rule serves,
// could fill the disk to keep the credential or the rule.
func (a Action) mayUseReserve() bool {
	switch a {
	case SessionDeleted, Revoked, Logout, RuleRemoved:
		return true
	}
	return false
}

// hold creates the reserve unless it exists. If the disk has too little space,
// the next entry that may not use the reserve tries again.
func (l *Log) hold() {
	path := filepath.Join(l.cfg.Dir, reserveName)
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size() == reserveBytes {
		l.held = true
		return
	}
	data := make([]byte, reserveBytes)
	rand.Read(data) // so that no file system compresses it
	_ = os.Remove(path)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync() // only a flush proves that the space exists
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(path)
		return
	}
	l.held = true
}

// release gives the space of the reserve back, and reports whether there was
// any.
func (l *Log) release() bool {
	was := l.held
	l.held = false
	return was && os.Remove(filepath.Join(l.cfg.Dir, reserveName)) == nil
}

func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
