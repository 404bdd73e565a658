package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/recording"
	"github.com/runnel-dev/runnel/provider/script"
)

// printing is the scripted agent as an agent that exchanges lines: each prompt
// passes as one line, and the agent answers with one line.
type printing struct{ script.Provider }

func (p *printing) Translate(iter.Seq2[runnel.Line, error]) iter.Seq2[event.Event, error] {
	return func(func(event.Event, error) bool) {}
}

func (p *printing) Open(ctx context.Context, o runnel.Options) (runnel.Conn, error) {
	c, err := p.Provider.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return &printingConn{c, o}, nil
}

type printingConn struct {
	runnel.Conn
	opt runnel.Options
}

func (c *printingConn) Prompt(ctx context.Context, turn string, in runnel.Input) error {
	if c.opt.Tapping() {
		c.opt.Tap(runnel.DirIn, []byte("prompt "+in.Text))
		c.opt.Tap(runnel.DirOut, []byte("answer"))
	}
	return c.Conn.Prompt(ctx, turn, in)
}

// hiding is a Filter that removes the word hunter2.
type hiding struct{}

func (hiding) Event(ev event.Event) []event.Event { return []event.Event{ev} }
func (hiding) End() []event.Event                 { return nil }
func (hiding) Text(s string) string               { return strings.ReplaceAll(s, "hunter2", "[redacted]") }

// capturing opens a gateway with a printing agent and a data directory.
func (d *disk) capturing(t *testing.T, data string) *Gateway {
	t.Helper()
	return d.open(t, func(c *Config) {
		c.Providers, c.DataDir = []runnel.Provider{&printing{}}, data
		c.Filter = func(runnel.Options) runnel.Filter { return hiding{} }
	})
}

// setCapture switches the capture of a session on or off.
func setCapture(t *testing.T, g *Gateway, id string, on bool) Capture {
	t.Helper()
	st, err := CapturesOf(g).Set(t.Context(), id, on)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// capturedText returns the raw lines of a session's capture, one per line, with
// their direction.
func capturedText(t *testing.T, g *Gateway, id string) string {
	t.Helper()
	f, _, err := CapturesOf(g).Open(t.Context(), id)
	if err != nil || f == nil {
		t.Fatalf("%v, %v", f, err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return linesOf(t, data)
}

// linesOf returns the raw lines in a file, without the head.
func linesOf(t *testing.T, data []byte) string {
	t.Helper()
	var out []string
	for i, text := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		var l recording.Line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("line %d, %q: %v", i, text, err)
		}
		if i > 0 {
			out = append(out, string(l.Dir)+" "+l.Line)
		}
	}
	return strings.Join(out, "\n")
}

func TestCaptureOfALiveSessionIsSwitchedOnAndOff(t *testing.T) {
	d, data := newDisk(t), canonical(t.TempDir())
	g := d.capturing(t, data)
	defer closeIt(t, g)
	id := d.create(t, g)
	st, err := g.Status(t.Context(), id)
	if err != nil || st.Capture != nil {
		t.Fatalf("at first: %+v, %v", st.Capture, err)
	}
	d.ends(t, send(t, g, id, "text before"))
	if st := setCapture(t, g, id, true); !st.On || st.Bytes == 0 {
		t.Errorf("on: %+v", st)
	}
	d.ends(t, send(t, g, id, "text my password is hunter2"))
	before := capturedText(t, g, id)
	if want := "in prompt text my password is [redacted]\nout answer"; before != want {
		t.Errorf("captured %q, want %q", before, want)
	}
	setCapture(t, g, id, true)
	if got := capturedText(t, g, id); got != before {
		t.Errorf("on twice: %q", got)
	}
	if st := setCapture(t, g, id, false); st.On || st.Bytes == 0 {
		t.Errorf("off: %+v", st)
	}
	d.ends(t, send(t, g, id, "text after"))
	if got := capturedText(t, g, id); got != before {
		t.Errorf("captured while off: %q", got)
	}
	file := filepath.Join(data, "captures", id+".jsonl")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if info, err := os.Stat(filepath.Dir(file)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	setCapture(t, g, id, true)
	if got := capturedText(t, g, id); got != "" {
		t.Errorf("on again: %q", got)
	}
}

func TestCaptureIsDeletedWithItsSession(t *testing.T) {
	d, data := newDisk(t), canonical(t.TempDir())
	g := d.capturing(t, data)
	defer closeIt(t, g)
	id := d.create(t, g)
	setCapture(t, g, id, true)
	d.ends(t, send(t, g, id, "text hello"))
	if err := g.Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Join(data, "captures")); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

func TestCaptureContinuesAfterARestart(t *testing.T) {
	d, data := newDisk(t), canonical(t.TempDir())
	g := d.capturing(t, data)
	id := d.create(t, g)
	setCapture(t, g, id, true)
	d.ends(t, send(t, g, id, "text one"))
	closeIt(t, g)
	orphan := filepath.Join(data, "captures", "00000000-0000-4000-8000-000000000000.jsonl")
	if err := os.WriteFile(orphan, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(data, "captures", id+".jsonl"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(`{"t":1,"dir":"out","line":"half`)
	if f.Close() != nil || err != nil {
		t.Fatal(err)
	}

	g = d.capturing(t, data)
	defer closeIt(t, g)
	if _, err := os.Stat(orphan); !os.IsNotExist(err) {
		t.Errorf("the capture of a session that does not exist is kept: %v", err)
	}
	st, err := g.Status(t.Context(), id)
	if err != nil || st.Capture == nil || !st.Capture.On {
		t.Errorf("after the restart: %+v, %v", st.Capture, err)
	}
	d.ends(t, send(t, g, id, "text two"))
	if got, want := capturedText(t, g, id), "in prompt text one\nout answer\nin prompt text two\nout answer"; got != want {
		t.Errorf("captured %q, want %q", got, want)
	}
}

// A symbolic link to /dev/full stands for a file on a disk that is full.
func TestCaptureStopsOnAFullDiskAndTheTurnContinues(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("this system has no /dev/full")
	}
	d, data := newDisk(t), canonical(t.TempDir())
	g := d.capturing(t, data)
	defer closeIt(t, g)
	id := d.create(t, g)
	setCapture(t, g, id, true)
	file := filepath.Join(data, "captures", id+".jsonl")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/full", file); err != nil {
		t.Fatal(err)
	}
	sent := send(t, g, id, "text hello")
	if done, ok := d.ends(t, sent).Body.(event.ResponseDone); !ok || done.Status != event.StatusCompleted {
		t.Errorf("the turn ended %+v", done)
	}
	var notices []event.Notice
	for ev, err := range d.log.Read(t.Context(), id, sent.After) {
		if err != nil {
			t.Fatal(err)
		}
		if n, ok := ev.Body.(event.Notice); ok && ev.Turn == sent.TurnID {
			notices = append(notices, n)
		}
	}
	if len(notices) != 1 || notices[0].Code != CaptureStopped || !strings.Contains(notices[0].Message, "disk") {
		t.Errorf("notices: %+v", notices)
	}
	if st, err := g.Status(t.Context(), id); err != nil || st.Capture == nil || st.Capture.On || st.Capture.Stopped != CaptureDisk {
		t.Errorf("status: %+v, %v", st.Capture, err)
	}
	if st := setCapture(t, g, id, true); !st.On || st.Stopped != "" {
		t.Errorf("on again: %+v", st)
	}
}

// A capture that the server has stopped has a gap, so a later server process
// does not continue it.
func TestStoppedCaptureStaysStoppedAfterARestart(t *testing.T) {
	d, data := newDisk(t), canonical(t.TempDir())
	g := d.capturing(t, data)
	id := d.create(t, g)
	setCapture(t, g, id, true)
	file := filepath.Join(data, "captures", id+".jsonl")
	if err := os.Rename(file, file+"~"); err != nil { // so that the capture cannot write
		t.Fatal(err)
	}
	d.ends(t, send(t, g, id, "text one"))
	if err := os.Rename(file+"~", file); err != nil {
		t.Fatal(err)
	}
	closeIt(t, g)

	g = d.capturing(t, data)
	d.ends(t, send(t, g, id, "text two"))
	if st, err := g.Status(t.Context(), id); err != nil || st.Capture == nil || st.Capture.On || st.Capture.Stopped != CaptureFailed {
		t.Errorf("after the restart: %+v, %v", st.Capture, err)
	}
	if got := capturedText(t, g, id); got != "" {
		t.Errorf("captured after the stop: %q", got)
	}
	if st := setCapture(t, g, id, true); !st.On || st.Stopped != "" {
		t.Errorf("on again: %+v", st)
	}
	closeIt(t, g)

	g = d.capturing(t, data)
	defer closeIt(t, g)
	d.ends(t, send(t, g, id, "text three"))
	if got, want := capturedText(t, g, id), "in prompt text three\nout answer"; got != want {
		t.Errorf("captured after it was switched on again: %q, want %q", got, want)
	}
	if st := setCapture(t, g, id, false); st.On || st.Stopped != "" {
		t.Errorf("off: %+v", st)
	}
}

// A client must not take a running capture for one that failed to begin.
func TestCaptureThatCannotBeRecordedIsOff(t *testing.T) {
	d, data := newDisk(t), canonical(t.TempDir())
	cat := &failingCatalogue{Catalogue: d.cat}
	g := d.open(t, func(c *Config) { c.Providers, c.DataDir, c.Catalogue = []runnel.Provider{&printing{}}, data, cat })
	defer closeIt(t, g)
	id := d.create(t, g)
	cat.fails.Store(true)
	_, err := CapturesOf(g).Set(t.Context(), id, true)
	wantCode(t, err, runnel.StoreUnavailable)
	cat.fails.Store(false)
	if st, err := g.Status(t.Context(), id); err != nil || st.Capture != nil && st.Capture.On {
		t.Errorf("after the error: %+v, %v", st.Capture, err)
	}
	d.ends(t, send(t, g, id, "text one"))
	if left, err := os.ReadDir(filepath.Join(data, "captures")); err != nil || len(left) > 0 {
		t.Errorf("files of the capture: %v, %v", left, err)
	}
	setCapture(t, g, id, true)
	d.ends(t, send(t, g, id, "text two"))
	if got, want := capturedText(t, g, id), "in prompt text two\nout answer"; got != want {
		t.Errorf("captured %q, want %q", got, want)
	}
	cat.fails.Store(true)
	_, err = CapturesOf(g).Set(t.Context(), id, false)
	wantCode(t, err, runnel.StoreUnavailable)
	cat.fails.Store(false)
	d.ends(t, send(t, g, id, "text three"))
	if got, want := capturedText(t, g, id), "in prompt text two\nout answer"; got != want {
		t.Errorf("captured after the client switched it off: %q, want %q", got, want)
	}
}

// A single is a Filter that counts calls that overlap.
type single struct {
	hiding
	running, overlaps *atomic.Int32
}

func (s single) Text(text string) string {
	if s.running.Add(1) > 1 {
		s.overlaps.Add(1)
	}
	runtime.Gosched() // lets another goroutine call Text, too
	s.running.Add(-1)
	return text
}

// A Filter is for one goroutine at a time, but the lines of an agent pass in
// several: those to it, those from it, and those of its successor.
func TestCaptureCallsAFilterOnlyOnceAtATime(t *testing.T) {
	cs, _ := beginCapture(t)
	s := single{running: new(atomic.Int32), overlaps: new(atomic.Int32)}
	opt := cs.equip(runnel.Options{Filter: func(runnel.Options) runnel.Filter { return s }}, "s")
	var taps sync.WaitGroup
	for range 4 {
		taps.Go(func() {
			for range 200 {
				opt.Tap(runnel.DirOut, []byte("line"))
			}
		})
	}
	taps.Wait()
	if n := s.overlaps.Load(); n > 0 {
		t.Errorf("%d calls overlapped", n)
	}
}

func TestCaptureIsReadInWholeLinesWhileItGrows(t *testing.T) {
	d := newDisk(t)
	g := d.capturing(t, canonical(t.TempDir()))
	defer closeIt(t, g)
	id := d.create(t, g)
	setCapture(t, g, id, true)
	c := g.opener.captures.find(id)
	written := make(chan struct{})
	go func() {
		defer close(written)
		for line := strings.Repeat("x", 4<<20); c.whyStopped() == ""; {
			c.put(runnel.DirOut, line)
		}
	}()
	defer func() { <-written }()
	for grows := true; grows; {
		select {
		case <-written:
			grows = false
		default:
		}
		f, _, err := CapturesOf(g).Open(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(f)
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(string(data), "\n") {
			t.Fatalf("the last line of %d bytes is cut off", len(data))
		}
	}
}

func TestScriptedAgentCannotBeCaptured(t *testing.T) {
	d := newDisk(t)
	g := d.open(t, func(c *Config) { c.DataDir = canonical(t.TempDir()) })
	defer closeIt(t, g)
	_, err := CapturesOf(g).Set(t.Context(), d.create(t, g), true)
	wantCode(t, err, runnel.UnsupportedCapability)
	_, err = CapturesOf(g).Set(t.Context(), "nobody", true)
	wantCode(t, err, runnel.SessionNotFound)
}

// beginCapture begins a capture outside of a gateway.
func beginCapture(t *testing.T) (*captures, *capture) {
	t.Helper()
	cs := newCaptures(t.TempDir(), slog.New(slog.DiscardHandler))
	if err := cs.begin("s", "agent"); err != nil {
		t.Fatal(err)
	}
	return cs, cs.find("s")
}

func (c *capture) put(dir runnel.Dir, line string) {
	c.add(time.Now(), dir, []byte(line), []byte(line))
}

func (c *capture) lines(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(c.path)
	if err != nil {
		t.Fatal(err)
	}
	return linesOf(t, data)
}

// A tap may have found the capture before a client switched it off.
func TestCaptureThatIsOffGetsNoLine(t *testing.T) {
	cs, c := beginCapture(t)
	c.put(runnel.DirOut, "on")
	cs.end("s")
	c.put(runnel.DirOut, "off")
	if got := c.lines(t); got != "out on" {
		t.Errorf("captured %q", got)
	}
}

// A symbolic link to a directory stands for a file that cannot be opened at the
// moment.
func TestCaptureThatCannotBeReadAfterARestartIsKept(t *testing.T) {
	cs, c := beginCapture(t)
	if err := os.Remove(c.path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), c.path); err != nil {
		t.Fatal(err)
	}
	cs.on.Delete("s") // the server is killed
	cs.resume("s", "agent")
	if info, err := os.Lstat(c.path); err != nil || info.Mode().Type() != os.ModeSymlink {
		t.Errorf("the file was replaced: %v, %v", info, err)
	}
	if st := cs.status("s", keptCapture{Capture: true}); st == nil || st.On || st.Stopped != CaptureFailed {
		t.Errorf("status: %+v", st)
	}
}

func TestCaptureIsBounded(t *testing.T) {
	_, c := beginCapture(t)
	c.put(runnel.DirOut, "small")
	c.put(runnel.DirOut, strings.Repeat("x", MaxCapture))
	c.put(runnel.DirOut, "later")
	if got := c.lines(t); got != "out small" {
		t.Errorf("captured %.100q", got)
	}
	if c.stopped != CaptureSize {
		t.Errorf("stopped: %q", c.stopped)
	}
}

// After a takeover, the supervisor repeats the lines of the turn. The capture
// has each of them once, with the time at which it passed.
func TestCaptureHasEachLineOnceAfterATakeover(t *testing.T) {
	cs, c := beginCapture(t)
	c.put(runnel.DirMeta, `{"mark":"start"}`)
	c.put(runnel.DirIn, "hello")
	c.put(runnel.DirMeta, `{"mark":"turn","state":{"n":1}}`)
	c.put(runnel.DirIn, "prompt")
	c.put(runnel.DirOut, "first")

	cs.on.Delete("s") // the server is killed
	cs.resume("s", "agent")
	c = cs.find("s")
	at := c.began.Add(7 * time.Second)
	mark, err := json.Marshal(recording.Mark{Mark: recording.Takeover, State: json.RawMessage(`{"n":1}`), Times: []time.Time{at, at, at}})
	if err != nil {
		t.Fatal(err)
	}
	c.put(runnel.DirMeta, string(mark))
	for _, line := range []string{"in prompt", "out first", "out while no server ran"} {
		dir, text, _ := strings.Cut(line, " ")
		c.put(runnel.Dir(dir), text)
	}
	c.put(runnel.DirOut, "live")
	want := []string{`meta {"mark":"start"}`, "in hello", `meta {"mark":"turn","state":{"n":1}}`, "in prompt", "out first", "out while no server ran", "out live"}
	if got := strings.Split(c.lines(t), "\n"); !slices.Equal(got, want) {
		t.Errorf("captured\n%q, want\n%q", got, want)
	}
	data, err := os.ReadFile(c.path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(data), fmt.Sprintf(`{"t":%d,`, 7000)); n != 3 {
		t.Errorf("%d lines have the time at which they passed, want 3:\n%s", n, data)
	}
}
