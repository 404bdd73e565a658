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

// A workspace is the directory of one run: the programs under test, the data
// they keep and everything they start are in it and nowhere else.
type workspace struct {
	dir      string // absolute and real
	root     string // of the repository
	progress io.Writer
	sessions map[string]bool // ids of those that our server opened
}

const module = "github.com/runnel-dev/runnel" // what is measured

// newWorkspace makes a workspace with the programs that are measured. Without a
// program to measure it builds one.
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
		w.say("building %s", folder)
		build := exec.CommandContext(ctx, "go", "build", "-o", w.path(target), ".")
		build.Dir = filepath.Join(root, folder) // which is in one of two modules
		if out, err := build.CombinedOutput(); err != nil {
			return nil, errors.Join(fmt.Errorf("build %s: %w\n%s", folder, err, out), w.close())
		}
	}
	return w, nil
}

func (w *workspace) say(format string, args ...any) {
	fmt.Fprintf(w.progress, "bench: "+format+"\n", args...)
}

func (w *workspace) path(elem ...string) string {
	return filepath.Join(append([]string{w.dir}, elem...)...)
}

// fresh makes an empty directory that no other call gets.
func (w *workspace) fresh(name string) (string, error) {
	return os.MkdirTemp(w.dir, name+"-")
}

// environ is what programs under test see: nothing of the developer's own
// configuration, and bin first in PATH.
func (w *workspace) environ(home, bin string, more ...string) []string {
	return append([]string{
		"HOME=" + home, "PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "LANG=C.UTF-8",
	}, more...)
}

// sweep kills what is left of the programs under test.
func (w *workspace) sweep() error {
	for range 50 {
		left, err := w.processes()
		if err != nil || len(left) == 0 {
			return err
		}
		for _, p := range left {
			if proc, err := os.FindProcess(p.pid); err == nil {
				_ = proc.Kill() // it may be gone
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
	stderr strings.Builder // read after done
	done   chan struct{}
}

// launch starts a server and returns once ready has taken what it prints.
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
		_, _ = io.Copy(io.Discard, out) // so that it is never blocked
		_ = cmd.Wait()                  // how it ended does not matter to a measurement
	}()
	if err != nil {
		d.kill()
		return nil, fmt.Errorf("%s does not start: %w\n%s", filepath.Base(cmd.Path), err, d.stderr.String())
	}
	return d, nil
}

func (d *daemon) pid() int { return d.cmd.Process.Pid }

// kill ends the server as the system would, and nothing else.
func (d *daemon) kill() {
	_ = d.cmd.Process.Kill()
	<-d.done
}

// stop ends the server in order, and by force if it does not.
func (d *daemon) stop() {
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.done:
	case <-time.After(30 * time.Second):
		d.kill()
	}
}
