package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/store"
)

const (
	// MaxAttempts is the maximum number of attempts in the record of a session's
	// egress. The oldest ones are dropped.
	MaxAttempts = 1000

	egressSuffix   = ".jsonl"        // follows the session's id in the name of the file
	maxEgressLines = 4 * MaxAttempts // the file is rewritten when it has more lines
	maxEgressFile  = 8 << 20         // bytes that are read of a file
	maxEgressOpen  = 200             // records in memory
)

// EgressRecord is what the programs in a session's sandbox tried to reach in the
// network.
type EgressRecord struct {
	Attempts []runnel.EgressAttempt `json:"attempts" doc:"The attempts, oldest first, at most 1000."`
	Dropped  int64                  `json:"dropped" doc:"Number of older attempts that the record no longer has."`
}

// egressRecords keeps the records of the sessions' egress. Each session whose
// programs tried to reach the network has a file in the data directory. Without
// a data directory, the records end with the process.
type egressRecords struct {
	dir string // "" without a data directory
	log *slog.Logger

	mu      sync.Mutex // guards the rest, and the files
	open    map[string]*egressRecord
	removed map[string]time.Time // sessions whose records were removed, and when: their last connections may still end
}

// removedFor is how long a removed record stays removed although an attempt is
// reported.
const removedFor = time.Hour

// An egressRecord is the record of one session.
type egressRecord struct {
	EgressRecord
	lines int // of the file
}

func newEgressRecords(dataDir string, log *slog.Logger) *egressRecords {
	rs := &egressRecords{log: log, open: make(map[string]*egressRecord), removed: make(map[string]time.Time)}
	if dataDir != "" {
		rs.dir = filepath.Join(dataDir, "egress")
	}
	return rs
}

func (rs *egressRecords) path(id string) string { return filepath.Join(rs.dir, id+egressSuffix) }

// maxReachedHost bounds the host of an attempt, in bytes.
const maxReachedHost = 300

// reached returns the runnel.Options.Reached of a session that runs with opt.
// Programs in the sandbox choose the names of hosts, so they may contain
// secrets and control characters, which are removed.
func (rs *egressRecords) reached(id string, opt runnel.Options) func(runnel.EgressAttempt) {
	clean := sync.OnceValue(func() func(string) string {
		if opt.Filter == nil {
			return func(s string) string { return s }
		}
		return opt.Filter(opt).Text
	})
	return func(a runnel.EgressAttempt) {
		rs.mu.Lock() // also because clean is for one goroutine at a time
		defer rs.mu.Unlock()
		if _, gone := rs.removed[id]; gone {
			return
		}
		a.Host = text.OneLine(clean()(a.Host), maxReachedHost)
		r := rs.find(id)
		r.add(a)
		if err := rs.write(id, r, a); err != nil {
			rs.log.Error("an attempt to reach the network could not be recorded", slog.String("session", id), slog.String("host", a.Host), slog.Int("port", a.Port), slog.String("error", err.Error()))
		}
	}
}

// find returns the record of a session, which it reads from the file at first.
// rs.mu is held.
func (rs *egressRecords) find(id string) *egressRecord {
	if r := rs.open[id]; r != nil {
		return r
	}
	r := new(egressRecord)
	if rs.dir != "" && len(rs.open) >= maxEgressOpen {
		clear(rs.open) // the files have them
	}
	if rs.dir != "" {
		if err := r.read(rs.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			rs.log.Error("the record of a session's egress cannot be read", slog.String("session", id), slog.String("error", err.Error()))
		}
	}
	rs.open[id] = r
	return r
}

// read reads a file. Connections that an earlier process had open have ended.
func (r *egressRecord) read(path string) error {
	f, info, err := openCapture(path, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	if info.Size() > maxEgressFile {
		return errors.New("the file is too large")
	}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var l egressLine
		if json.Unmarshal(lines.Bytes(), &l) != nil {
			continue // the last line, which an earlier process did not finish
		}
		r.lines++
		r.Dropped += l.Dropped
		if l.EgressAttempt != nil {
			r.add(*l.EgressAttempt)
		}
	}
	for i := range r.Attempts {
		r.Attempts[i].Open = false
	}
	return nil
}

// An egressLine is one line of a file: an attempt, or how many were dropped.
type egressLine struct {
	*runnel.EgressAttempt
	Dropped int64 `json:"dropped,omitempty"`
}

// add adds an attempt, or replaces an earlier report of it.
func (r *egressRecord) add(a runnel.EgressAttempt) {
	for i, have := range slices.Backward(r.Attempts) {
		if have.ID == a.ID {
			r.Attempts[i] = a
			return
		}
	}
	if len(r.Attempts) >= MaxAttempts {
		r.Attempts = slices.Delete(r.Attempts, 0, 1)
		r.Dropped++
	}
	r.Attempts = append(r.Attempts, a)
}

// write appends an attempt to the file, or writes the file again if it is long.
// rs.mu is held.
func (rs *egressRecords) write(id string, r *egressRecord, a runnel.EgressAttempt) error {
	if rs.dir == "" {
		return nil
	}
	if err := os.MkdirAll(rs.dir, 0o700); err != nil {
		return err
	}
	if r.lines++; r.lines > maxEgressLines {
		return rs.rewrite(id, r)
	}
	line, err := json.Marshal(egressLine{EgressAttempt: &a})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(rs.path(id), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

func (rs *egressRecords) rewrite(id string, r *egressRecord) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	if err := enc.Encode(egressLine{Dropped: r.Dropped}); err != nil {
		return err
	}
	for i := range r.Attempts {
		if err := enc.Encode(egressLine{EgressAttempt: &r.Attempts[i]}); err != nil {
			return err
		}
	}
	if err := os.WriteFile(rs.path(id)+".new", buf.Bytes(), 0o600); err != nil {
		return err
	}
	r.lines = len(r.Attempts) + 1
	return os.Rename(rs.path(id)+".new", rs.path(id))
}

// remove deletes the record of a session.
func (rs *egressRecords) remove(id string) error {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	delete(rs.open, id)
	now := time.Now()
	maps.DeleteFunc(rs.removed, func(_ string, at time.Time) bool { return now.Sub(at) > removedFor })
	rs.removed[id] = now
	if rs.dir == "" {
		return nil
	}
	if err := os.Remove(rs.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return runnel.Fail(runnel.StoreUnavailable, "the record of the session's egress cannot be deleted; see the server's log", err)
	}
	return nil
}

// prune removes the records of sessions that no longer exist, and the
// directories of sandboxes whose agents have ended; running are the sessions
// whose agents have not. A crash can leave both.
func (rs *egressRecords) prune(ctx context.Context, catalogue store.Catalogue, sandboxes string, running func(id string) bool) {
	if rs.dir == "" {
		return
	}
	files, _ := os.ReadDir(rs.dir) // without it there are no records
	for _, f := range files {
		id, _ := strings.CutSuffix(strings.TrimSuffix(f.Name(), ".new"), egressSuffix)
		if _, err := catalogue.Session(ctx, id); errors.Is(err, store.ErrNotFound) {
			_ = os.Remove(filepath.Join(rs.dir, f.Name()))
		}
	}
	boxes, _ := filepath.Glob(filepath.Join(sandboxes, "*.box"))
	for _, dir := range boxes {
		if !running(strings.TrimSuffix(filepath.Base(dir), ".box")) {
			_ = os.RemoveAll(dir)
		}
	}
}

// Egress returns what programs in sandboxes tried to reach.
type Egress struct{ g *Gateway }

// EgressOf returns the records of the egress of the sessions of g.
func EgressOf(g *Gateway) Egress { return Egress{g} }

// Record returns the record of a session. It is empty if the session has no
// sandbox.
func (e Egress) Record(ctx context.Context, ref string) (EgressRecord, error) {
	st, err := e.g.Status(ctx, ref)
	if err != nil {
		return EgressRecord{}, err
	}
	rs := e.g.opener.egress
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.find(st.SessionID).EgressRecord
	if r.Attempts = slices.Clone(r.Attempts); r.Attempts == nil {
		r.Attempts = []runnel.EgressAttempt{}
	}
	return r, nil
}
