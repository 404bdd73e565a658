package files

import (
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/junegunn/fzf/src/util"
)

// Bounds of the search for a project's files. A search that reaches a bound of
// its size is complete as far as the clients of a [Service] are concerned, but
// its results are marked as partial.
type bounds struct {
	entries  int           // found files and directories
	examined int           // entries of directories, ignored ones included
	bytes    int           // of the paths of all entries that are found
	first    time.Duration // time of a request, if there is no older result
	later    time.Duration // time of a request that can use an older result
}

func defaultBounds() bounds {
	return bounds{50_000, 200_000, 8 << 20, 200 * time.Millisecond, 50 * time.Millisecond}
}

const (
	maxFolder  = 20_000          // entries of one directory
	fresh      = 5 * time.Second // age at which a result is renewed
	unused     = 5 * time.Minute // time without a request after which an index is dropped
	maxIndexes = 8               // beyond them, the index whose last use is longest ago is dropped
)

// An index is the list of a project's files. Requests search for the files:
// each continues the search for a limited time, so a search that takes long
// costs no goroutine and ends with its clients.
type index struct {
	turn chan struct{} // has an element while a request uses the fields below
	used time.Time     // guarded by Service.mu

	found   []entry // of the newest complete search, else nil
	partial bool    // found lacks files
	at      time.Time
	search  *search // nil if no search is running
}

// An entry is a file or directory of a project.
type entry struct {
	path   util.Chars // from the project's directory, with "/" between elements and after a directory
	hidden bool       // an element of the path begins with a dot
	folder bool
}

// A search finds the files of a project. It goes from the project's directory
// to deeper ones, so that a partial result has the files nearest to the top.
type search struct {
	bounds
	found   []entry
	queue   []place // directories that are still to be read
	at      place   // directory whose entries are being examined
	rest    []fs.DirEntry
	looked  int // entries that were examined
	size    int // bytes of the paths in found
	partial bool
}

// A place is a directory with the rules that apply in it.
type place struct {
	path  string // "" for the project
	rules *rules
}

// files returns the entries of the project that have been found so far.
// Partial reports that there are more.
func (p Project) files(ctx context.Context) (found []entry, partial bool, err error) {
	x := p.service.index(p.dir)
	select {
	case x.turn <- struct{}{}:
		defer func() { <-x.turn }()
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	if x.search == nil && x.found != nil && time.Since(x.at) < fresh {
		return x.found, x.partial, nil
	}
	if err := p.service.walk(ctx, func() error { return p.advance(ctx, x) }); err != nil {
		return nil, false, err
	}
	if x.found == nil {
		return slices.Clip(x.search.found), true, nil
	}
	return x.found, x.partial, nil
}

// walk calls f, unless too many others are walking: then it waits.
func (s *Service) walk(ctx context.Context, f func() error) error {
	select {
	case s.walks <- struct{}{}:
		defer func() { <-s.walks }()
		return f()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// advance continues the search of x, or begins one, until it is complete or its
// time is over.
func (p Project) advance(ctx context.Context, x *index) error {
	root, err := p.open()
	if err != nil {
		return err
	}
	defer root.Close()
	if x.search == nil {
		x.search = &search{bounds: p.service.bounds, queue: []place{{rules: projectRules(root)}}}
	}
	budget := p.service.bounds.first
	if x.found != nil {
		budget = p.service.bounds.later
	}
	if x.search.run(ctx, root, time.Now().Add(budget)) {
		x.found, x.partial, x.at, x.search = slices.Clip(append([]entry{}, x.search.found...)), x.search.partial, time.Now(), nil
	}
	return ctx.Err()
}

// index returns the index of a directory. It drops indexes that are not in use.
func (s *Service) index(dir string) *index {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	var oldest string
	for d, x := range s.kept {
		if now.Sub(x.used) > unused {
			delete(s.kept, d)
		} else if oldest == "" || x.used.Before(s.kept[oldest].used) {
			oldest = d
		}
	}
	x := s.kept[dir]
	if x == nil {
		if len(s.kept) >= maxIndexes {
			delete(s.kept, oldest)
		}
		x = &index{turn: make(chan struct{}, 1)}
		s.kept[dir] = x
	}
	x.used = now
	return x
}

// run searches until it is complete, and then returns true, or until the
// deadline or the end of ctx.
func (s *search) run(ctx context.Context, root *os.Root, deadline time.Time) (complete bool) {
	for {
		if len(s.rest) == 0 && len(s.queue) == 0 {
			return true
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return false
		}
		if len(s.rest) == 0 {
			s.enter(root)
			continue
		}
		if len(s.found) >= s.entries || s.looked >= s.examined || s.size >= s.bytes {
			s.partial, s.rest, s.queue = true, nil, nil
			return true
		}
		s.examine(s.rest[0])
		s.rest = s.rest[1:]
	}
}

// enter reads the next directory of the queue.
func (s *search) enter(root *os.Root) {
	s.at, s.queue = s.queue[0], s.queue[1:]
	if s.at.path != "" {
		s.at.rules = s.at.rules.in(root, s.at.path)
	}
	s.rest = s.read(root, s.at.path)
	slices.SortFunc(s.rest, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
}

// read returns the entries of a directory. If a link has replaced the directory
// since its name was read, they are those of another directory in the project.
func (s *search) read(root *os.Root, dir string) []fs.DirEntry {
	f, err := root.Open(filepath.FromSlash(path.Join(".", dir)) + string(filepath.Separator) + ".") // fails at once for a pipe
	if err != nil {
		return nil
	}
	defer f.Close()
	list, err := f.ReadDir(maxFolder)
	if err == nil && len(list) == maxFolder {
		s.partial = true
	}
	return list
}

// examine adds an entry of the directory that is being read to the result,
// unless it is ignored or secret.
func (s *search) examine(d fs.DirEntry) {
	s.looked++
	name := d.Name()
	if !shown(name) || len(s.at.path)+len(name) > maxPath || !d.IsDir() && !d.Type().IsRegular() {
		return
	}
	p := path.Join(s.at.path, name)
	if Secret(p) || d.IsDir() && skipped(name) || s.at.rules.ignores(p, d.IsDir()) {
		return
	}
	e := entry{hidden: hidden(p), folder: d.IsDir()}
	if d.IsDir() {
		s.queue = append(s.queue, place{p, s.at.rules})
		p += "/"
	}
	e.path = util.ToChars([]byte(p))
	s.size += len(p)
	s.found = append(s.found, e)
}
