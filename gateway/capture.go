package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/recording"
	"github.com/runnel-dev/runnel/store"
)

// CaptureStopped is the code of the notice that the server has stopped a debug
// capture.
const CaptureStopped = "DEBUG_CAPTURE_STOPPED"

// MaxCapture is the maximum size of the file of a debug capture, in bytes.
const MaxCapture = 32 << 20

// captureSuffix follows the session's id in the name of the file.
const captureSuffix = ".jsonl"

// A CaptureStop is why the server stopped a debug capture.
type CaptureStop string

// The values of Capture.Stopped.
const (
	CaptureSize   CaptureStop = "size"   // the file has reached MaxCapture
	CaptureDisk   CaptureStop = "disk"   // the disk is almost full
	CaptureFailed CaptureStop = "failed" // the file could not be written for another reason
)

// captureReserve is how much space of the disk a capture leaves to the event
// log, in bytes.
const captureReserve = 64 << 20

// Capture describes the debug capture of a session to clients.
type Capture struct {
	On      bool        `json:"on" doc:"Whether the raw lines between the server and the agent are being written to the file."`
	Bytes   int64       `json:"bytes" doc:"Size of the file. It has at most 32 MiB."`
	Stopped CaptureStop `json:"stopped,omitempty" enum:"size,disk,failed" doc:"Why the server stopped the capture. size: the file has reached its maximum size. disk: less than 64 MiB of the disk is free. failed: the file could not be written. Absent if the capture is on or a client switched it off."`
}

// captures writes the debug captures of sessions: the raw lines between the
// server and the agents, without known secrets. Each session that has one has a
// file in the data directory.
type captures struct {
	dir string // "" without a data directory
	log *slog.Logger
	on  sync.Map // *capture of sessions whose capture is on or was stopped by the server, by id
}

func newCaptures(dataDir string, log *slog.Logger) *captures {
	if dataDir == "" {
		return &captures{log: log}
	}
	return &captures{dir: filepath.Join(dataDir, "captures"), log: log}
}

func (cs *captures) path(id string) string { return filepath.Join(cs.dir, id+captureSuffix) }

// find returns the capture of a session; nil if it is off.
func (cs *captures) find(id string) *capture {
	if c, ok := cs.on.Load(id); ok {
		return c.(*capture)
	}
	return nil
}

// begin switches the capture of a session on, with an empty file. It replaces
// the file of an earlier capture.
func (cs *captures) begin(id, agent string) error {
	c, err := cs.create(id, agent)
	if err != nil {
		return runnel.Fail(runnel.StoreUnavailable, "the file of the debug capture cannot be written; free disk space, or see the server's log", err)
	}
	cs.on.Store(id, c)
	return nil
}

func (cs *captures) create(id, agent string) (*capture, error) {
	if err := os.MkdirAll(cs.dir, 0o700); err != nil {
		return nil, err
	}
	if diskFull(cs.dir) {
		return nil, errors.New("the disk is almost full")
	}
	path, began := cs.path(id), time.Now().UTC()
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	head, err := json.Marshal(recording.Head{Recording: recording.Version, Agent: agent, StartedAt: began, Capture: true})
	if err != nil {
		return nil, err
	}
	data, err := recording.New(0, runnel.DirMeta, head).Encode()
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	return &capture{path: path, began: began, log: cs.log}, nil
}

// resume continues the capture of a session that an earlier server process
// captured. A new file begins if the session has none, or one that is not a
// capture. A file that cannot be read stays, and the capture stops.
func (cs *captures) resume(id, agent string) {
	if cs.dir == "" || cs.find(id) != nil {
		return
	}
	c := &capture{path: cs.path(id), log: cs.log}
	began, err := c.repair()
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoCapture) {
		if err = cs.begin(id, agent); err == nil {
			return
		}
	}
	if c.began = began; err != nil {
		c.stop(CaptureFailed, err)
	}
	cs.on.LoadOrStore(id, c)
}

// end switches the capture of a session off. When it returns, the capture
// writes no more lines. The file stays.
func (cs *captures) end(id string) {
	if c, ok := cs.on.LoadAndDelete(id); ok {
		c.(*capture).end()
	}
}

// remove switches the capture of a session off and removes its file.
func (cs *captures) remove(id string) error {
	cs.end(id)
	if cs.dir == "" {
		return nil
	}
	if err := os.Remove(cs.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return runnel.Fail(runnel.StoreUnavailable, "the file of the session's debug capture cannot be deleted; see the server's log", err)
	}
	return nil
}

// prune removes the files of sessions that no longer exist. A crash can leave
// such a file.
func (cs *captures) prune(ctx context.Context, catalogue store.Catalogue) {
	if cs.dir == "" {
		return
	}
	files, err := os.ReadDir(cs.dir)
	if err != nil {
		return // there are no captures
	}
	for _, f := range files {
		id, ok := strings.CutSuffix(f.Name(), captureSuffix)
		if !ok {
			continue
		}
		if _, err := catalogue.Session(ctx, id); errors.Is(err, store.ErrNotFound) {
			if err := cs.remove(id); err != nil {
				cs.log.Warn("debug capture of a deleted session not removed", slog.String("session", id), slog.String("error", err.Error()))
			}
		}
	}
}

// status describes the capture of a session; nil if the session has none. kept
// is what its record says.
func (cs *captures) status(id string, kept keptCapture) *Capture {
	if cs.dir == "" {
		return nil
	}
	st := Capture{On: kept.Capture, Stopped: kept.Stopped}
	if c := cs.find(id); c != nil {
		st.Stopped = c.whyStopped()
		st.On = st.Stopped == ""
	}
	info, err := os.Stat(cs.path(id))
	if err == nil {
		st.Bytes = info.Size()
	}
	if err != nil && !st.On && st.Stopped == "" {
		return nil
	}
	return &st
}

// open opens the file of a session for reading. The reader ends after the last
// line that is in the file now.
func (cs *captures) open(id string) (io.ReadCloser, error) {
	if c := cs.find(id); c != nil { // no line is being written
		c.mu.Lock()
		defer c.mu.Unlock()
	}
	file, info, err := openCapture(cs.path(id), os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(file, info.Size()), file}, nil
}

// equip returns opt with the tap of a session. The tap has no effect while the
// session's capture is off.
func (cs *captures) equip(opt runnel.Options, id string) runnel.Options {
	if cs.dir == "" {
		return opt
	}
	filter := &tapFilter{filter: sync.OnceValue(func() runnel.Filter {
		if opt.Filter == nil {
			return nil
		}
		return opt.Filter(opt)
	})}
	opt.Tapping = func() bool { c := cs.find(id); return c != nil && c.whyStopped() == "" }
	opt.Tap = func(dir runnel.Dir, line []byte) {
		if c := cs.find(id); c != nil {
			c.add(time.Now(), dir, filter.line(line), line)
		}
	}
	return opt
}

// A tapFilter is the filter of a session's tap. Connections call a tap from
// several goroutines, but a Filter is for one at a time.
type tapFilter struct {
	mu     sync.Mutex
	filter func() runnel.Filter
}

func (f *tapFilter) line(line []byte) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return redactLine(f.filter(), line)
}

// redactLine returns a raw line without the secrets that f removes.
func redactLine(f runnel.Filter, line []byte) []byte {
	if f == nil {
		return line
	}
	if l, ok := f.(interface{ Line(line []byte) []byte }); ok { // keeps JSON valid
		return l.Line(line)
	}
	return []byte(f.Text(string(line)))
}

// notices returns the notice that the server has stopped the capture of a
// session, once.
func (cs *captures) notices(id string) []event.Notice {
	c := cs.find(id)
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped == "" || c.reported {
		return nil
	}
	c.reported = true
	why := "its file cannot be written"
	switch c.stopped {
	case CaptureSize:
		why = fmt.Sprintf("its file has reached %d MiB", MaxCapture>>20)
	case CaptureDisk:
		why = "the disk is almost full"
	}
	return []event.Notice{{Level: event.LevelWarning, Code: CaptureStopped,
		Message: "The debug capture has stopped, because " + why + ". The turn continues. Switch the capture on again to begin a new file."}}
}

// A capture is the file of one session. It is opened for each line, so that an
// open session holds no descriptor for it. Its methods are safe for concurrent
// use.
type capture struct {
	path  string
	began time.Time
	log   *slog.Logger

	mu       sync.Mutex // guards the rest, and the file
	over     bool       // a client switched it off
	stopped  CaptureStop
	reported bool        // notices has reported that it stopped
	passed   []time.Time // times of the next lines, which passed in an earlier server process
}

func (c *capture) whyStopped() CaptureStop {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stopped
}

func (c *capture) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
}

// add appends a line, or stops the capture. line is redacted; original is not.
func (c *capture) add(now time.Time, dir runnel.Dir, line, original []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || c.stopped != "" {
		return
	}
	if dir == runnel.DirMeta {
		if m, ok := recording.ParseMark(original); ok && m.Mark == recording.Takeover {
			c.passed = m.Times
			if err := c.rewind(); err != nil {
				c.stop(CaptureFailed, err)
				return
			}
			line = takenOver(line)
		}
	} else if len(c.passed) > 0 {
		now, c.passed = c.passed[0], c.passed[1:]
	}
	data, err := recording.New(now.Sub(c.began), dir, line).Encode()
	if err != nil {
		c.stop(CaptureFailed, err)
		return
	}
	if why, err := c.append(data); why != "" {
		c.stop(why, err)
	}
}

// takenOver returns the mark of the lines that follow the mark of a takeover:
// of a turn if it has the state at the turn's start, and otherwise of the start
// of the agent's process.
func takenOver(takeover []byte) []byte {
	mark := recording.Mark{Mark: recording.Start}
	if m, ok := recording.ParseMark(takeover); ok && len(m.State) > 0 {
		mark = recording.Mark{Mark: recording.Turn, State: m.State}
	}
	data, _ := json.Marshal(mark) // cannot fail: State is valid JSON
	return data
}

// append writes one line at the end of the file, whole or not at all.
func (c *capture) append(data []byte) (CaptureStop, error) {
	if diskFull(filepath.Dir(c.path)) {
		return CaptureDisk, nil
	}
	f, info, err := openCapture(c.path, os.O_WRONLY|os.O_APPEND)
	if err != nil {
		return CaptureFailed, err
	}
	if info.Size()+int64(len(data)) > MaxCapture {
		return CaptureSize, f.Close()
	}
	if _, err = f.Write(data); err != nil {
		err = errors.Join(err, f.Truncate(info.Size()))
	}
	switch err = errors.Join(err, f.Close()); {
	case errors.Is(err, syscall.ENOSPC):
		return CaptureDisk, err
	case err != nil:
		return CaptureFailed, err
	}
	return "", nil
}

func (c *capture) stop(why CaptureStop, err error) {
	c.stopped, c.passed = why, nil
	attrs := []slog.Attr{slog.String("file", c.path), slog.String("reason", string(why))}
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	c.log.LogAttrs(context.Background(), slog.LevelWarn, "debug capture stopped", attrs...)
}

// openCapture opens the file of a capture. It fails if the file is a pipe: an
// agent could put one there, and opening, reading or writing it would block.
func openCapture(path string, flag int) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, flag|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Mode()&fs.ModeNamedPipe != 0 {
		err = errors.New("a pipe")
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

var errNoCapture = errors.New("not a debug capture")

// repair reads the head of an existing file, and cuts off a line that an
// earlier process did not finish. It fails with errNoCapture if the file has no
// head.
func (c *capture) repair() (began time.Time, err error) {
	_, err = c.scan(func(first bool, l recording.Line) bool {
		var head recording.Head
		if first && l.Dir == runnel.DirMeta && json.Unmarshal([]byte(l.Line), &head) == nil && head.Capture {
			began = head.StartedAt
		}
		return false
	})
	if err == nil && began.IsZero() {
		err = errNoCapture
	}
	return began, err
}

// rewind cuts the file before the last mark, or after its head if it has no
// mark. After a takeover the agent's supervisor repeats every line since then,
// also those that no server process received.
func (c *capture) rewind() error {
	at, err := c.scan(func(first bool, l recording.Line) bool {
		_, mark := recording.ParseMark([]byte(l.Line))
		return !first && l.Dir == runnel.DirMeta && mark
	})
	if err != nil {
		return err
	}
	return os.Truncate(c.path, at)
}

// scan calls visit with each line of the file, and cuts off a line that has no
// end. It returns the offset of the last line for which visit returned true, or
// that of the second line if there was none.
func (c *capture) scan(visit func(first bool, l recording.Line) bool) (at int64, err error) {
	f, _, err := openCapture(c.path, os.O_RDWR)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	in := bufio.NewReader(io.LimitReader(f, MaxCapture))
	var offset int64
	for first := true; ; first = false {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return at, f.Truncate(offset)
		}
		if err != nil {
			return 0, err
		}
		var l recording.Line
		if json.Unmarshal(bytes.TrimSpace(text), &l) == nil && visit(first, l) {
			at = offset
		}
		offset += int64(len(text))
		if first {
			at = offset
		}
	}
}

// Captures switches the debug captures of a Gateway's sessions on and off, and
// reads them.
type Captures struct{ g *Gateway }

// CapturesOf returns the debug captures of the sessions of g.
func CapturesOf(g *Gateway) Captures { return Captures{g} }

// Set switches the debug capture of a session on or off. Off keeps the file
// until the capture is switched on again or the session is deleted. Set fails
// with UNSUPPORTED_CAPABILITY if the agent exchanges no lines with the server,
// and with STORE_UNAVAILABLE if the file or the session's record cannot be
// written. A capture whose beginning fails is off and has no file.
func (c Captures) Set(ctx context.Context, ref string, on bool) (Capture, error) {
	g, cs := c.g, c.g.opener.captures
	e, err := g.lock(ctx, ref)
	if err != nil {
		return Capture{}, err
	}
	defer g.unlock(e)
	rec, _ := e.snapshot()
	p := g.opener.providers.Named(rec.CLIType)
	if _, ok := p.(runnel.Translator); !ok {
		return Capture{}, runnel.Fail(runnel.UnsupportedCapability, runnel.DisplayName(p)+" cannot be captured, because it runs inside runnel and prints no lines")
	}
	if cs.dir == "" {
		return Capture{}, runnel.Fail(runnel.UnsupportedCapability, "this server has no data directory for debug captures")
	}
	open := cs.find(rec.ID)
	begins := on && (open == nil || open.whyStopped() != "")
	if begins {
		if err := cs.begin(rec.ID, rec.CLIType); err != nil {
			return Capture{}, err
		}
	}
	if !on {
		cs.end(rec.ID)
	}
	rec, _ = e.snapshot() // the server may just have stopped the capture
	kept, before := keptCapture{Capture: on}, keptOf(rec.Options).keptCapture
	if before != kept {
		e.change(func() { e.rec.Options = kept.in(e.rec.Options) })
		if err := g.records.write(ctx, e); err != nil {
			if begins { // the client must not take a running capture for one that failed to begin
				e.change(func() { e.rec.Options = before.in(e.rec.Options) })
				err = errors.Join(err, cs.remove(rec.ID))
			}
			return Capture{}, err
		}
	}
	if st := cs.status(rec.ID, kept); st != nil {
		return *st, nil
	}
	return Capture{}, nil // it was never on
}

// keptCapture is the part of a session's stored options that is about its debug
// capture.
type keptCapture struct {
	Capture bool        `json:"capture,omitzero"`        // it is on
	Stopped CaptureStop `json:"captureStopped,omitzero"` // the server stopped it
}

// in returns the stored options with k in the place of what they have.
func (k keptCapture) in(options json.RawMessage) json.RawMessage {
	data, err := withOptions(options, json.RawMessage(fmt.Sprintf(`{"capture":%t,"captureStopped":%q}`, k.Capture, k.Stopped)))
	if err != nil {
		return options // the record's options are not valid JSON
	}
	return data
}

// captureNotices returns the notices about the session's capture that are due.
// If the server has stopped the capture, it also records that, so that a later
// server process does not continue a capture that has a gap.
func (e *entry) captureNotices(cs *captures) []event.Notice {
	notices := cs.notices(e.rec.ID)
	if len(notices) > 0 {
		e.change(func() {
			if c := cs.find(e.rec.ID); c != nil && c.whyStopped() != "" { // no client has switched it on or off meanwhile
				e.rec.Options = keptCapture{Stopped: c.whyStopped()}.in(e.rec.Options)
			}
		})
	}
	return notices
}

// Open opens the file of a session's debug capture for reading. st is the
// session's status; f is nil if the session has no capture. Open returns the
// lines that the file has now.
func (c Captures) Open(ctx context.Context, ref string) (f io.ReadCloser, st Status, err error) {
	if st, err = c.g.Status(ctx, ref); err != nil || st.Capture == nil || st.Capture.Bytes == 0 {
		return nil, st, err
	}
	f, err = c.g.opener.captures.open(st.SessionID)
	if err != nil {
		return nil, st, runnel.Fail(runnel.StoreUnavailable, "the file of the debug capture cannot be read; see the server's log", err)
	}
	return f, st, nil
}
