package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/runnel-dev/runnel/internal/private"
)

// A Place is where a log is and what its chain is made with.
type Place struct {
	Dir    string // folder of the entries
	Head   string // file of what the log knew last; best not in Dir's data directory, so that a lost directory is noticed
	Secret string // of the chain; a program that has it can forge entries
}

// Config configures a Log.
type Config struct {
	Place

	Clean func(string) string // removes secrets from texts. Default: removes nothing
	Clock func() time.Time    // Default: time.Now

	FileBytes int64 // size at which a new file begins. Default: 8 MiB
	Files     int   // how many files are kept; older ones are removed. Default: 32

	Logger *slog.Logger // Default: discards
}

func (c *Config) setDefaults() {
	if c.Clean == nil {
		c.Clean = func(s string) string { return s }
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.FileBytes <= 0 {
		c.FileBytes = 8 << 20
	}
	if c.Files <= 0 {
		c.Files = 32
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

// A Log appends entries. Only one Log at a time may have a folder; callers see
// to that, as by the lock of the data directory. Its methods are safe for
// concurrent use.
type Log struct {
	cfg   Config
	chain chain

	mu     sync.Mutex
	head   head
	keeper *headFile
	file   *os.File // the last file, nil before its first entry
	size   int64    // of file, in bytes
	files  int
	broken bool // file may end with a part of an entry
	held   bool // the folder has the reserve
	grown  chan struct{}
	closed bool
}

// ErrClosed is returned by methods of a closed Log.
var ErrClosed = errors.New("the audit log is closed")

// Open opens the log in a place, or begins one. If entries are missing at the
// end or the end is not as it was written, Open records that in an entry and
// goes on.
func Open(cfg Config) (*Log, error) {
	cfg.setDefaults()
	if err := errors.Join(private.Dir(cfg.Dir), os.MkdirAll(filepath.Dir(cfg.Head), 0o700)); err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	l := &Log{cfg: cfg, chain: newChain(cfg.Secret), grown: make(chan struct{})}
	if err := l.load(); err != nil {
		l.close()
		return nil, fmt.Errorf("audit log: %w", err)
	}
	l.hold()
	return l, nil
}

// load finds the end of the log.
func (l *Log) load() error {
	known, isKnown, err := readHead(l.cfg.Head, l.chain)
	if err != nil {
		return err
	}
	if l.keeper, err = openHead(l.cfg.Head, l.chain); err != nil {
		return err
	}
	if err := private.CheckFile(l.cfg.Head, private.Nothing); err != nil {
		return err
	}
	firsts, err := filesOf(l.cfg.Dir)
	if err != nil {
		return err
	}
	end, err := l.findEnd(firsts)
	if err != nil {
		return err
	}
	l.files = len(firsts)
	l.head = head{first: 1, n: end.n, last: end.last}
	if len(firsts) > 0 {
		l.head.first = firsts[0]
	}
	why := ""
	switch {
	case !isKnown && len(firsts) > 0:
		why = "the record of the last entry is missing, as after the data directory was moved or restored"
	case !isKnown:
	case end.n < known.n:
		why = fmt.Sprintf("entries are missing: the last one was %d, the log ends with %d", known.n, end.n)
		l.head = known
	case end.n == known.n && end.last != known.last:
		why = fmt.Sprintf("entry %d is not the one that was written", known.n)
		l.head = known
	case !end.good:
		why = "the end of the log is not as it was written"
	}
	if why == "" {
		return nil
	}
	l.cfg.Logger.Error("audit log damaged", slog.String("why", why))
	return l.append(Record{Kind: Damaged, What: why})
}

// end is the last entry of the log.
type end struct {
	n    uint64
	last mac
	good bool // the last file is an unbroken chain
}

// findEnd opens the last file, removes a part of an entry at its end and
// returns its last entry.
func (l *Log) findEnd(firsts []uint64) (e end, err error) {
	e.good = true
	if len(firsts) == 0 {
		return e, nil
	}
	first := firsts[len(firsts)-1]
	path := filepath.Join(l.cfg.Dir, nameOf(first))
	e.n = first - 1
	linked := first == 1
	if len(firsts) > 1 { // the last file may have no entry yet
		before := filepath.Join(l.cfg.Dir, nameOf(firsts[len(firsts)-2]))
		if err := lines(before, func(line []byte, _ bool) bool {
			_, m, err := entry(line)
			e.last, linked = m, err == nil
			return true
		}); err != nil {
			return e, err
		}
	}
	err = lines(path, func(line []byte, whole bool) bool {
		if !whole {
			return false
		}
		l.size += int64(len(line)) + 1
		got, m, err := entry(line)
		text, _, _ := split(line)
		if err != nil || got.N != e.n+1 || linked && l.chain.next(e.last, text) != m {
			e.good = false
		}
		e.n, e.last, linked = max(got.N, e.n), m, true
		return true
	})
	if err != nil {
		return e, err
	}
	if l.file, err = os.OpenFile(path, os.O_RDWR, 0o600); err != nil {
		return e, err
	}
	return e, errors.Join(l.file.Truncate(l.size), l.seekEnd())
}

func (l *Log) seekEnd() error {
	_, err := l.file.Seek(l.size, 0)
	return err
}

// Append appends an entry and sets its number; without a time, it gets the
// present one. The entry survives a power loss once Append returns. If it
// returns an error, the entry is not in the log.
func (l *Log) Append(e Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	return l.append(e)
}

func (l *Log) append(e Record) error {
	e = e.bounded(l.cfg.Clean)
	e.N = l.head.n + 1
	if e.At.IsZero() {
		e.At = l.cfg.Clock()
	}
	e.At = e.At.UTC()
	line, m, err := l.chain.line(l.head.last, e)
	if err == nil {
		err = l.put(line)
	}
	if isFull(err) && e.Kind.mayUseReserve() && l.release() {
		err = l.put(line)
	}
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	if !l.held && !e.Kind.mayUseReserve() {
		l.hold()
	}
	l.head.n, l.head.last = e.N, m
	if err := l.keeper.write(l.head); err != nil {
		// The entry is written. Without its head, only its removal would go
		// unnoticed, until the next one is written.
		l.cfg.Logger.Error("record of the last audit entry not written", slog.Any("error", err))
	}
	close(l.grown)
	l.grown = make(chan struct{})
	return l.dropOld()
}

// put appends a line to the file, or to a new one if the file is full.
func (l *Log) put(line []byte) error {
	if err := l.room(len(line)); err != nil {
		return err
	}
	return l.write(line)
}

// write appends a line to the file, or leaves the file as it was.
func (l *Log) write(line []byte) error {
	if l.broken {
		if err := errors.Join(l.file.Truncate(l.size), l.seekEnd()); err != nil {
			return err
		}
		l.broken = false
	}
	_, err := l.file.Write(line)
	if err == nil {
		err = l.file.Sync()
	}
	if err != nil {
		l.broken = true
		return err
	}
	l.size += int64(len(line))
	return nil
}

// room begins a new file if the present one is full.
func (l *Log) room(n int) error {
	if l.file != nil && l.size+int64(n) <= l.cfg.FileBytes {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(l.cfg.Dir, nameOf(l.head.n+1)), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err := syncDir(l.cfg.Dir); err != nil {
		return errors.Join(err, f.Close())
	}
	if l.file != nil {
		err = l.file.Close()
	}
	l.file, l.size, l.broken, l.files = f, 0, false, l.files+1
	return err
}

// dropOld removes the oldest files if there are too many, and appends an entry
// about it.
func (l *Log) dropOld() error {
	if l.files <= l.cfg.Files {
		return nil
	}
	firsts, err := filesOf(l.cfg.Dir)
	if err != nil || len(firsts) <= l.cfg.Files {
		return err
	}
	kept := firsts[len(firsts)-l.cfg.Files]
	// First what is promised, then what is done: a crash in between leaves files
	// that are removed with the next ones.
	before := l.head.first
	l.head.first = kept
	if err := l.keeper.write(l.head); err != nil {
		l.head.first = before
		return err
	}
	for _, first := range firsts[:slices.Index(firsts, kept)] {
		if err := os.Remove(filepath.Join(l.cfg.Dir, nameOf(first))); err != nil {
			return err
		}
	}
	l.files = l.cfg.Files
	return l.append(Record{Kind: Dropped, Count: int64(kept - before), What: fmt.Sprintf("entries %d to %d were removed, because the log has its maximum size", before, kept-1)})
}

// Last returns the number of the last entry.
func (l *Log) Last() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head.n
}

// Wait waits until the log has an entry with a number above after. It returns
// ctx's error if ctx ends first, and ErrClosed if the log is closed.
func (l *Log) Wait(ctx context.Context, after uint64) error {
	for {
		l.mu.Lock()
		n, grown, closed := l.head.n, l.grown, l.closed
		l.mu.Unlock()
		switch {
		case n > after:
			return nil
		case closed:
			return ErrClosed
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// A Query selects entries.
type Query struct {
	After uint64    // only entries with greater numbers
	Since time.Time // no older entries
	Limit int       // maximum number of entries
}

// Read returns the entries that match q, in order. It does not check the chain.
func (l *Log) Read(q Query) ([]Record, error) { return Read(l.cfg.Dir, q) }

// Verify checks every entry of the log.
func (l *Log) Verify() (Report, error) { return Verify(l.cfg.Place) }

// Read is like [Log.Read], for a log that may be in use.
func Read(dir string, q Query) (out []Record, err error) {
	firsts, err := filesOf(dir)
	if err != nil {
		return nil, err
	}
	for i, first := range firsts {
		if i+1 < len(firsts) && firsts[i+1] <= q.After+1 {
			continue // all of its entries are older
		}
		err := lines(filepath.Join(dir, nameOf(first)), func(line []byte, whole bool) bool {
			if e, _, err := entry(line); err == nil && whole && e.N > q.After && !e.At.Before(q.Since) {
				out = append(out, e)
			}
			return len(out) < q.Limit
		})
		if err != nil || len(out) >= q.Limit {
			return out, err
		}
	}
	return out, nil
}

// Close releases the files. The entries stay.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	return l.close()
}

func (l *Log) close() (err error) {
	l.closed = true
	close(l.grown)
	if l.file != nil {
		err = l.file.Close()
	}
	if l.keeper != nil {
		err = errors.Join(err, l.keeper.file.Close())
	}
	return err
}
