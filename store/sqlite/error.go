package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/runnel-dev/runnel"
)

var (
	errMoved = errors.New("sqlite: the database file was moved or replaced")
	errFull  = errors.New("sqlite: the disk is full")
	errDisk  = errors.New("sqlite: the disk reported an error")
)

// A DamageError names an event that is missing or differs from what was stored.
type DamageError struct {
	Session string
	Seq     int64
	what    string
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("event %d of session %s %s", e.Seq, e.Session, e.what)
}

func errClosed() error {
	return runnel.Fail(runnel.StoreUnavailable, "the store is closed; start the server again")
}

// code returns SQLite's primary result code, or 0 if err has none.
func code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// fatal returns err if the contents of the disk are unknown after it, else nil.
// After a failed flush a second flush may succeed without writing the data of
// the first, so a retry could report data as durable that is lost.
func fatal(err error) error {
	switch code(err) {
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return err
	}
	if errors.Is(err, errMoved) {
		return err
	}
	return nil
}

// unavailable returns err as a *runnel.Error whose message states the problem
// and the remedy.
func unavailable(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*runnel.Error](err); ok {
		return err
	}
	message := "the store failed; see the server's log"
	switch code(err) {
	case sqlite3.SQLITE_TOOBIG:
		return runnel.Fail(runnel.PayloadTooLarge, "too large to be stored; send less at once", err)
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		message = "another program has locked the database; close that program and try again"
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN:
		message = "the database is not writable; make the data directory writable and restart the server"
	case sqlite3.SQLITE_IOERR:
		message = "the disk reported an error; check it, then restart the server"
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		message = "the database is damaged; stop the server and restore a backup"
	}
	switch {
	case errors.Is(err, errDisk):
		message = "the disk reported an error; check it, then restart the server"
	case isFull(err):
		message = "the disk is full; free some space and try again"
	case errors.Is(err, errMoved):
		message = "the data directory was removed or replaced; put it back and restart the server"
	}
	if damage, ok := errors.AsType[*DamageError](err); ok {
		message = "the database is damaged: " + damage.Error() + "; stop the server and restore a backup"
	}
	return runnel.Fail(runnel.StoreUnavailable, message, err)
}

// readError converts the error of a query to the error that the reader
// receives. If ctx has ended, that is the error of ctx.
func (s *Store) readError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case s.closed(), errors.Is(err, sql.ErrConnDone):
		return errClosed()
	}
	s.noteDamage(err)
	return unavailable(err)
}

// noteDamage logs damage that a reader found, once for each event.
func (s *Store) noteDamage(err error) {
	damage, ok := errors.AsType[*DamageError](err)
	if !ok {
		if c := code(err); c != sqlite3.SQLITE_CORRUPT && c != sqlite3.SQLITE_NOTADB {
			return
		}
		damage = new(DamageError)
	}
	if _, known := s.damage.LoadOrStore(*damage, true); !known {
		s.log.Error("the database is damaged; stop the server and restore a backup",
			slog.String("session", damage.Session), slog.Int64("seq", damage.Seq), slog.String("error", err.Error()))
	}
}

func (s *Store) closed() bool {
	select {
	case <-s.quit:
		return true
	default:
		return false
	}
}

// openError returns the error that Open and Backup report for err.
func openError(ctx context.Context, dir string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if e, ok := errors.AsType[*runnel.Error](err); ok {
		return e
	}
	e := runnel.Safe(unavailable(err))
	return runnel.Fail(e.Code, fmt.Sprintf("the data directory %s cannot be opened: %s", dir, e.Message), err)
}
