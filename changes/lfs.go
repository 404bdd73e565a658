package changes

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A command of these makes git run the filters of the user's configuration on
// files that it stores or writes.
var filtering = []string{"update-index", "checkout", "reset", "merge"}

// lfsDepth is how many levels of folders Git LFS has in its folder, with the
// files: objects/12/34/ID.
const lfsDepth = 4

// linkLFS lets Git LFS keep the contents of files in the repository, if it is a
// filter in the user's configuration. It keeps them in the git directory, and
// they would be removed with the private one. tidy removes what linkLFS has
// created and Git LFS does not use.
func (p *private) linkLFS(ctx context.Context, r *repository, c command) (tidy func(), err error) {
	tidy = func() {}
	if !slices.Contains(filtering, name(c.args)) || !usesLFS(p.settings) {
		return tidy, nil
	}
	for _, s := range p.settings {
		if s.key == "lfs.storage" && (s.own || !filepath.IsAbs(s.value)) {
			return tidy, failed("The setting lfs.storage chooses another folder for the contents of Git LFS. Runnel supports it in trusted folders only.")
		}
	}
	dir := filepath.Join(r.common, "lfs")
	switch err := os.Mkdir(dir, 0o777); { //nolint:gosec // the user's umask decides, as for all folders of a repository
	case err == nil:
		tidy = func() { _ = os.Remove(dir) } // fails if it is not empty
	case !errors.Is(err, fs.ErrExist):
		return tidy, failed("Git LFS cannot store contents in the repository: "+err.Error()+".", err)
	}
	left := maxParts
	if problem := lfsLinks(ctx, dir, lfsDepth, &left); problem != "" {
		return tidy, failed(problem)
	}
	return tidy, os.Symlink(dir, filepath.Join(p.dir, "lfs"))
}

// usesLFS reports whether a filter of the user is Git LFS.
func usesLFS(settings []setting) bool {
	return slices.ContainsFunc(settings, func(s setting) bool {
		return !s.own && strings.HasPrefix(s.key, "filter.") && strings.Contains(s.value, "git-lfs")
	})
}

// lfsLinks returns why Git LFS could read or write elsewhere through the folder
// dir, which has depth levels of files and folders, or "". left is the number of
// entries that it may still read.
func lfsLinks(ctx context.Context, dir string, depth int, left *int) (problem string) {
	if st, err := os.Lstat(dir); err != nil || !st.IsDir() {
		return dir + " is no folder. Runnel follows a link there in trusted folders only."
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return dir + " cannot be read."
	}
	if *left -= len(entries); *left < 0 || ctx.Err() != nil {
		return dir + " has too many files to check. Run git lfs prune in the folder."
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case e.IsDir() && depth > 1:
			if problem := lfsLinks(ctx, path, depth-1, left); problem != "" {
				return problem
			}
		case !e.IsDir() && !e.Type().IsRegular():
			return path + " is no regular file. Git LFS follows it in trusted folders only."
		}
	}
	return ""
}
