// Package filewatch reports changes of files below folders by the events of the
// operating system, with a bounded number of watched directories.
package filewatch

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// A Place selects files. Dir is an absolute path, and need not exist. Each
// element of Pattern is a pattern of [path.Match] for one level below Dir, such
// as "*/*.jsonl". Links below Dir are not followed.
type Place struct{ Dir, Pattern string }

// A Change reports that a file may have changed, or may no longer exist.
type Change struct {
	Place int    // index of the Place
	Path  string // "" means that any file of the place may have changed
}

// ErrRemote is the error of a place whose files another machine may change, or
// the host of a container: the system reports only changes that are made here.
var ErrRemote = errors.New("the folder is on a network drive or shared with another system")

// State describes how much of a Place is watched.
type State struct {
	Watched int   // directories
	Left    int   // directories beyond the bound, which are not watched
	Err     error // why changes may not be reported
}

// IsWhole reports whether every change is reported.
func (s State) IsWhole() bool { return s.Left == 0 && s.Err == nil }

// A Watcher watches places. Its methods may be called from any goroutine; Run
// may be called once.
type Watcher struct {
	fs      *fsnotify.Watcher
	changed func(Change)
	most    int  // of each place
	perFile bool // a watched directory takes a descriptor for each of its files
	ready   chan struct{}
	scan    chan struct{}
	barrier *barrier // nil if the system has no reliable order of events

	// Only Run uses the fields below.
	places []*place
	dirs   map[string]*dir // watched directories

	mu     sync.Mutex // guards the field below
	states []State
}

// New returns a Watcher of places. Run calls changed, which must return soon.
// In each place, it watches the newest directories, no more than most. New fails
// if the system does not report changes of files, or if a limit of the system is
// reached.
func New(places []Place, most int, changed func(Change)) (*Watcher, error) {
	fs, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	w := &Watcher{
		fs: fs, changed: changed, most: most, perFile: perFile(runtime.GOOS), ready: make(chan struct{}), scan: make(chan struct{}, 1),
		barrier: newBarrier(fs), dirs: make(map[string]*dir), states: make([]State, len(places)),
	}
	for _, p := range places {
		w.places = append(w.places, &place{dir: filepath.Clean(p.Dir), levels: strings.Split(p.Pattern, "/")})
	}
	return w, nil
}

// perFile reports whether the system watches a directory by a descriptor for
// each of its files.
func perFile(system string) bool {
	switch system {
	case "darwin", "dragonfly", "freebsd", "netbsd", "openbsd":
		return true
	}
	return false
}

// Run watches until ctx ends, and calls changed.
func (w *Watcher) Run(ctx context.Context) {
	defer w.barrier.close()
	defer func() {
		_ = w.fs.Close()
		for range w.fs.Events { // let its goroutine end
		}
	}()
	for i := range w.places {
		w.establish(i, false)
	}
	w.publish()
	close(w.ready)
	for {
		select {
		case ev, ok := <-w.fs.Events:
			if !ok {
				return
			}
			if !w.barrier.passed(ev) {
				w.handle(ev)
			}
		case _, ok := <-w.fs.Errors:
			if !ok {
				return
			}
			w.failed()
		case <-w.scan:
			for i := range w.places {
				w.establish(i, true)
			}
		case <-ctx.Done():
			return
		}
		w.publish()
	}
}

// failed handles an error of the system's events, such as too many of them: some
// are lost.
func (w *Watcher) failed() {
	for i := range w.places {
		w.establish(i, true)
		w.changed(Change{Place: i})
	}
}

// Ready is closed once the directories that exist are watched.
func (w *Watcher) Ready() <-chan struct{} { return w.ready }

// States returns the State of each place.
func (w *Watcher) States() []State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]State(nil), w.states...)
}

func (w *Watcher) publish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, p := range w.places {
		w.states[i] = State{Watched: p.watched, Left: p.left, Err: p.err}
	}
}

// Rescan makes Run look for directories that it does not watch, such as those
// of a replaced folder.
func (w *Watcher) Rescan() {
	select {
	case w.scan <- struct{}{}:
	default:
	}
}

// Sync waits until changed was called for all changes before the call. It
// returns false if the system cannot tell, if Run has ended, or if ctx ends.
func (w *Watcher) Sync(ctx context.Context) bool {
	select {
	case <-w.ready:
		return w.barrier.wait(ctx)
	default:
		return false
	}
}
