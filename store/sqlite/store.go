// Package sqlite stores event logs and the catalogue in one SQLite file.
//
// One caller at a time writes the jobs of all waiting callers in one
// transaction. Every commit survives the end of the process. A transaction that
// contains a decision (see [event.Decides]) or a record is also flushed to the
// disk before its callers return. Events that are only shown go into a journal,
// a file beside the database, and from there into the database with the next
// transaction, at the latest after a second.
//
// Readers use connections of their own. The newest events of each log are also
// kept in memory, so a reader at the end of a log needs no query. A background
// goroutine removes data that is no longer needed while no other job is
// running.
package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/store"
)

// Config configures a store.
type Config struct {
	// Dir is the data directory. Only one server at a time can use it. Open
	// creates it if it is missing. Required.
	Dir string
	// CompactAfter is the time from the end of a turn until the deltas of its
	// finished items are removed. ItemDone repeats their content. A negative
	// value disables the removal. Default: 1 minute.
	CompactAfter time.Duration
	// Logger receives reports of damage and of failed background work. Default:
	// logs are discarded.
	Logger *slog.Logger

	vfs         string                                 // an SQLite file system. Default: that of the operating system
	openJournal func(path string) (journalFile, error) // Default: openFile
	boot        string                                 // identifies the boot of the system. Default: procinfo.BootID()
}

// A Store is an event log and a catalogue in one data directory.
type Store struct {
	committer
	lock   lock
	reader *reader
	tails  *tails
	keeper keeper
	log    *slog.Logger
	damage sync.Map // DamageErrors that were logged

	quit chan struct{} // closed by Close
	shut func() error  // implements Close; runs once
}

var (
	_ runnel.Log       = (*Store)(nil)
	_ store.Catalogue  = (*Store)(nil)
	_ store.Identified = (*Store)(nil)
)

// Open opens the store in cfg.Dir. It creates a missing store and upgrades an
// older one. Every error except that of ctx is a *runnel.Error whose message
// names the remedy.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	return open(ctx, cfg, tailLimits{events: 1024, bytes: 1 << 20, allBytes: 8 << 20})
}

func open(ctx context.Context, cfg Config, limits tailLimits) (_ *Store, err error) {
	dir, err := prepareDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	l, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{
		committer: newCommitter(), keeper: newKeeper(), tails: newTails(limits),
		lock: l, log: cfg.Logger, quit: make(chan struct{}),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.release())
			err = openError(ctx, dir, err)
		}
	}()
	path := filepath.Join(dir, "runnel.db")
	if err := createFile(path); err != nil {
		return nil, err
	}
	list, err := scripts()
	if err != nil {
		return nil, err
	}
	if err := checkHeader(path, list); err != nil {
		return nil, err
	}
	if s.writer, err = s.openWriter(ctx, path, cfg.vfs, list); err != nil {
		return nil, err
	}
	s.writer.inserted = s.tails.unpin
	if cfg.openJournal == nil {
		cfg.openJournal = openFile
	}
	if err := s.openJournal(ctx, dir, cfg.openJournal, cfg.boot); err != nil {
		return nil, err
	}
	// A killed process may have written data without flushing it. Flush that
	// data before the server acts on it, for example when it adopts agents. The
	// killed process may also have deleted a session, so treat the write-ahead
	// log as containing deleted data.
	s.writer.truncate = true
	s.writer.deleted.Store(true)
	s.writer.checkpoint()
	if s.reader, err = openReader(ctx, path, cfg.vfs); err != nil {
		return nil, err
	}
	s.startKeeper(cmp.Or(cfg.CompactAfter, time.Minute))
	s.shut = sync.OnceValue(s.close)
	return s, nil
}

// openWriter acquires the reserve and opens the writing connection. If the disk
// is full it releases the reserve. Reading and recording how turns ended then
// still work.
func (s *Store) openWriter(ctx context.Context, path, vfs string, list []string) (*writer, error) {
	room := &reserve{path: filepath.Join(filepath.Dir(path), "reserve"), log: s.log}
	if err := room.hold(); err != nil {
		s.log.Warn("no disk space could be reserved for the case of a full disk", slog.Any("error", err))
	}
	w, err := openWriter(ctx, path, vfs, list, room)
	if err != nil && room.full(err) && room.give() {
		w, err = openWriter(ctx, path, vfs, list, room)
	}
	if err != nil && room.full(err) {
		err = fmt.Errorf("%w: %w", errFull, err)
	}
	return w, err
}

// LogID implements [store.Identified].
func (s *Store) LogID() string { return s.writer.id }

// Close first removes the remaining data of deleted sessions, for a few seconds
// at most. It then rejects later calls, waits for the running transaction and
// releases the data directory. Close may be called more than once.
func (s *Store) Close() error { return s.shut() }

func (s *Store) close() error {
	s.keeper.stop()
	s.finishDeletions()
	close(s.quit)
	s.committer.close()
	s.tails.close()
	return unavailable(s.release())
}

func (s *Store) release() error {
	var errs []error
	if s.reader != nil {
		errs = append(errs, s.reader.close())
	}
	if s.writer != nil {
		errs = append(errs, s.writer.close())
	}
	return errors.Join(append(errs, s.lock.Close())...)
}
