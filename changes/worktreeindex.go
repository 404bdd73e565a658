package changes

import (
	"context"
	"crypto/sha1" // by which git names its objects
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/nofollow"
)

// maxIndex bounds what git prints about the files of a work tree in
// [Git.unreported].
const maxIndex = 64 << 20

// unreported returns what a worktree has that git status does not report.
// submodules reports whether it has submodules with files: work in them is not
// part of the worktree's own commits. hidden are files that differ from the
// index although git was told to assume the contrary (git update-index
// --assume-unchanged or --skip-worktree).
func (g *Git) unreported(ctx context.Context, wr *repository) (submodules bool, hidden []string, err error) {
	out, err := g.read(ctx, wr, maxIndex, "ls-files", "-v", "--stage", "-z")
	cut := errors.Is(err, errCut)
	if err != nil && !cut {
		return false, nil, err
	}
	if _, err := os.Lstat(filepath.Join(wr.dir, "modules")); err == nil || cut {
		submodules = true
	}
	root, err := nofollow.RootInPlace(wr.root)
	if err != nil {
		return false, nil, runnel.Fail(runnel.WorkingRootInaccessible, "the worktree cannot be opened", err)
	}
	defer root.Close()
	left := int64(maxSeenBytes)
	for entry := range strings.SplitSeq(string(out), "\x00") {
		meta, path, _ := strings.Cut(entry, "\t")
		f := strings.Fields(meta) // a letter, the mode, the id and the stage
		if len(f) != 4 {
			continue
		}
		if f[1] == submoduleMode {
			files, err := os.ReadDir(filepath.Join(wr.root, filepath.FromSlash(path)))
			submodules = submodules || err == nil && len(files) > 0
			continue
		}
		// Git writes a small letter for a file that it assumes to be unchanged.
		if told := f[0] == "S" || f[0] != strings.ToUpper(f[0]); told && differs(root, path, f[1], f[2], &left) {
			hidden = append(hidden, path)
		}
	}
	return submodules, hidden, nil
}

// differs reports whether a file of a work tree has another content than the
// object with this mode and id. A file that does not exist does not differ. A
// file that cannot be compared does; differs takes the size of a file that it
// reads from left.
func differs(root *os.Root, path, mode, id string, left *int64) bool {
	name := filepath.FromSlash(path)
	if _, err := os.Lstat(filepath.Join(root.Name(), name)); errors.Is(err, fs.ErrNotExist) {
		return false // as most files of a sparse checkout; root would open each folder on the way
	}
	st, err := root.Lstat(name)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	var content []byte
	switch isLink := mode == "120000"; {
	case isLink && st.Mode()&fs.ModeSymlink != 0:
		to, err := root.Readlink(name)
		if err != nil {
			return true
		}
		content = []byte(to)
	case !isLink && st.Mode().IsRegular() && st.Size() <= *left:
		*left -= st.Size()
		file, err := nofollow.Open(root, name)
		if err != nil {
			return true
		}
		defer file.Close()
		if content, err = io.ReadAll(io.LimitReader(file, st.Size()+1)); err != nil {
			return true
		}
	default:
		return true
	}
	sum := hash.Hash(sha1.New())
	if len(id) == hex.EncodedLen(sha256.Size) {
		sum = sha256.New()
	}
	fmt.Fprintf(sum, "blob %d\x00", len(content))
	sum.Write(content)
	return hex.EncodeToString(sum.Sum(nil)) != id
}
