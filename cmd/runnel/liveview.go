package main

import (
	"bytes"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/livescreen"
	"github.com/runnel-dev/runnel/internal/termtext"
	"github.com/runnel-dev/runnel/internal/turnview"
)

// frameTime is the minimum time between two frames on the terminal.
const frameTime = 40 * time.Millisecond

// A liveView is a sink that draws a run on a terminal while it happens. What
// the program prints on standard error meanwhile appears between its lines.
type liveView struct {
	done func()        // gives standard error and the keyboard back
	echo func(on bool) // shows what the user types, for a question; nil if that cannot be set
	goes bool          // the turn goes on after close

	mu     sync.Mutex // guards the rest
	screen *livescreen.Screen
	view   *turnview.View
	timer  *time.Timer // draws the next frame
	last   time.Time   // of the last frame
	paused bool        // a question is on the screen
	over   bool
	err    error  // of the terminal
	line   []byte // the beginning of a line on standard error
}

// drawable returns the terminal on which a command can draw, or nil if it must
// print plain text.
func (a *app) drawable() *os.File {
	f := fileOf(a.out)
	if !a.terminal(a.out) || !a.terminal(a.err) || os.Getenv("TERM") == "dumb" || !enableSequences(f) {
		return nil
	}
	return f
}

// newScreen returns a screen on a terminal.
func newScreen(f *os.File) *livescreen.Screen {
	return livescreen.New(f, func() (int, int) {
		width, height, err := term.GetSize(int(f.Fd()))
		if err != nil {
			return 0, 0
		}
		return width, height
	}, os.Getenv("NO_COLOR") == "")
}

// newLiveView returns a liveView on a terminal. From then on, until its close,
// the program's standard error appears in it, and the terminal does not show
// what the user types, because that would move the cursor.
func newLiveView(a *app, f *os.File, cfg turnview.Config) *liveView {
	v := &liveView{screen: newScreen(f)}
	cfg.Styled = v.screen.Colours()
	v.view = turnview.New(cfg)
	v.timer = time.AfterFunc(time.Hour, v.tick)
	v.timer.Stop()
	usual := a.divert(v)
	v.done = usual
	if in := fileOf(a.in); in != nil && a.terminal(in) {
		v.echo = func(on bool) { setEcho(in, on) }
		if setEcho(in, false) {
			v.done = func() { usual(); setEcho(in, true) }
		} else {
			v.echo = nil
		}
	}
	return v
}

func (v *liveView) event(ev event.Event) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	v.view.Apply(ev, now)
	v.soon(now)
	return v.err
}

// soon draws a frame now, or as soon as frameTime has passed. The caller holds
// v.mu.
func (v *liveView) soon(now time.Time) {
	if wait := frameTime - now.Sub(v.last); wait > 0 {
		v.timer.Reset(wait)
		return
	}
	v.draw(now)
}

func (v *liveView) tick() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.over {
		v.draw(time.Now())
	}
}

// draw draws a frame. The caller holds v.mu.
func (v *liveView) draw(now time.Time) {
	if v.paused || v.err != nil {
		return
	}
	width, height := v.screen.Size()
	done, live := v.view.Frame(width, height, now)
	v.err = v.screen.Draw(done, live, nil)
	v.last = now
	if v.view.Open() {
		v.timer.Reset(turnview.SpinnerTime)
	}
}

// Write implements [io.Writer] for the program's own messages.
func (v *liveView) Write(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.line = append(v.line, p...)
	for {
		line, rest, ok := bytes.Cut(v.line, []byte("\n"))
		if !ok {
			break
		}
		v.view.Note(termtext.Clean(string(line)), livescreen.Faint)
		v.line = rest
	}
	v.soon(time.Now())
	return len(p), v.err
}

// close draws the last frame.
func (v *liveView) close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.done()
	v.over = true
	v.timer.Stop()
	now := time.Now()
	if v.goes {
		v.view.Leave()
	} else {
		v.view.Stop(now)
	}
	v.paused = false
	v.draw(now)
	v.timer.Stop()
	return v.err
}

// ask removes the live lines while a question about an approval is on the
// terminal, until the returned function is called.
func (v *liveView) ask(id string) (answered func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	v.view.Asked(id)
	width, height := v.screen.Size()
	done, _ := v.view.Frame(width, height, now)
	if v.err == nil {
		v.err = v.screen.Draw(done, nil, nil)
	}
	v.paused = true
	if v.echo != nil {
		v.echo(true)
	}
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.paused = false
		if v.over {
			return
		}
		if v.echo != nil {
			v.echo(false)
		}
		v.draw(time.Now())
	}
}

// diverted is a writer whose output can be sent to another writer for a while.
type diverted struct {
	usual io.Writer

	mu sync.Mutex
	to io.Writer // nil: usual
}

// Write implements [io.Writer].
func (d *diverted) Write(p []byte) (int, error) {
	d.mu.Lock()
	to := d.to
	d.mu.Unlock()
	if to == nil {
		to = d.usual
	}
	return to.Write(p)
}

// divert sends standard error to w until the returned function is called.
func (a *app) divert(w io.Writer) (undo func()) {
	d, ok := a.err.(*diverted)
	if !ok {
		return func() {}
	}
	set := func(to io.Writer) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.to = to
	}
	set(w)
	return func() { set(nil) }
}
