// Package sqlite keeps logs and the catalogue in one SQLite file.
//
// One caller at a time writes, for all that wait, in one transaction. What is
// merely shown is then in the hands of the operating system and survives our
// death; a transaction with anything that was decided is flushed to the disk
// before anyone hears of it. Readers have connections of their own, and at the
// end of a log none at all: its newest events are kept in memory. A goroutine
// removes what is no longer needed while nobody writes.
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

// Config says where a store is.
type Config struct {
	// Dir is the data directory: ours alone, for one server at a time. It is
	// made if it is missing. Required.
	Dir string
	// CompactAfter is how long after the end of a turn the deltas of its finished
	// items are removed: what they said is in ItemDone. Negative: never.
	// Default: 1 m.
	CompactAfter time.Duration
	// Logger is told of damage, and of what fails behind the scenes. Default: discards
	Logger *slog.Logger

	vfs string // one of SQLite's file systems. Default: the operating system's
}

// A Store is a log of events and a catalogue in one data directory.
type Store struct {
	committer
	lock   lock
	reader *reader
	tails  *tails
	keeper keeper
	log    *slog.Logger
	damage sync.Map // DamageErrors that were logged

	quit chan struct{} // closed by Close
	shut func() error  // what Close does, once
}

var (
	_ runnel.Log       = (*Store)(nil)
	_ store.Catalogue  = (*Store)(nil)
	_ store.Identified = (*Store)(nil)
)

// Open opens the store in cfg.Dir, makes it if there is none, and brings an
// older one to this version. Its errors are *runnel.Error and say what to do.
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
	// What a killed process wrote and did not flush is flushed before anyone
	// relies on it: who adopts its agents tells them what it had decided. It may
	// have deleted a session, too.
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

// openWriter opens the connection that writes, and with it the reserve. On a
// full disk it gives that up: enough to read, and to say how things ended.
func (s *Store) openWriter(ctx context.Context, path, vfs string, list []string) (*writer, error) {
	room := &reserve{path: filepath.Join(filepath.Dir(path), "reserve"), log: s.log}
	if err := room.hold(); err != nil {
		s.log.Warn("no space could be set aside for a full disk", slog.Any("error", err))
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

// Close waits for the transaction under way, refuses what comes later, and lets
// the next server in. It may be called more than once.
func (s *Store) Close() error { return s.shut() }

func (s *Store) close() error {
	close(s.quit)
	s.keeper.stop()
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
