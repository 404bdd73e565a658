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

// A reserve is space that we hold so that a full disk does not keep us from
// writing how things ended. It belongs to the writer.
type reserve struct {
	path  string
	log   *slog.Logger
	given bool // it was given up, or never could be made
}

// reserveBytes is enough to end some hundred turns, and for the shared memory
// file without which SQLite opens nothing.
const reserveBytes = 1 << 20

// hold takes the space, unless we have it. An error means that the disk is
// full, or as good as that.
func (r *reserve) hold() error {
	info, err := os.Lstat(r.path)
	if err != nil || !info.Mode().IsRegular() || info.Size() != reserveBytes || !allocated(info) {
		if err := r.fill(); err != nil {
			r.given = true
			return errors.Join(err, r.remove())
		}
	}
	if r.given {
		r.log.Info("there is space on the disk again")
	}
	r.given = false
	return nil
}

// fill writes the file. Random bytes, so that no file system saves their space.
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
		err = f.Sync() // only now is it certain that there is room
	}
	return errors.Join(err, f.Close())
}

// give frees the space, and reports whether there was any.
func (r *reserve) give() bool {
	if r.given {
		return false
	}
	r.given = true
	r.log.Error("the disk is full; what ends something is still written, from a reserve")
	return r.remove() == nil
}

func (r *reserve) remove() error {
	err := os.Remove(r.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	// Some file systems free space only when the change of the directory is on the disk.
	return errors.Join(err, syncDir(filepath.Dir(r.path)))
}

// closes reports whether evs only say how things ended: for that the reserve is.
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

// full reports whether err says that the disk has no more room for us. Nothing
// was lost then: what was written of the transaction is undone.
func (r *reserve) full(err error) bool {
	if isFull(err) {
		return true
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		switch e.Code() {
		case sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_TRUNCATE, sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_SHMMAP:
			return isFull(r.probe()) // SQLite does not say why, as with a quota
		}
	}
	return false
}

// isFull reports whether err itself says that there is no more room.
func isFull(err error) bool {
	return errors.Is(err, errFull) || errors.Is(err, errNoSpace) || errors.Is(err, errQuota) || code(err) == sqlite3.SQLITE_FULL
}

// probe finds out whether something can be written.
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
