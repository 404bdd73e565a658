//go:build unix

package private

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// lay creates a folder or, if content is not empty, a file. Its mode is exact,
// whatever the umask.
func lay(t *testing.T, path, content string, mode fs.FileMode) string {
	t.Helper()
	err := error(nil)
	if content == "" {
		err = os.Mkdir(path, 0o700)
	} else {
		err = os.WriteFile(path, []byte(content), 0o600)
	}
	if err := errors.Join(err, os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
	return path
}

func link(t *testing.T, target, path string) string {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// wantProblem checks the path, the problem and the fix of an error.
func wantProblem(t *testing.T, err error, path, problem, fix string) {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Path != path || !strings.Contains(e.Problem, problem) || !strings.Contains(e.Fix, fix) {
		t.Errorf("got %v, want that %s %s; %s", err, path, problem, fix)
	}
}

func TestDirRejectsWhatOthersCanUse(t *testing.T) {
	base := t.TempDir()
	at := func(name string) string { return filepath.Join(base, name) }
	open := lay(t, at("open"), "", 0o755)
	wantProblem(t, Dir(open), open, "mode 0755", "run: chmod 700 "+open)
	wantProblem(t, Dir(link(t, open, at("link"))), at("link"), "symbolic link", "")
	if err := Dir(lay(t, at("file"), "x", 0o600)); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("a file: %v", err)
	}
	shared := lay(t, at("shared"), "", 0o770)
	wantProblem(t, Dir(filepath.Join(shared, "a", "b")), shared, "can be changed by others", "run: chmod go-w "+shared)
	if _, err := os.Stat(filepath.Join(shared, "a")); err == nil {
		t.Error("it made a folder where others could replace it")
	}
	if err := Dir(filepath.Join(lay(t, at("sticky"), "", 0o777|fs.ModeSticky), "a")); err != nil {
		t.Errorf("below a sticky folder: %v", err)
	}
}

func TestCheckFileFollowsEveryLink(t *testing.T) {
	base := t.TempDir()
	at := func(parts ...string) string { return filepath.Join(append([]string{base}, parts...)...) }
	open := lay(t, at("open"), "", 0o777)
	file := lay(t, at("file"), "x", 0o600)
	inOpen := lay(t, at("open", "file"), "x", 0o600)

	for name, path := range map[string]string{
		"absolute":         link(t, inOpen, at("absolute")),
		"relative":         link(t, "open/file", at("relative")),
		"there and back":   link(t, "open/../file", at("back")),
		"through another":  link(t, link(t, file, at("open", "hop")), at("hops")),
		"of a folder":      filepath.Join(link(t, "open", at("folder")), "file"),
		"not through link": inOpen,
	} {
		t.Run(name, func(t *testing.T) {
			wantProblem(t, CheckFile(path, Read), open, "can be changed by others", "chmod go-w")
		})
	}
	if err := CheckFile(link(t, "./././file", at("fine")), Nothing); err != nil {
		t.Errorf("a link in a private folder: %v", err)
	}
	if err := CheckFile(link(t, "loop", at("loop")), Read); err == nil {
		t.Error("it accepted a link to itself")
	}
}

func TestCheckFileRejectsOtherOwners(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be two users")
	}
	const other = 12345
	base := t.TempDir()
	file := lay(t, filepath.Join(base, "file"), "x", 0o600)
	to := link(t, file, filepath.Join(lay(t, filepath.Join(base, "sticky"), "", 0o777|fs.ModeSticky), "link"))
	if err := errors.Join(CheckFile(to, Nothing), os.Lchown(to, other, other)); err != nil {
		t.Fatal(err)
	}
	wantProblem(t, CheckFile(to, Read), to, "belongs to user 12345", "chown -h 0")
	if err := os.Chown(file, other, other); err != nil {
		t.Fatal(err)
	}
	wantProblem(t, CheckFile(file, Read), file, "belongs to user 12345", "chown -h 0")
}

// A pipe that nobody writes to must not block the caller.
func TestOnlyRegularFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, link(t, pipe, filepath.Join(dir, "link")), dir} {
		done := make(chan error, 1)
		go func() {
			_, err := ReadFile(path, Nothing, 10)
			done <- err
		}()
		select {
		case err := <-done:
			wantProblem(t, err, path, "is not a regular file", "")
		case <-time.After(5 * time.Second):
			t.Errorf("%s: it waits", path)
			if w, err := os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
				w.Close() // the read returns
			}
		}
	}
}
