package changes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxParts bounds the files and directories of a git directory that outside
// examines.
const maxParts = 500_000

// outside returns why git would read another repository through the objects and
// references of a closed folder, or "". An agent in a sandbox can write both. Git
// of the server runs outside of the sandbox: it follows links among them, and the
// list of further folders of objects. A diff would then show files that the agent
// cannot read.
//
// state stands for the folders of the objects. It changes if a part of them is
// replaced by a link, also if the link is replaced again.
func (r *repository) outside() (state, problem string) {
	if !r.folder.Closed || r.folder.Trusted {
		return "", ""
	}
	objects := filepath.Join(r.common, "objects")
	alternates := filepath.Join(objects, "info", "alternates")
	if _, err := os.Lstat(alternates); !errors.Is(err, fs.ErrNotExist) {
		return "", alternates + " leads to the objects of another repository, which neither an agent in a sandbox nor a token for one project may read. Run git repack -a -d in the folder, and remove the file."
	}
	var b strings.Builder
	for _, dir := range []string{r.common, r.dir} {
		note(&b, dir)
	}
	seen := 0
	for _, part := range []string{
		objects, filepath.Join(r.common, "refs"), filepath.Join(r.common, "packed-refs"), filepath.Join(r.common, "shallow"),
		filepath.Join(r.dir, "HEAD"), filepath.Join(r.dir, "index"), filepath.Join(r.dir, "reftable"),
	} {
		_ = filepath.WalkDir(part, func(path string, d fs.DirEntry, err error) error {
			switch seen++; {
			case err != nil: // it is absent, or git cannot read it either
				return nil
			case seen > maxParts:
				problem = r.common + " has too many objects and references to check. Run git gc in the folder."
			case !d.IsDir() && !d.Type().IsRegular():
				problem = path + " is a link. Runnel does not follow it for an agent in a sandbox or a token for one project."
			case d.IsDir() && part == objects:
				note(&b, path)
				return nil
			default:
				return nil
			}
			return fs.SkipAll
		})
		if problem != "" {
			return "", problem
		}
	}
	return b.String(), ""
}

// note adds what changes with each change of a directory.
func note(b *strings.Builder, dir string) {
	if st, err := os.Lstat(dir); err == nil {
		fmt.Fprintf(b, "%s %d %s\n", dir, st.ModTime().UnixNano(), changeTime(st))
	}
}

// errMoved reports that the objects changed while git read them.
var errMoved = failed("The repository changes all the time, so git cannot read it safely. Try again.")

// unmoved calls read, which reads from the repository of a closed folder, until
// the objects have not changed meanwhile.
func (r *repository) unmoved(read func() ([]byte, error)) ([]byte, error) {
	const tries = 5
	for range tries {
		before, problem := r.outside()
		if problem != "" {
			return nil, failed(problem)
		}
		out, err := read()
		after, problem := r.outside()
		if problem != "" {
			return nil, failed(problem)
		}
		if before == after {
			return out, err
		}
	}
	return nil, errMoved
}
