package changes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/internal/nofollow"
)

// Bounds of an inspection.
const (
	maxParts  = 500_000               // files and directories that it examines
	maxDepth  = 64                    // directories within each other
	timeGrain = 20 * time.Millisecond // two changes of a file may have the same time if less is between them
)

const unread = " cannot be read, so Runnel cannot check that it leads to no other repository."

// A state stands for the objects and references of a closed folder at one time.
type state struct {
	sum        string          // changes if a part of them is replaced, also if the part is put back
	above      [][]place       // the git directories, each with the directories above it
	absent     map[string]bool // paths of parts that do not exist
	listed     bool            // there is a list of further folders of objects that is not empty
	alternates []string        // the folders in it
	newest     time.Time       // of the last change
}

// A place is a directory on the way to a part.
type place struct {
	inode uint64
	at    time.Time // of the last change of its entries or its name
}

// inspection examines the objects and references of a closed folder.
type inspection struct {
	ctx         context.Context
	r           *repository
	left        int  // directory entries that may still be read
	inAlternate bool // it examines the folders in the list of alternates
	sum         hash.Hash
	state       state
}

// inspect returns the state of the objects and references of a folder, and why
// git would read another repository through them. An agent in a sandbox can
// write both. Git of the server runs outside of the sandbox: it follows links
// among them, and the list of further folders of objects. A diff would then show
// files that the agent cannot read. In a folder that is not closed, inspect does
// nothing.
func (g *Git) inspect(ctx context.Context, r *repository) (_ *state, problem string, err error) {
	if !r.folder.Closed || r.folder.Trusted {
		return nil, "", nil
	}
	leave, err := g.enter(ctx, r)
	if err != nil {
		return nil, "", err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	in := &inspection{ctx: ctx, r: r, left: maxParts, sum: sha256.New(), state: state{absent: make(map[string]bool)}}
	problem = in.all()
	if ctx.Err() != nil {
		return nil, "", timedOut(ctx, "the check of the objects and references")
	}
	if problem != "" {
		return nil, problem, nil
	}
	in.state.sum = hex.EncodeToString(in.sum.Sum(nil))
	return &in.state, "", nil
}

// all examines every part that git reads.
func (in *inspection) all() (problem string) {
	for _, dir := range slices.Compact([]string{in.r.common, in.r.dir}) {
		if problem := in.way(dir); problem != "" {
			return problem
		}
	}
	if problem := in.parts(in.r.common, "objects", "refs", "packed-refs", "shallow"); problem != "" {
		return problem
	}
	if problem := in.parts(in.r.dir, "HEAD", "index", "reftable"); problem != "" {
		return problem
	}
	return in.alternateFolders()
}

// parts examines the entries of a directory that have these names. It returns
// why Runnel refuses the repository, or "".
func (in *inspection) parts(dir string, names ...string) (problem string) {
	root, err := nofollow.Root(dir)
	if err != nil {
		return dir + unread
	}
	defer root.Close()
	for _, name := range names {
		if problem := in.part(root, dir, name, 0); problem != "" {
			return problem
		}
	}
	return ""
}

// way notes a git directory and the directories above it. None of them may be
// a link.
func (in *inspection) way(dir string) (problem string) {
	var places []place
	for ; ; dir = filepath.Dir(dir) {
		st, err := os.Lstat(dir)
		if err != nil || !st.IsDir() {
			return dir + " is no directory."
		}
		inode, at := changeTime(st)
		places = append(places, place{inode, at})
		in.changed(at)
		if dir == filepath.Dir(dir) {
			in.state.above = append(in.state.above, places)
			return ""
		}
	}
}

func (in *inspection) changed(at time.Time) {
	if at.After(in.state.newest) {
		in.state.newest = at
	}
}

// part examines the file or directory name of root, which is the directory at
// path dir, and everything in it. depth is 0 for the parts of a git directory.
func (in *inspection) part(root *os.Root, dir, name string, depth int) (problem string) {
	path := filepath.Join(dir, name)
	st, err := root.Lstat(name)
	switch {
	case err != nil: // git cannot read it either
		if depth == 0 {
			in.state.absent[path] = true
			fmt.Fprintf(in.sum, "%q is absent\n", path)
		}
		if path == filepath.Join(in.r.dir, "index") { // git reads it if it appears
			return in.note(root, dir, ".")
		}
		return ""
	case st.Mode()&fs.ModeSymlink != 0:
		return path + " is a link. Runnel does not follow it for an agent in a sandbox or a token for one project."
	case !st.IsDir() && !st.Mode().IsRegular():
		return path + " is no regular file, so git cannot use it safely. Remove it."
	}
	inode, at := changeTime(st)
	fmt.Fprintf(in.sum, "%q %d %d\n", path, inode, at.UnixNano())
	in.changed(at)
	if !st.IsDir() {
		if st.Size() > 0 && in.isList(path) {
			return in.alternatesList(path)
		}
		return ""
	}
	sub, err := nofollow.OpenDir(root, name)
	if err != nil {
		if _, err := root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return "" // a new one would have another state
		}
		return path + unread
	}
	defer sub.Close()
	return in.entries(sub, path, depth+1)
}

// note notes the entry name of root, which is the directory at path dir.
func (in *inspection) note(root *os.Root, dir, name string) (problem string) {
	st, err := root.Lstat(name)
	if err != nil {
		return filepath.Join(dir, name) + unread
	}
	inode, at := changeTime(st)
	fmt.Fprintf(in.sum, "%q %d %d\n", filepath.Join(dir, name), inode, at.UnixNano())
	in.changed(at)
	return ""
}

// entries examines the entries of a directory. Only directories and files that
// git could follow need a call for each.
func (in *inspection) entries(root *os.Root, path string, depth int) (problem string) {
	f, err := root.Open(".")
	if err != nil {
		return path + unread
	}
	defer f.Close()
	tooMany := in.r.common + " has too many objects and references to check. Run git gc in the folder."
	if depth > maxDepth {
		return tooMany
	}
	for {
		if in.ctx.Err() != nil {
			return tooMany
		}
		list, err := f.ReadDir(min(in.left, 1024) + 1)
		if in.left -= len(list); in.left < 0 {
			return tooMany
		}
		for _, e := range list {
			if e.Type().IsRegular() && !strings.EqualFold(e.Name(), "alternates") {
				continue
			}
			if problem := in.part(root, path, e.Name(), depth); problem != "" {
				return problem
			}
		}
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, fs.ErrNotExist):
			return ""
		case err != nil:
			return path + unread
		}
	}
}

// same reports whether nothing was replaced between two states. A lock file
// changes the time of the git directory, and a new file that of the project.
// Replacing a directory changes its own time and that of the one above it.
func (s *state) same(after *state) bool {
	if s.sum != after.sum || s.listed != after.listed || !slices.Equal(s.alternates, after.alternates) || len(s.above) != len(after.above) {
		return false
	}
	for i, before := range s.above {
		now := after.above[i]
		if len(before) != len(now) {
			return false
		}
		for j := range before {
			moved := !before[j].at.Equal(now[j].at) && j+1 < len(before) && !before[j+1].at.Equal(now[j+1].at)
			if moved || before[j].inode != now[j].inode {
				return false
			}
		}
	}
	return true
}

// settle waits until every later change gets a later time than the state has.
func (s *state) settle(ctx context.Context) error {
	wait := min(time.Until(s.newest.Add(timeGrain)), timeGrain) // the clock may have been set back
	if wait <= 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// errMoved reports that the objects changed while git read them.
var errMoved = failed("The repository changes all the time, so git cannot read it safely. Try again.")

// unmoved calls read, which reads from the repository of a closed folder, until
// the objects have not changed meanwhile. It starts with the state after the
// last read, because a change since then also counts.
func (g *Git) unmoved(ctx context.Context, r *repository, read func() ([]byte, error)) ([]byte, error) {
	const tries = 5
	if r.known == nil {
		if err := g.checkForeign(ctx, r); err != nil {
			return nil, err
		}
	}
	for range tries {
		before := r.known
		if err := before.settle(ctx); err != nil {
			return nil, err
		}
		out, err := read()
		if err := g.checkForeign(ctx, r); err != nil {
			return nil, err
		}
		if before.same(r.known) {
			return out, err
		}
	}
	return nil, errMoved
}

// checkForeign returns an error if git would read objects or references of
// another repository. It stores the state that it examined in r.known.
func (g *Git) checkForeign(ctx context.Context, r *repository) error {
	known, problem, err := g.inspect(ctx, r)
	r.known = known
	if err == nil && problem != "" {
		err = failed(problem)
	}
	return err
}
