package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
)

// ProjectID returns the stable id of a directory.
func ProjectID(dir string) string {
	sum := sha256.Sum256([]byte(canonical(dir)))
	return hex.EncodeToString(sum[:8])
}

// canonical returns the one name under which a directory is recorded: without
// symbolic links, as far as it exists.
func canonical(dir string) string {
	dir = filepath.Clean(dir)
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	return dir
}

// projects judges the directories that clients name.
type projects struct {
	dataDir string   // canonical; no project lies in it, or holds it. Default: none
	trusted []string // see Config.TrustedDirs
}

// check returns the canonical name of a directory in which an agent is to be
// started. Nothing is started in a directory that check rejects.
func (p projects) check(dir string) (string, error) {
	if dir == "" {
		return "", runnel.Fail(runnel.InvalidRequest, "projectDir: say in which directory the agent is to work")
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

// recheck is check for a directory under the name that a record has for it.
func (p projects) recheck(dir string) error {
	real, err := p.check(dir)
	if err == nil && real != dir {
		return errMoved
	}
	return err
}

// errMoved does not say where the link leads: that may be no business of the
// client's.
var errMoved = inaccessible("the project directory, or one above it, has become a link to somewhere else; put it back, or make a new session where it leads")

// InPlace reports whether a directory is still the one that records mean by its
// name: nothing on the way to it has become a link.
func InPlace(dir string) bool { return canonical(dir) == dir }

type projectKey struct{}

// WithProject returns a context in which sessions are created and listed only
// in one directory, and only under the name that records have for it: not where
// a link of that name leads. The empty name sets no limit.
func WithProject(ctx context.Context, dir string) context.Context {
	return context.WithValue(ctx, projectKey{}, dir)
}

// onlyProject returns the directory of WithProject; "" if there is none.
func onlyProject(ctx context.Context) string {
	dir, _ := ctx.Value(projectKey{}).(string)
	return dir
}

// checkDataDir rejects a directory that holds our own data or lies in it: an
// agent would work on the log of its own session.
func (p projects) checkDataDir(dir string) error {
	if p.dataDir == "" || !within(dir, p.dataDir) && !within(p.dataDir, dir) {
		return nil
	}
	return runnel.Fail(runnel.WorkingRootConflict, "this directory holds runnel's own data or lies in it; choose another one")
}

// trusts reports whether the settings of a project may run code.
func (p projects) trusts(dir string) bool { return Trusts(p.trusted, dir) }

// Trusts reports whether dir is one of the trusted ones, or lies in one.
func Trusts(trusted []string, dir string) bool {
	dir = canonical(dir)
	return slices.ContainsFunc(trusted, func(root string) bool { return within(dir, canonical(root)) })
}

// Untrusted returns those of the directories that no trusted one is, or holds.
func Untrusted(trusted, dirs []string) (out []string) {
	for _, dir := range dirs {
		if !Trusts(trusted, dir) {
			out = append(out, dir)
		}
	}
	return out
}

// within reports whether dir is root or lies in it. Both are canonical, but a
// file system may know a directory by several names, such as in other case: so
// the directories themselves are compared, not only their names.
func within(dir, root string) bool {
	if rel, err := filepath.Rel(root, dir); err == nil && filepath.IsLocal(rel) {
		return true
	}
	want, err := os.Stat(root)
	if err != nil {
		return false
	}
	for {
		if is, err := os.Stat(dir); err == nil && os.SameFile(is, want) {
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
