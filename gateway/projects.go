package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/sandbox"
	"github.com/runnel-dev/runnel/internal/subpath"
)

// ProjectID returns the id of a project directory. It depends only on the
// canonical path.
func ProjectID(dir string) string { return projectID(canonical(dir)) }

// projectID is ProjectID for a canonical path from a record, which may lead to
// another directory by now.
func projectID(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return hex.EncodeToString(sum[:8])
}

// canonical returns the path without symbolic links under which records name a
// directory. If dir cannot be resolved, it returns the cleaned dir.
func canonical(dir string) string {
	dir = filepath.Clean(dir)
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	return dir
}

// projects checks the directories that clients name.
type projects struct {
	dataDir string   // canonical; no project may lie in it or contain it. Default: none
	trusted []string // see Config.TrustedDirs
}

// check returns the canonical path of a directory in which an agent is to
// start, or an error if no agent may start there.
func (p projects) check(dir string) (string, error) {
	if dir == "" {
		return "", runnel.Fail(runnel.InvalidRequest, "projectDir: is missing; give the directory in which the agent works")
	}
	if strings.ContainsRune(dir, 0) || !filepath.IsAbs(dir) {
		return "", inaccessible("the project directory must be an absolute path")
	}
	real, err := filepath.EvalSymlinks(filepath.Clean(dir))
	if err != nil {
		return "", inaccessible("the project directory does not exist or cannot be reached: " + dir)
	}
	info, err := os.Stat(real)
	if err != nil || !info.IsDir() {
		return "", inaccessible("the project directory is not a directory: " + dir)
	}
	if err := p.checkDataDir(real); err != nil {
		return "", err
	}
	if !usable(real) {
		return "", inaccessible("the project directory must be readable and writable")
	}
	return real, nil
}

// recheck is check for the directory of a record. It fails if the path now
// leads to another directory.
func (p projects) recheck(dir string) error {
	real, err := p.check(dir)
	if err == nil && real != dir {
		return errMoved
	}
	return err
}

// errMoved does not name the target of the link, which the client may not be
// allowed to see.
var errMoved = inaccessible("the project directory, or one above it, was replaced by a link to another place; restore the directory, or create a new session at the other place")

// InPlace reports whether dir, a canonical path from a record, is still
// canonical: no element of the path has become a symbolic link.
func InPlace(dir string) bool { return canonical(dir) == dir }

type projectKey struct{}

// WithProject returns a context that limits the creation and listing of
// sessions to one project. dir is the canonical path of the project; a
// directory to which a link at that path leads does not count. An empty dir
// sets no limit.
func WithProject(ctx context.Context, dir string) context.Context {
	return context.WithValue(ctx, projectKey{}, dir)
}

// onlyProject returns the directory that WithProject set, or "".
func onlyProject(ctx context.Context) string {
	dir, _ := ctx.Value(projectKey{}).(string)
	return dir
}

// checkDataDir returns an error if dir contains the server's data directory or
// lies in it, or if dir contains the folder for worktrees. An agent there could
// change the log of its own session, or the worktrees of all projects.
func (p projects) checkDataDir(dir string) error {
	switch {
	case p.dataDir == "":
	case within(dir, p.dataDir) || within(p.dataDir, dir):
		return runnel.Fail(runnel.WorkingRootConflict, "this directory contains runnel's own data or is part of it; choose another directory")
	case within(sandbox.Worktrees(p.dataDir), dir):
		return runnel.Fail(runnel.WorkingRootConflict, "this directory contains the worktrees of all projects; choose another directory")
	}
	return nil
}

// trusts reports whether the settings in a project directory may run code.
func (p projects) trusts(dir string) bool { return Trusts(p.trusted, dir) }

// within reports whether dir is root or lies in it. Both are canonical paths.
// It also compares the directories themselves, because a file system may have
// several names for one directory, for example in different case.
func within(dir, root string) bool {
	if subpath.Within(dir, root) {
		return true
	}
	want, err := os.Stat(root)
	return err == nil && lies(dir, want)
}

// lies reports whether dir or a directory above it is the directory in.
func lies(dir string, in fs.FileInfo) bool {
	for {
		if is, err := os.Stat(dir); err == nil && os.SameFile(is, in) {
			return true
		}
		up := filepath.Dir(dir)
		if up == dir {
			return false
		}
		dir = up
	}
}

func inaccessible(why string) error { return runnel.Fail(runnel.WorkingRootInaccessible, why) }
