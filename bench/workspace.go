package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A workspace is the directory of one run. It contains the measured programs,
// their data and the programs that they start.
type workspace struct {
	dir      string // absolute, without symbolic links
	root     string // root of the repository
	progress io.Writer
	sessions map[string]bool // ids of the sessions that a Runnel server opened
}

const module = "github.com/runnel-dev/runnel" // the measured module

// newWorkspace creates a workspace with the measured programs. program is the
// path of the runnel program to copy into it; if it is empty newWorkspace
// builds one.
func newWorkspace(ctx context.Context, program string, progress io.Writer) (*workspace, error) {
	root := oneLine(exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module))
	dir, err := os.MkdirTemp("", "runnel-bench")
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	w := &workspace{dir: dir, root: root, progress: progress, sessions: make(map[string]bool)}
	targets := map[string]string{"runnel": "cmd/runnel", "bin/claude": "bench/agent"}
	if program != "" {
		delete(targets, "runnel")
		if err := copyProgram(program, w.path("runnel")); err != nil {
			return nil, errors.Join(err, w.close())
		}
	}
	for target, folder := range targets {
		w.logf("building %s", folder)
		build := exec.CommandContext(ctx, "go", "build", "-o", w.path(target), ".")
		build.Dir = filepath.Join(root, folder) // the folders are in different modules
		if out, err := build.CombinedOutput(); err != nil {
			return nil, errors.Join(fmt.Errorf("build %s: %w\n%s", folder, err, out), w.close())
		}
	}
	return w, nil
}

func (w *workspace) logf(format string, args ...any) {
	fmt.Fprintf(w.progress, "bench: "+format+"\n", args...)
}

func (w *workspace) path(elem ...string) string {
	return filepath.Join(append([]string{w.dir}, elem...)...)
}

// fresh creates an empty directory with a new name.
func (w *workspace) fresh(name string) (string, error) {
	return os.MkdirTemp(w.dir, name+"-")
}

// environ returns the environment of the measured programs. It contains none of
// the developer's own configuration, and bin is first in PATH.
func (w *workspace) environ(home, bin string, more ...string) []string {
	return append([]string{
		"HOME=" + home, "PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "LANG=C.UTF-8",
	}, more...)
}

// sweep kills the processes of this run that are still running.
func (w *workspace) sweep() error {
	for range 50 {
		left, err := w.processes()
		if err != nil || len(left) == 0 {
			return err
		}
		for _, p := range left {
			if proc, err := os.FindProcess(p.pid); err == nil {
				_ = proc.Kill() // fails if it has ended
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("processes of %s do not end", w.dir)
}

func (w *workspace) close() error {
	err := w.sweep()
	if rmErr := os.RemoveAll(w.dir); err == nil {
		err = rmErr
	}
	return err
}

// A daemon is a server under test.
type daemon struct {
	cmd    *exec.Cmd
	stderr strings.Builder // read only after done is closed
	done   chan struct{}
}

// launch starts a server and returns once ready, which reads the server's
// output, has returned.
func launch(cmd *exec.Cmd, ready func(stdout io.Reader) error) (*daemon, error) {
	d := &daemon{cmd: cmd, done: make(chan struct{})}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = &d.stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	err = ready(out)
	go func() {
		defer close(d.done)
		_, _ = io.Copy(io.Discard, out) // so that writing never blocks the server
		_ = cmd.Wait()                  // the exit code does not matter to a measurement
	}()
	if err != nil {
		d.kill()
		return nil, fmt.Errorf("%s does not start: %w\n%s", filepath.Base(cmd.Path), err, d.stderr.String())
	}
	return d, nil
}

func (d *daemon) pid() int { return d.cmd.Process.Pid }

// kill kills only the server process.
func (d *daemon) kill() {
	_ = d.cmd.Process.Kill()
	<-d.done
}

// stop stops the server with SIGTERM, and kills it after 30 seconds.
func (d *daemon) stop() {
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.done:
	case <-time.After(30 * time.Second):
		d.kill()
	}
}
