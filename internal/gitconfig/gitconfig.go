// Package gitconfig finds the keys of git configurations by which git would run
// programs in a folder, and pins the settings of git that need no such key.
//
// Agents run `git status` and `git diff` by themselves, so a repository with
// such a key runs a program before anyone has read it.
package gitconfig

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/runnel-dev/runnel/internal/text"
)

// A Finding is a key by which git would run a program or overwrite files
// elsewhere, or a configuration that could not be judged.
type Finding struct {
	Key     string // as git lists it; "" with a Problem
	File    string // absolute path of the configuration
	Problem string // why the configuration could not be judged
}

// ErrNoGit means that git is needed to read the configuration of a folder and
// is not installed.
var ErrNoGit = errors.New("git is not installed, or not in PATH")

// Find returns the findings in the configurations that git would read in dir,
// in the folders below it and in those above it: of repositories, worktrees,
// submodules and bare repositories, with every file that they include under any
// condition. If a repository holds dir, links from dir into the rest of it are
// followed. dir is absolute. Find runs the git in the PATH of env to parse the
// files, and nothing else.
//
// Below dir it looks at maxEntries files, nearest first, at as many in git
// directories and behind links, and at as many beside objects of git. Of a
// repository beyond them it knows nothing.
func Find(ctx context.Context, env []string, dir string) ([]Finding, error) {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	f := newFinder(ctx, env, maxEntries)
	f.root = dir
	f.above(dir)
	f.walk(dir)
	f.left = maxEntries // of git directories, which may be elsewhere
	f.walkAll(&f.later)
	f.left = maxEntries
	f.walkAll(&f.last)
	f.walkAll(&f.later)
	if f.err == nil {
		f.err = ctx.Err()
	}
	return f.found, f.err
}

// maxShown is how many findings Describe names.
const maxShown = 20

// Describe returns the findings as one line of text. Files below dir have their
// relative path.
func Describe(findings []Finding, dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	var parts []string
	for i, f := range findings {
		if i == maxShown {
			parts = append(parts, fmt.Sprintf("and %d more", len(findings)-i))
			break
		}
		file := f.File
		if rel, err := filepath.Rel(dir, file); err == nil && filepath.IsLocal(rel) {
			file = rel
		}
		part := f.Key + " (" + file + ")"
		if f.Key == "" {
			part = file + " (" + f.Problem + ")"
		}
		parts = append(parts, text.OneLine(part, 300))
	}
	return strings.Join(parts, ", ")
}
