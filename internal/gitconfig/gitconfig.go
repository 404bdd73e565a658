// Package gitconfig finds the keys in git configurations that make git run
// programs, and pins the git settings that run programs without such a key.
//
// Agents run `git status` and `git diff` on their own. A repository with such a
// key therefore runs a program before a person has reviewed it.
package gitconfig

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/runnel-dev/runnel/internal/text"
)

// A Finding is a key that makes git run a program or overwrite files elsewhere,
// a hook or an unfinished operation that the pins do not stop, or a
// configuration that could not be checked.
type Finding struct {
	Key     string // as git lists it; "" if Problem is set
	File    string // absolute path of the configuration, of the hook or of the state of the operation
	Problem string // what the hook or the operation does, or why the file could not be checked
}

// ErrNoGit means that git is required to read a configuration and is not
// installed.
var ErrNoGit = errors.New("git is not installed, or not in PATH")

// Find returns the findings in the configurations, hooks and unfinished
// operations that git would use in dir, in the folders below it and in those
// above it: of repositories, worktrees, submodules and bare repositories. It
// reads every included file, whatever its condition. If a repository contains
// dir, Find follows links from dir to other parts of that repository. dir must
// be absolute. Find runs the git in the PATH of env to parse the files, and no
// other program.
//
// Find checks up to maxEntries entries below dir, nearest first. It checks as
// many again in git directories and behind links, and as many in object
// directories. It misses repositories beyond these bounds.
func Find(ctx context.Context, env []string, dir string) ([]Finding, error) {
	return find(ctx, env, dir, false)
}

// FindUnpinned is like [Find] for a git whose settings are not pinned. It also
// returns all other hooks.
func FindUnpinned(ctx context.Context, env []string, dir string) ([]Finding, error) {
	return find(ctx, env, dir, true)
}

func find(ctx context.Context, env []string, dir string, unpinned bool) ([]Finding, error) {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	f := newFinder(ctx, env, maxEntries)
	f.root, f.unpinned = dir, unpinned
	f.above(dir)
	f.walk(dir)
	f.left = maxEntries // for git directories, which may be outside of dir
	f.walkAll(&f.later)
	f.left = maxEntries
	f.walkAll(&f.last)
	f.walkAll(&f.later)
	if f.err == nil {
		f.err = ctx.Err()
	}
	return f.found, f.err
}

// maxShown is the maximum number of findings that Describe lists.
const maxShown = 20

// Describe returns the findings as one line of text. Paths below dir are
// relative to it.
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
