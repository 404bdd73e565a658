package gitconfig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/runnel-dev/runnel/internal/proc"
	"github.com/runnel-dev/runnel/internal/subpath"
	"github.com/runnel-dev/runnel/internal/text"
)

// Bounds of reading a configuration.
const (
	maxConfig = 1 << 20 // bytes of one configuration; a longer one is a finding
	gitTime   = 10 * time.Second
)

// config checks a configuration and the files that it includes. gitDir is the
// git directory of the configuration, or "" for an included file.
func (f *finder) config(path, gitDir string) {
	if f.stopped() {
		return
	}
	// Relative includes depend on the directory of the name, so a link to a
	// file that was checked counts as another file.
	name := resolveRelative(path, filepath.Base(path))
	if f.files[name] {
		return
	}
	b, err := readRegular(path, maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if len(f.files) == maxFiles {
		f.err = fmt.Errorf("more than %d git configurations", maxFiles)
		return
	}
	f.files[name] = true
	if err != nil {
		f.add(Finding{File: path, Problem: reason(err)})
		return
	}
	entries, err := f.parse(b)
	switch {
	case errors.Is(err, ErrNoGit) || f.ctx.Err() != nil:
		f.err = err
	case err != nil:
		f.add(Finding{File: path, Problem: err.Error()})
	}
	for _, e := range entries {
		switch {
		case e.isInclude():
			f.include(path, e)
		case e.runs(), e.key == "core.worktree" && !f.mayHold(gitDir, e.value):
			f.add(Finding{Key: e.key, File: path})
		}
	}
}

// include follows an include whatever its condition, because a condition such
// as the current branch may become true later.
func (f *finder) include(from string, e entry) {
	to := strings.TrimPrefix(e.value, ":(optional)")
	switch {
	case to == "":
		return
	case strings.HasPrefix(to, "~/"):
		home, err := os.UserHomeDir()
		if err != nil {
			f.add(Finding{Key: e.key, File: from})
			return
		}
		to = home + string(filepath.Separator) + to[2:]
	case strings.HasPrefix(to, "~"), strings.HasPrefix(to, "%(prefix)"):
		f.add(Finding{Key: e.key, File: from}) // only git knows the target
		return
	}
	f.config(resolveRelative(from, to), "")
}

// mayHold reports whether worktree is an allowed work tree of a git directory:
// a folder within root, or a folder whose ".git" refers to this git directory.
// With any other work tree git would overwrite files of the user, such as shell
// startup files in the home directory.
func (f *finder) mayHold(gitDir, worktree string) bool {
	if worktree == "" {
		return true // git reports an error for it
	}
	if gitDir == "" {
		return false // depends on the including file
	}
	to := resolveRelative(filepath.Join(gitDir, "config"), worktree)
	if real, err := filepath.EvalSymlinks(to); err == nil {
		to = real
	}
	if subpath.Within(to, f.root) {
		return true
	}
	own := filepath.Join(to, ".git")
	if st, err := os.Stat(own); err == nil && st.Mode().IsRegular() {
		own = f.readPath(own, "gitdir: ")
	}
	is, err := os.Stat(own)
	want, err2 := os.Stat(gitDir)
	return err == nil && err2 == nil && os.SameFile(is, want)
}

// parse returns the entries of a configuration. It passes the configuration to
// git on standard input, and git reads no other configuration.
func (f *finder) parse(config []byte) ([]entry, error) {
	if f.git == "" {
		git, err := lookGit(f.env)
		if err != nil {
			return nil, err
		}
		f.git = git
	}
	ctx, cancel := context.WithTimeout(f.ctx, gitTime)
	defer cancel()
	var out, problem bytes.Buffer
	cmd := exec.CommandContext(ctx, f.git, "--no-pager", "config", "--file", "-", "--no-includes", "--null", "--list")
	cmd.Dir, cmd.Env = filepath.Dir(f.git), ownEnviron(f.env)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(config), &out, &problem
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		if f.ctx.Err() != nil {
			return nil, f.ctx.Err()
		}
		if _, exited := errors.AsType[*exec.ExitError](err); !exited {
			return nil, fmt.Errorf("git could not be run: %w", err)
		}
		said, _, _ := strings.Cut(strings.TrimSpace(problem.String()), "\n")
		return nil, errors.New("git cannot read it: " + text.OneLine(said, 150))
	}
	return split(out.String()), nil
}

// split returns the entries in the output of `git config --null --list`.
func split(list string) (entries []entry) {
	for item := range strings.SplitSeq(strings.TrimSuffix(list, "\x00"), "\x00") {
		if item != "" {
			key, value, _ := strings.Cut(item, "\n") // a key without a value is true
			entries = append(entries, entry{key, value})
		}
	}
	return entries
}

// lookGit returns the absolute path of git in the PATH of an environment.
func lookGit(env []string) (string, error) {
	for _, e := range proc.Environ(env, []string{"PATH"}, nil) {
		_, path, _ := strings.Cut(e, "=")
		if git, err := proc.LookPath("git", path); err == nil {
			return git, nil
		}
	}
	return "", ErrNoGit
}

// ownEnviron returns the environment of the git that this package runs. It has
// no configuration except the pins, no repository and no variables of ours.
func ownEnviron(env []string) []string {
	return appendSettings(proc.Environ(env, []string{"PATH", "SystemRoot"}, map[string]string{
		"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.DevNull, "GIT_DIR": os.DevNull, "LC_ALL": "C",
	}), pins)
}

// errTooLong and errNoFile are errors of readRegular.
var (
	errTooLong = errors.New("too long to be read")
	errNoFile  = errors.New("not a regular file")
)

// readRegular returns the content of a regular file of at most limit bytes.
func readRegular(path string, limit int64) ([]byte, error) {
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, errNoFile
	}
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may have become a pipe since Stat
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if st, err = file.Stat(); err == nil && !st.Mode().IsRegular() {
		err = errNoFile
	}
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = errTooLong
	}
	return b, err
}

// reason returns the message of a read error without the path.
func reason(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return err.Error()
}
