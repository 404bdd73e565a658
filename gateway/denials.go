package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/sandbox"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/store"
)

const (
	// MaxDenials is the maximum number of denials in the record of a session. The
	// oldest ones are dropped.
	MaxDenials = 100

	maxTurnDenials   = 20       // new denials of one turn
	maxDenialsFile   = 2 << 20  // bytes that are read of a file
	maxDenialOutput  = 64 << 10 // bytes of an output that are read: half at its start, half at its end
	maxDenialJobs    = 64       // outputs that wait to be read
	maxDenialCalls   = 64       // calls of an open session whose arguments are kept
	denialsSuffix    = ".json"  // follows the session's id in the name of the file
	maxDenialsOpen   = 200      // records in memory
	maxDenialSession = 4096     // sessions whose turn is remembered
)

// A DenialAccess is the access to a path that a sandbox denied.
type DenialAccess string

// The accesses.
const (
	DeniedRead  DenialAccess = "read"
	DeniedWrite DenialAccess = "write"
)

// A Denial is a path outside of a session's sandbox that a program in it seems
// to need: the output of a tool said that the program could not read or write
// it. The output comes from a program that may be hostile, so a denial is a
// suggestion to a person. It grants nothing.
type Denial struct {
	Path   string       `json:"path" doc:"Absolute path, with its links resolved. It exists outside of the sandbox. For a file that could not be created, the directory."`
	Access DenialAccess `json:"access" doc:"What the program could not do with the path."`
	Tool   string       `json:"tool,omitempty" doc:"The agent's name of the tool whose output said so."`
	TurnID string       `json:"turnId,omitempty"`
	At     time.Time    `json:"at" doc:"When the output said so for the first time."`
}

// DenialRecord is what the programs in a session's sandbox could not reach.
type DenialRecord struct {
	Denials []Denial `json:"denials" doc:"The denials, oldest first, at most 100. Those are left out that a rule of kind sandbox_read or sandbox_write allows now."`
	Dropped int64    `json:"dropped" doc:"Number of further denials that the record does not have."`
}

// denialRecords keeps the denials of sessions, each in a file in the data
// directory. Without a data directory, they end with the process. One goroutine
// reads the outputs, so that a slow disk does not delay a session.
type denialRecords struct {
	dir  string // "" without a data directory
	log  *slog.Logger
	jobs chan denialJob

	// Of the goroutine that reads the outputs: the last Suggester, what it is for,
	// and when it was made.
	suggester       *sandbox.Suggester
	dirs, protected []string
	made            time.Time

	mu      sync.Mutex // guards the rest, and the files
	open    map[string]*DenialRecord
	removed map[string]time.Time // sessions whose records were removed, and when
	turns   map[string]turnDenials
}

// turnDenials counts the new denials of a session's last turn.
type turnDenials struct {
	turn string
	n    int
}

// A denialJob is the output of a tool to read. If done is not nil, the job is
// none, and done is closed when all jobs before it are done.
type denialJob struct {
	session, turn, tool string
	output              string
	paths               []string // that the arguments of the call name
	dirs, protected     []string
	clean               func() runnel.Filter // nil: none
	at                  time.Time
	done                chan struct{}
}

func newDenialRecords(dataDir string, log *slog.Logger) *denialRecords {
	rs := &denialRecords{log: log, jobs: make(chan denialJob, maxDenialJobs), open: make(map[string]*DenialRecord), removed: make(map[string]time.Time), turns: make(map[string]turnDenials)}
	if dataDir != "" {
		rs.dir = filepath.Join(dataDir, "denials")
	}
	return rs
}

func (rs *denialRecords) path(id string) string { return filepath.Join(rs.dir, id+denialsSuffix) }

// run reads outputs until ctx ends.
func (rs *denialRecords) run(ctx context.Context) {
	for {
		select {
		case j := <-rs.jobs:
			if j.done != nil {
				close(j.done)
				continue
			}
			rs.read(j)
		case <-ctx.Done():
			return
		}
	}
}

// settleTime bounds the wait for outputs to be read: a disk can hang.
const settleTime = 5 * time.Second

// settle waits until the outputs before have been read, for at most settleTime.
func (rs *denialRecords) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	done := make(chan struct{})
	select {
	case rs.jobs <- denialJob{done: done}:
	case <-ctx.Done():
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// read adds the denials that an output shows.
func (rs *denialRecords) read(j denialJob) {
	denied := deniedIn(j.output, j.paths)
	if len(denied) == 0 {
		return
	}
	s := rs.suggesterFor(j)
	for _, c := range denied {
		found, ok := s.Suggest(sandbox.Allowance{Path: c.path, Write: c.write})
		if !ok || text.OneLine(found.Path, len(found.Path)+1) != found.Path {
			continue
		}
		if j.clean != nil && j.clean().Text(found.Path) != found.Path {
			continue // the path has a secret
		}
		access := DeniedRead
		if found.Write {
			access = DeniedWrite
		}
		rs.add(j.session, Denial{Path: found.Path, Access: access, Tool: j.tool, TurnID: j.turn, At: j.at})
	}
}

// suggesterTime is how long one Suggester serves the outputs of a session: making
// it looks up more than a thousand paths.
const suggesterTime = time.Second

// suggesterFor returns a Suggester for the sandbox of a job. It makes one if the
// last one is for another sandbox, or older than suggesterTime.
func (rs *denialRecords) suggesterFor(j denialJob) *sandbox.Suggester {
	if rs.suggester == nil || time.Since(rs.made) >= suggesterTime || !slices.Equal(rs.dirs, j.dirs) || !slices.Equal(rs.protected, j.protected) {
		rs.dirs, rs.protected, rs.made = j.dirs, j.protected, time.Now()
		rs.suggester = sandbox.NewSuggester(j.dirs, j.protected)
	}
	return rs.suggester
}

// add adds a denial, unless the record has one for the same path and access.
func (rs *denialRecords) add(id string, d Denial) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if _, gone := rs.removed[id]; gone {
		return
	}
	r := rs.find(id)
	if slices.ContainsFunc(r.Denials, func(have Denial) bool { return have.Path == d.Path && have.Access == d.Access }) {
		return
	}
	if len(rs.turns) >= maxDenialSession {
		clear(rs.turns)
	}
	t := rs.turns[id]
	if t.turn != d.TurnID {
		t = turnDenials{turn: d.TurnID}
	}
	t.n++
	rs.turns[id] = t
	if t.n > maxTurnDenials {
		r.Dropped++ // written with the next denial
		return
	}
	if len(r.Denials) >= MaxDenials {
		r.Denials = slices.Delete(r.Denials, 0, 1)
		r.Dropped++
	}
	r.Denials = append(r.Denials, d)
	if err := rs.write(id, r); err != nil {
		rs.log.Error("a denial of a sandbox could not be recorded", slog.String("session", id), slog.String("error", err.Error()))
	}
}

// find returns the record of a session, which it reads from the file at first.
// rs.mu is held.
func (rs *denialRecords) find(id string) *DenialRecord {
	if r := rs.open[id]; r != nil {
		return r
	}
	r := new(DenialRecord)
	if rs.dir != "" && len(rs.open) >= maxDenialsOpen {
		clear(rs.open) // the files have them
	}
	if rs.dir != "" {
		if err := r.read(rs.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			rs.log.Error("the denials of a session's sandbox cannot be read", slog.String("session", id), slog.String("error", err.Error()))
		}
	}
	rs.open[id] = r
	return r
}

func (r *DenialRecord) read(path string) error {
	f, info, err := openCapture(path, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	if info.Size() > maxDenialsFile {
		return errors.New("the file is too large")
	}
	return json.NewDecoder(f).Decode(r)
}

// write writes the file of a record; rs.mu is held.
func (rs *denialRecords) write(id string, r *DenialRecord) error {
	if rs.dir == "" {
		return nil
	}
	data, err := json.Marshal(r)
	if err == nil {
		err = os.MkdirAll(rs.dir, 0o700)
	}
	if err == nil {
		err = os.WriteFile(rs.path(id)+".new", data, 0o600)
	}
	if err != nil {
		return err
	}
	return os.Rename(rs.path(id)+".new", rs.path(id))
}

// remove deletes the record of a session.
func (rs *denialRecords) remove(id string) error {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	delete(rs.open, id)
	delete(rs.turns, id)
	now := time.Now()
	for old, at := range rs.removed {
		if now.Sub(at) > removedFor {
			delete(rs.removed, old)
		}
	}
	rs.removed[id] = now
	if rs.dir == "" {
		return nil
	}
	if err := os.Remove(rs.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return runnel.Fail(runnel.StoreUnavailable, "the record of the session's denials cannot be deleted; see the server's log", err)
	}
	return nil
}

// prune removes the records of sessions that no longer exist. A crash can leave
// them.
func (rs *denialRecords) prune(ctx context.Context, catalogue store.Catalogue) {
	if rs.dir == "" {
		return
	}
	files, _ := os.ReadDir(rs.dir) // without it there are no records
	for _, f := range files {
		id := strings.TrimSuffix(strings.TrimSuffix(f.Name(), ".new"), denialsSuffix)
		if _, err := catalogue.Session(ctx, id); errors.Is(err, store.ErrNotFound) {
			_ = os.Remove(filepath.Join(rs.dir, f.Name()))
		}
	}
}

// A deniedCall is what is kept of a tool call until its output comes.
type deniedCall struct {
	id, tool string
	paths    []string
}

// noteDenials passes the output of a tool in a sandbox to the record of denials;
// e.mu is held. It does not block: if too many outputs wait, it drops this one.
func (e *entry) noteDenials(ev event.Event, item event.FinalItem) {
	if e.denials == nil || !e.started.Sandbox.IsOn() {
		return
	}
	switch f := item.(type) {
	case event.FunctionCall:
		if len(e.calls) >= maxDenialCalls {
			e.calls = slices.Delete(e.calls, 0, 1)
		}
		e.calls = append(e.calls, deniedCall{f.CallID, text.OneLine(f.Name, 100), namedPaths(f)})
	case event.FunctionCallOutput:
		var call deniedCall
		if i := slices.IndexFunc(e.calls, func(c deniedCall) bool { return c.id == f.CallID }); i >= 0 {
			call = e.calls[i]
			e.calls = slices.Delete(e.calls, i, i+1)
		}
		opt := e.started
		j := denialJob{
			session: e.rec.ID, turn: ev.Turn, tool: call.tool, output: bothEnds(f.Output), paths: call.paths, at: ev.At,
			dirs: e.reached(), protected: slices.Concat(opt.Protected, opt.Withheld),
		}
		if opt.Filter != nil {
			j.clean = func() runnel.Filter { return opt.Filter(opt) }
		}
		select {
		case e.denials.jobs <- j:
		default:
		}
	}
}

// reached returns the directories that the session's sandbox has, writable; e.mu
// is held.
func (e *entry) reached() []string {
	return append([]string{workDir(e.rec)}, e.started.AddDirs...)
}

// bothEnds returns the start and the end of an output.
func bothEnds(output string) string {
	if len(output) <= maxDenialOutput {
		return output
	}
	return output[:maxDenialOutput/2] + "\n" + output[len(output)-maxDenialOutput/2:]
}

// namedPaths returns the absolute paths that the arguments of a tool for files
// name.
func namedPaths(f event.FunctionCall) (out []string) {
	var args map[string]json.RawMessage
	if f.Kind == event.KindExecute || len(f.Arguments) > maxDeniedArguments || json.Unmarshal(f.Arguments, &args) != nil {
		return nil
	}
	for _, key := range []string{"file_path", "filePath", "filepath", "absolute_path", "notebook_path", "path", "dir_path"} {
		var path string
		if json.Unmarshal(args[key], &path) == nil && filepath.IsAbs(path) && len(path) <= maxDeniedPath {
			out = append(out, path)
		}
	}
	return out
}

// Denials returns what programs in the sandbox of a session could not reach.
type Denials struct{ g *Gateway }

// DenialsOf returns the records of the denials of the sessions of g.
func DenialsOf(g *Gateway) Denials { return Denials{g} }

// Record returns the denials of a session that no rule allows by now. It fails
// with FORBIDDEN if ctx is limited to a project: denials name existing paths
// outside of it.
func (d Denials) Record(ctx context.Context, ref string) (DenialRecord, error) {
	if onlyProject(ctx) != "" {
		return DenialRecord{}, errBoundSandbox
	}
	st, err := d.g.Status(ctx, ref)
	if err != nil {
		return DenialRecord{}, err
	}
	rec, err := d.g.opener.record(ctx, st.SessionID)
	if err != nil {
		return DenialRecord{}, err
	}
	rs := d.g.opener.denials
	rs.settle(ctx)
	allowed := d.g.rules.set.Load().Paths(sessionOf(rec))
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.find(rec.ID)
	out := DenialRecord{Denials: []Denial{}, Dropped: r.Dropped}
	for _, denial := range r.Denials {
		if !slices.ContainsFunc(allowed, func(rule store.Rule) bool {
			return within(denial.Path, rule.Pattern) && (denial.Access == DeniedRead || rule.Kind == store.RuleSandboxWrite)
		}) {
			out.Denials = append(out.Denials, denial)
		}
	}
	slices.SortStableFunc(out.Denials, func(a, b Denial) int { return cmp.Compare(a.At.UnixNano(), b.At.UnixNano()) })
	return out, nil
}
