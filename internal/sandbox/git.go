package sandbox

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/runnel-dev/runnel/internal/nofollow"
)

// Git runs programs that the settings and hooks of a repository name. An agent
// must not be able to write them, because the user's own git would run them
// outside of the sandbox.

// repository adds the mounts for the repository in a writable directory. The
// directory .git is mounted on its own, so it cannot be moved away and replaced.
// With openGit, it adds only the git directory of a linked worktree.
func (m *mounts) repository(dir string, g guard, rule gitRule) error {
	path := filepath.Join(dir, ".git")
	info, err := os.Lstat(path)
	switch {
	case err != nil && isBareRepository(dir):
		return m.gitDir(dir, rule)
	case err != nil:
		return noRepository(dir, err)
	case info.Mode()&fs.ModeSymlink != 0:
		if rule == protectGit && m.over(real(path)).kind == writable {
			return &Error{Why: path + " is a link, so a sandbox cannot make the settings of the repository read-only", Fix: "Replace the link by what it names."}
		}
	case info.IsDir():
		m.pin(writable, path)
		return m.gitDir(path, rule)
	case info.Mode().IsRegular():
		m.pin(readable, path)
		if common := LinkedTo(path); common != "" && g.exposes(common) == "" {
			m.pinWithParents(common)
			return m.gitDir(common, rule)
		}
		return m.separate(path, rule)
	}
	return nil
}

// noRepository returns nil if err, of the examination of a file in dir, says that
// there is none. An agent that may write dir can have closed it, and can open it
// again in the sandbox.
func noRepository(dir string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	return &Error{Why: dir + " cannot be entered, so a sandbox cannot make the settings of a repository in it read-only", Fix: "Give yourself the permission to read and enter it: chmod u+rx " + dir}
}

// separate adds the mounts for the git directory to which a .git file leads, if
// an agent can write that directory, such as one that git init
// --separate-git-dir has made in the project.
func (m *mounts) separate(file string, rule gitRule) error {
	dir := gitDirOf(file)
	if dir == "" || rule == openGit {
		return nil
	}
	found := real(dir)
	switch {
	case m.over(found).kind != writable && m.over(dir).kind != writable:
		return nil // not in the sandbox, or only to be read
	case found != dir:
		return &Error{Why: file + " leads to a repository through a link, so a sandbox cannot make the settings of the repository read-only", Fix: "Write the path without links into that file."}
	case !isGitDir(found):
		_, err := os.Lstat(filepath.Join(found, "HEAD"))
		return noRepository(found, err)
	}
	m.pinWithParents(found)
	return m.gitDir(found, rule)
}

// pinWithParents makes a directory writable. If it is in another writable
// directory, it makes those on the way mounts of their own, so they cannot be
// moved away and replaced.
func (m *mounts) pinWithParents(dir string) {
	var way []string
	for at := dir; m.over(at).kind == writable && m.over(at).path != at; at = filepath.Dir(at) {
		way = append(way, at)
	}
	m.pin(writable, dir)
	for _, at := range way {
		m.pin(writable, at)
	}
}

// maxModules bounds the files and directories that gitDir searches for the
// repositories of submodules.
const maxModules = 20_000

// gitDir makes the settings and hooks of a git directory, and those of its
// submodules and worktrees, read-only. It creates the ones that are missing,
// empty, as git itself does. The directories on the way to them are mounted on
// their own, so they cannot be moved away and replaced.
func (m *mounts) gitDir(dir string, rule gitRule) error {
	if rule == openGit {
		return nil
	}
	if err := m.gitSettings(dir); err != nil {
		return err
	}
	seen := 0
	for _, below := range []string{"modules", "worktrees"} {
		err := filepath.WalkDir(filepath.Join(dir, below), func(path string, d fs.DirEntry, err error) error {
			if seen++; seen > maxModules {
				return &Error{Why: "the repository in " + filepath.Dir(dir) + " has too many submodules to protect the settings of each"}
			}
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil: // an agent that may write it can have closed it, and can open it again
				return &Error{Why: path + " cannot be listed, so a sandbox cannot make the settings of the repositories in it read-only", Fix: "Give yourself the permission to read and enter it: chmod u+rx " + path}
			case !d.IsDir():
				return nil
			}
			up := filepath.Dir(path)
			isRepository := wasKept(path) || up == filepath.Join(dir, "worktrees")
			switch d.Name() {
			case "objects", "refs", "logs":
				if !isRepository && up != filepath.Join(dir, below) && isGitDir(up) { // else a submodule or a worktree has this name
					return fs.SkipDir
				}
			}
			if isRepository || isGitDir(path) {
				m.pinWithParents(path)
				return m.gitSettings(path)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func isGitDir(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, "HEAD"))
	return err == nil || wasKept(dir)
}

// wasKept reports whether a sandbox has kept the settings and hooks of a git
// directory in place. Its agent may have moved other files of it away, such as
// HEAD, so that the next sandbox would take it for another directory.
func wasKept(dir string) bool {
	for _, name := range []string{"config", "config.worktree", "hooks"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// gitSettings makes the settings and hooks of one git directory read-only.
func (m *mounts) gitSettings(dir string) error {
	for _, name := range []string{"config", "config.worktree"} {
		path := filepath.Join(dir, name)
		if err := placeholder(path, false); err != nil {
			return err
		}
		m.pin(readable, path)
	}
	path := filepath.Join(dir, "hooks")
	if err := placeholder(path, true); err != nil {
		return err
	}
	m.pin(readable, path)
	return nil
}

// placeholder creates an empty file or directory unless the path exists. It
// fails for a link, because bubblewrap would mount what the link names.
func placeholder(path string, isDir bool) error {
	info, err := os.Lstat(path)
	switch {
	case err == nil && info.Mode()&fs.ModeSymlink != 0:
		return &Error{Why: path + " is a link, so a sandbox cannot make it read-only", Fix: "Replace the link by what it names."}
	case err == nil:
		return nil
	case isDir:
		err = os.Mkdir(path, 0o755)
	default:
		var f *os.File
		if f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644); err == nil {
			err = f.Close()
		}
	}
	if err != nil {
		return &Error{Why: path + " cannot be created, so a sandbox cannot make it read-only: " + err.Error()}
	}
	return nil
}

// LinkedTo returns the git directory to which the .git file of a linked worktree
// belongs, and "" for any other .git file. Git wrote the path of the file into
// that directory when it made the worktree. Without this proof, a .git file in
// the project could choose any directory of the user to be writable, or another
// project whose settings the agent reads.
func LinkedTo(file string) string {
	dir := gitDirOf(file)
	if dir == "" {
		return ""
	}
	dir = real(dir)
	common := filepath.Dir(filepath.Dir(dir))
	back := firstLine(filepath.Join(dir, "gitdir"))
	if !filepath.IsAbs(back) {
		back = filepath.Join(dir, back)
	}
	if filepath.Base(filepath.Dir(dir)) != "worktrees" || real(back) != real(file) || !isGitDir(common) {
		return ""
	}
	if _, err := os.Lstat(filepath.Join(common, "objects")); err != nil {
		return ""
	}
	return common
}

// gitDirOf returns the absolute path of the git directory that a .git file names;
// "" if it names none.
func gitDirOf(file string) string {
	text, ok := strings.CutPrefix(firstLine(file), "gitdir:")
	dir := strings.TrimSpace(text)
	switch {
	case !ok || dir == "":
		return ""
	case !filepath.IsAbs(dir):
		dir = filepath.Join(filepath.Dir(file), dir)
	}
	return filepath.Clean(dir)
}

// gitDirAbove returns the git directory that a directory is part of; "" if there
// is none. A directory with a .git of its own, such as a linked worktree in a
// bare repository, counts as part of none. Neither does a whole git directory,
// such as that of a submodule: repository protects its settings and hooks.
func gitDirAbove(dir string) string {
	if isBareRepository(dir) {
		return ""
	}
	for at := dir; at != filepath.Dir(at); at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return ""
		}
		if up := filepath.Dir(at); isBareRepository(up) {
			return up
		}
	}
	return ""
}

// firstLine returns the first line of a regular file, without white space around
// it; "" if it cannot be read.
func firstLine(path string) string {
	dir, err := nofollow.Root(filepath.Dir(path))
	if err != nil {
		return ""
	}
	defer dir.Close()
	f, err := nofollow.Open(dir, filepath.Base(path))
	if err != nil {
		return ""
	}
	defer f.Close()
	data, _ := io.ReadAll(io.LimitReader(f, 8<<10))
	line, _, _ := bytes.Cut(data, []byte("\n"))
	return strings.TrimSpace(string(line))
}
