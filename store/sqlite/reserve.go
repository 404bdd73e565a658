package sqlite

import (
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"path/filepath"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/runnel-dev/runnel/event"
)

// A reserve is disk space held in a file, so that the store can still record
// how turns ended when the disk is full. The writer owns it.
type reserve struct {
	path  string
	log   *slog.Logger
	given bool // the file was released or could not be created
}

// reserveBytes is enough to record the ends of some hundred turns. The
// transaction that records the first of these ends also inserts the events of
// the journal, so the reserve includes space for them. It also leaves room for
// SQLite's shared-memory file, without which the database cannot be opened.
const reserveBytes = 1<<20 + 2*journalBytes

// hold creates the file unless it exists. It returns an error if the disk is
// full or the file cannot be written.
func (r *reserve) hold() error {
	info, err := os.Lstat(r.path)
	if err != nil || !info.Mode().IsRegular() || info.Size() != reserveBytes || !allocated(info) {
		if err := r.fill(); err != nil {
			r.given = true
			return errors.Join(err, r.remove())
		}
	}
	if r.given {
		r.log.Info("the disk has free space again")
	}
	r.given = false
	return nil
}

// fill writes the file with random bytes, so that no file system compresses it.
func (r *reserve) fill() error {
	if err := r.remove(); err != nil {
		return err
	}
	f, err := os.OpenFile(r.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	data := make([]byte, reserveBytes)
	rand.Read(data)
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync() // only a flush proves that the space exists
	}
	return errors.Join(err, f.Close())
}

// give removes the file to free its space. It reports whether it freed any.
func (r *reserve) give() bool {
	if r.given {
		return false
	}
	r.given = true
	r.log.Error("the disk is full; only the ends of turns and deletions are still written, from a reserve")
	return r.remove() == nil
}

func (r *reserve) remove() error {
	err := os.Remove(r.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	// Some file systems free the space only when the directory change is on the
	// disk.
	return errors.Join(err, syncDir(filepath.Dir(r.path)))
}

// closes reports whether evs only record how items, approvals and turns ended.
// Such events may use the reserve.
func closes(evs []event.Event) bool {
	for _, ev := range evs {
		switch ev.Body.(type) {
		case event.ItemError, event.ItemCancelled, event.ApprovalResolved, event.ResponseDone, event.ResponseError:
		default:
			return false
		}
	}
	return true
}

// maxClosing bounds the bytes of an append that may use the reserve.
const maxClosing = 64 << 10

// full reports whether err means that the disk or quota is full. Nothing is
// lost then: SQLite rolls back the transaction.
func (r *reserve) full(err error) bool {
	if isFull(err) {
		return true
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		switch e.Code() {
		case sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_TRUNCATE, sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_SHMMAP:
			return isFull(r.probe()) // SQLite does not report the cause, for example a quota
		}
	}
	return false
}

// isFull reports whether err says that no space is left. Unlike full, it does
// not try to write to the disk.
func isFull(err error) bool {
	return errors.Is(err, errFull) || errors.Is(err, errNoSpace) || errors.Is(err, errQuota) || code(err) == sqlite3.SQLITE_FULL
}

// probe returns an error if it cannot write a small file.
func (r *reserve) probe() error {
	f, err := os.CreateTemp(filepath.Dir(r.path), "probe-*")
	if err != nil {
		return err
	}
	data := make([]byte, 32<<10)
	rand.Read(data)
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	_ = errors.Join(f.Close(), os.Remove(f.Name()))
	return err
}
