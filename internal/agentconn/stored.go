package agentconn

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/runnel-dev/runnel"
)

// maxEntries is the maximum number of directory entries that StoredFiles reads
// below one directory.
const maxEntries = 1 << 20

// StoredFiles yields the regular files below dir whose relative path matches
// pattern. Each element of pattern is a pattern of [path.Match] for one level,
// such as "*/*.jsonl". StoredFiles follows no links below dir and opens no
// file. It skips what it cannot read, and everything beyond the first million
// directory entries. It yields an error only if ctx ends.
func StoredFiles(ctx context.Context, dir, pattern string) iter.Seq2[runnel.StoredFile, error] {
	return func(yield func(runnel.StoredFile, error) bool) {
		root, err := OpenFolder(dir)
		if err != nil {
			return // the agent has stored nothing
		}
		defer root.Close()
		w := walk{ctx: ctx, left: maxEntries, yield: yield}
		w.dir(root, dir, strings.Split(pattern, "/"))
	}
}

// walk is one run of StoredFiles.
type walk struct {
	ctx   context.Context
	left  int // directory entries that may still be read
	yield func(runnel.StoredFile, error) bool
}

// dir walks one directory. It reports whether the walk goes on.
func (w *walk) dir(root *os.Root, name string, levels []string) bool {
	f, err := root.Open(".")
	if err != nil {
		return true
	}
	defer f.Close()
	for w.left > 0 {
		if err := w.ctx.Err(); err != nil {
			w.yield(runnel.StoredFile{}, err)
			return false
		}
		entries, err := f.ReadDir(min(w.left, 1024))
		w.left -= len(entries)
		for _, e := range entries {
			if matched, _ := path.Match(levels[0], e.Name()); matched && !w.entry(root, name, e, levels[1:]) {
				return false
			}
		}
		if err != nil || len(entries) == 0 {
			return true
		}
	}
	return false
}

// entry walks an entry of a directory. It reports whether the walk goes on.
func (w *walk) entry(root *os.Root, dir string, e fs.DirEntry, below []string) bool {
	if len(below) > 0 {
		if !e.IsDir() {
			return true
		}
		sub, err := root.OpenRoot(e.Name() + folderEnd)
		if err != nil {
			return true
		}
		defer sub.Close()
		return w.dir(sub, filepath.Join(dir, e.Name()), below)
	}
	if !e.Type().IsRegular() {
		return true
	}
	st, err := root.Lstat(e.Name())
	if err != nil || !st.Mode().IsRegular() {
		return true
	}
	return w.yield(runnel.StoredFile{Path: filepath.Join(dir, e.Name()), Size: st.Size(), ModTime: st.ModTime(), Inode: Inode(st)}, nil)
}

// StoredFile returns the file at path as [StoredFiles] with the same dir and
// pattern yields it. ok is false if StoredFiles does not yield it.
func StoredFile(dir, pattern, file string) (f runnel.StoredFile, ok bool) {
	rel, err := filepath.Rel(dir, file)
	if err != nil || !filepath.IsLocal(rel) {
		return f, false
	}
	names, levels := strings.Split(filepath.ToSlash(rel), "/"), strings.Split(pattern, "/")
	if len(names) != len(levels) {
		return f, false
	}
	root, err := OpenFolder(dir)
	if err != nil {
		return f, false
	}
	defer root.Close()
	for i, level := range levels {
		if matched, _ := path.Match(level, names[i]); !matched {
			return f, false
		}
		st, err := root.Lstat(filepath.Join(names[:i+1]...))
		if err != nil || i+1 < len(names) && !st.IsDir() || i+1 == len(names) && !st.Mode().IsRegular() {
			return f, false
		}
		f = runnel.StoredFile{Path: filepath.Join(dir, rel), Size: st.Size(), ModTime: st.ModTime(), Inode: Inode(st)}
	}
	return f, true
}

// Ends are the complete lines at both ends of a file.
type Ends struct {
	Head, Tail []byte // Tail is nil if Head has the whole file
}

// ReadEnds reads at most head bytes at the beginning of a file below dir, and
// at most tail bytes at its end. It fails if the file is not a regular file, or
// if a link leads out of dir.
func ReadEnds(dir, file string, head, tail int64) (Ends, error) {
	f, st, err := OpenStored(dir, file)
	if err != nil {
		return Ends{}, err
	}
	defer f.Close()
	var ends Ends
	if ends.Head, err = readAt(f, 0, min(head, st.Size())); err != nil {
		return Ends{}, err
	}
	if rest := st.Size() - head; rest > 0 {
		n := min(tail, rest)
		last, err := readAt(f, st.Size()-n, n)
		if err != nil {
			return Ends{}, err
		}
		if n < rest { // it probably begins within a line
			_, last, _ = bytes.Cut(last, []byte("\n"))
		} else {
			cut := bytes.LastIndexByte(ends.Head, '\n') + 1
			last = append(bytes.Clone(ends.Head[cut:]), last...)
		}
		ends.Tail = completeLines(last)
	}
	ends.Head = completeLines(ends.Head)
	return ends, nil
}

// ReadStored returns the first max bytes of a small file below dir. It fails
// as ReadEnds does.
func ReadStored(dir, file string, max int64) ([]byte, error) {
	f, _, err := OpenStored(dir, file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, max))
}

// OpenStored opens a regular file below dir. It follows no link out of dir.
func OpenStored(dir, file string) (*os.File, fs.FileInfo, error) {
	root, err := OpenFolder(dir)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	rel, err := filepath.Rel(dir, file)
	if err != nil || !filepath.IsLocal(rel) {
		return nil, nil, errors.New("agentconn: the file is outside of the agent's directory")
	}
	if st, err := root.Lstat(rel); err != nil || !st.Mode().IsRegular() {
		return nil, nil, errors.Join(errors.New("agentconn: not a regular file"), err)
	}
	return OpenPlain(root.OpenFile, rel)
}

// readAt reads n bytes, or fewer if the file has become shorter.
func readAt(f *os.File, at, n int64) ([]byte, error) {
	buf := make([]byte, n)
	got, err := f.ReadAt(buf, at)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return buf[:got], err
}

// completeLines returns data without an incomplete last line, which the agent
// may still be writing.
func completeLines(data []byte) []byte { return data[:bytes.LastIndexByte(data, '\n')+1] }
