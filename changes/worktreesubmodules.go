package changes

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// submoduleMode is the file mode of a submodule in git's index and trees.
const submoduleMode = "160000"

// keepsRepositories fails if the move of the project's branch to a commit would
// remove the files of a submodule, or a repository that is no submodule. When the
// commit has a file or a link in place of a folder, git removes the folder
// without a check of the files of submodules in it, and of each .git.
func (g *Git) keepsRepositories(ctx context.Context, r *repository, w Worktree, commit string) error {
	tooMany := failed("The repository has too many files to check that the merge keeps all files of submodules. Merge in a terminal: git merge " + w.Branch + ".")
	out, err := g.read(ctx, r, maxIndex, "ls-files", "--stage", "-z")
	if errors.Is(err, errCut) {
		return tooMany
	}
	if err != nil {
		return err
	}
	var submodules []string
	for entry := range strings.SplitSeq(string(out), "\x00") {
		meta, path, _ := strings.Cut(entry, "\t")
		if strings.HasPrefix(meta, submoduleMode+" ") && hasFiles(filepath.Join(r.root, filepath.FromSlash(path))) {
			submodules = append(submodules, path)
		}
	}
	out, err = g.read(ctx, r, maxIndex, exact("diff", "--raw", "--no-renames", "--diff-filter=AMT", "-z", "--no-ext-diff", "--no-textconv", "HEAD", commit)...)
	if errors.Is(err, errCut) {
		return tooMany
	}
	if err != nil {
		return err
	}
	files := make(map[string]bool) // those that the merge writes
	records := strings.Split(string(out), "\x00")
	for i := 0; i+1 < len(records); i += 2 {
		if f := strings.Fields(records[i]); len(f) > 1 && f[1] != submoduleMode { // the modes before and after the merge
			files[records[i+1]] = true
		}
	}
	var lost []string
	for _, s := range submodules {
		for path := s; path != "."; path = filepath.ToSlash(filepath.Dir(path)) {
			if files[path] {
				lost = append(lost, s)
				break
			}
		}
	}
	if len(lost) > 0 {
		return failed("The merge replaces submodules whose folders have files, which would be removed: " + names(lost, 0) + ". Move the files away, then merge.")
	}
	for path := range files {
		if in := repositoryIn(filepath.Join(r.root, filepath.FromSlash(path))); in != "" {
			return failed("The merge has a file in place of the folder " + path + ", with which " + in + " would be removed. Move it away, then merge.")
		}
	}
	return nil
}

// hasFiles reports whether the folder of a submodule contains something, or is
// no folder.
func hasFiles(dir string) bool {
	entries, err := os.ReadDir(dir)
	return len(entries) > 0 || err != nil && !errors.Is(err, os.ErrNotExist)
}

// repositoryIn returns a git directory or file in a folder, or what cannot be
// read of it; "" if there is none, or if the path is no folder.
func repositoryIn(dir string) (found string) {
	if st, err := os.Lstat(dir); err != nil || !st.IsDir() {
		return ""
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || strings.EqualFold(d.Name(), ".git") {
			found = path
			return fs.SkipAll
		}
		return nil
	})
	return found
}
