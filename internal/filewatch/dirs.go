package filewatch

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// A place is a [Place] with what is watched of it.
type place struct {
	dir     string
	levels  []string
	watched int
	left    int
	err     error
}

// last is the depth of the directories that contain the files.
func (p *place) last() int { return len(p.levels) - 1 }

// above is the depth of a directory that is watched because the directory of
// the place does not exist.
const above = -1

// A dir is a watched directory.
type dir struct {
	depths map[int]int // depth below the directory of each place that needs it; above
	costs  int
	used   time.Time // last change of a file in it
}

// maxEntries is the maximum number of directory entries that are read at a
// time.
const maxEntries = 1 << 20

// An entry is a directory to watch.
type entry struct {
	path    string
	changed time.Time
}

// establish watches the directories of a place. If report is set, it reports
// the files in those that were not watched before.
func (w *Watcher) establish(i int, report bool) {
	p := w.places[i]
	p.left, p.err = 0, nil
	exists, added := w.root(i)
	if !exists {
		return
	}
	level := []entry{{path: p.dir}}
	for depth := range p.levels {
		slices.SortFunc(level, func(a, b entry) int { return b.changed.Compare(a.changed) })
		var next []entry
		for _, e := range level {
			switch {
			case depth == 0 && added: // it may have got files before it was watched
				next = w.found(i, e.path, depth, report)
			case w.dirs[e.path].isOf(i, depth):
				if depth < p.last() {
					next = append(next, w.below(i, e.path, depth)...)
				}
			case p.watched >= w.most:
				p.left++
			case w.add(i, e.path, depth, e.changed):
				next = append(next, w.found(i, e.path, depth, report)...)
			}
		}
		level = next
	}
}

// isOf reports whether d is watched for a place at this depth.
func (d *dir) isOf(place, depth int) bool {
	if d == nil {
		return false
	}
	at, ok := d.depths[place]
	return ok && at == depth
}

// root makes sure that the directory of the place is watched, or the nearest
// directory above it that exists. It reports whether the directory of the place
// exists, and whether it was not watched before.
func (w *Watcher) root(i int) (exists, added bool) {
	p := w.places[i]
	for range 100 { // a directory may appear or disappear meanwhile
		at := p.dir
		for !isDir(at) {
			up := filepath.Dir(at)
			if up == at {
				return false, false
			}
			at = up
		}
		depth := 0
		if at != p.dir {
			depth = above
		}
		w.leaveAbove(i, at)
		added = false
		if !w.dirs[at].isOf(i, depth) {
			if added = w.add(i, at, depth, time.Time{}); !added && isDir(at) {
				return false, false
			} else if !added {
				continue
			}
		}
		if depth == 0 {
			if isRemote(at) {
				p.err = ErrRemote
			}
			return true, added
		}
		if next := firstBelow(at, p.dir); !isDir(next) {
			// If it was watched, it was removed. The system may have reported that to
			// nobody: fsnotify leaves the report to the watch of at, which is new.
			w.lose(next)
			return false, false
		}
	}
	return false, false
}

// leaveAbove ends the watch of directories above that of the place, except but.
func (w *Watcher) leaveAbove(i int, but string) {
	for name, d := range w.dirs {
		if depth, ok := d.depths[i]; ok && depth == above && name != but {
			w.drop(i, name)
		}
	}
}

// firstBelow returns the path of the directory in at that leads to dir.
func firstBelow(at, dir string) string {
	rest := strings.TrimPrefix(strings.TrimPrefix(dir, at), string(filepath.Separator))
	name, _, _ := strings.Cut(rest, string(filepath.Separator))
	return filepath.Join(at, name)
}

// isDir reports whether path is a directory, or a link to one.
func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// add watches a directory for a place. It reports whether the directory is
// watched.
func (w *Watcher) add(i int, name string, depth int, used time.Time) bool {
	p := w.places[i]
	d := w.dirs[name]
	if d == nil {
		d = &dir{depths: make(map[int]int), costs: 1, used: used}
		if w.perFile {
			d.costs += len(list(name))
		}
		if p.watched+d.costs > max(w.most, 1) && w.perFile {
			p.left++
			return false
		}
		if err := w.fs.Add(name); err != nil {
			if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) { // such a directory has no files that could be read
				p.left, p.err = p.left+1, err
			}
			return false
		}
		w.dirs[name] = d
	}
	if _, ok := d.depths[i]; !ok {
		p.watched += d.costs
	}
	d.depths[i] = depth
	return true
}

// drop ends the watch of a directory for a place.
func (w *Watcher) drop(i int, name string) {
	d := w.dirs[name]
	if d == nil {
		return
	}
	if _, ok := d.depths[i]; ok {
		delete(d.depths, i)
		w.places[i].watched -= d.costs
	}
	if len(d.depths) == 0 {
		delete(w.dirs, name)
		_ = w.fs.Remove(name) // fails if the directory no longer exists
	}
}

// found returns the directories to watch in a directory that is now watched. If
// report is set, it reports the files in it.
func (w *Watcher) found(i int, name string, depth int, report bool) []entry {
	p := w.places[i]
	if depth < p.last() {
		return w.below(i, name, depth)
	}
	if report {
		for _, e := range list(name) {
			if matches(p.levels[depth], e.Name()) && e.Type().IsRegular() {
				w.changed(Change{i, filepath.Join(name, e.Name())})
			}
		}
	}
	return nil
}

// below returns the directories in a directory that belong to a place.
func (w *Watcher) below(i int, name string, depth int) (out []entry) {
	for _, e := range list(name) {
		if !e.IsDir() || !matches(w.places[i].levels[depth], e.Name()) {
			continue
		}
		if st, err := e.Info(); err == nil {
			out = append(out, entry{filepath.Join(name, e.Name()), st.ModTime()})
		}
	}
	return out
}

// list returns the entries of a directory, or some of them.
func list(name string) []fs.DirEntry {
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	entries, _ := f.ReadDir(maxEntries)
	return entries
}

func matches(pattern, name string) bool {
	ok, _ := path.Match(pattern, name)
	return ok
}

// handle handles an event.
func (w *Watcher) handle(ev fsnotify.Event) {
	if ev.Name == "" || ev.Op == fsnotify.Chmod {
		return // an event of a watch that has ended, or a change of permissions
	}
	gone := ev.Has(fsnotify.Remove) || ev.Has(fsnotify.Rename)
	if gone && w.dirs[ev.Name] != nil {
		w.lose(ev.Name)
	}
	d := w.dirs[filepath.Dir(ev.Name)]
	if d == nil {
		return
	}
	for i, depth := range d.depths {
		p, name := w.places[i], filepath.Base(ev.Name)
		switch {
		case depth == above:
			if ev.Has(fsnotify.Create) && firstBelow(filepath.Dir(ev.Name), p.dir) == ev.Name {
				w.establish(i, true)
			}
		case !matches(p.levels[depth], name):
		case depth == p.last():
			d.used = time.Now()
			w.changed(Change{i, ev.Name})
		case ev.Has(fsnotify.Create):
			w.enter(i, ev.Name, depth+1)
		}
	}
}

// enter watches a new directory of a place and those below it, and reports their
// files. It ends older watches if there are too many.
func (w *Watcher) enter(i int, name string, depth int) {
	p := w.places[i]
	if st, err := os.Lstat(name); err != nil || !st.IsDir() {
		return
	}
	if p.watched >= w.most && !w.evict(i) {
		p.left++
		return
	}
	if !w.add(i, name, depth, time.Now()) {
		return
	}
	for _, e := range w.found(i, name, depth, true) {
		w.enter(i, e.path, depth+1)
	}
}

// evict ends the watch of the directory with files that has not changed for the
// longest time.
func (w *Watcher) evict(i int) bool {
	p := w.places[i]
	oldest := ""
	for name, d := range w.dirs {
		if d.isOf(i, p.last()) && (oldest == "" || d.used.Before(w.dirs[oldest].used)) {
			oldest = name
		}
	}
	if oldest == "" || p.last() == 0 {
		return false
	}
	w.drop(i, oldest)
	p.left++
	return true
}

// lose ends the watches of a directory that was removed or moved, and of those
// below it.
func (w *Watcher) lose(name string) {
	lost := make(map[int]bool)
	for at, d := range w.dirs {
		if at != name && !strings.HasPrefix(at, name+string(filepath.Separator)) {
			continue
		}
		for i := range d.depths {
			lost[i] = true
			w.drop(i, at)
		}
	}
	for i := range lost {
		w.establish(i, true)
		w.changed(Change{Place: i})
	}
}
