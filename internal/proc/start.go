package proc

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/runnel-dev/runnel/internal/procinfo"
	"github.com/runnel-dev/runnel/internal/text"
)

// MarkSuffix ends the name of every mark; see Command.Mark.
const MarkSuffix = procinfo.MarkSuffix

// Reason is the reason why a program did not start.
type Reason string

const (
	NotFound      Reason = "program not found"
	NotExecutable Reason = "program is not executable"
	BadFormat     Reason = "program is not one for this system, or its interpreter is missing"
	BadDir        Reason = "working directory is missing or not accessible"
	Refused       Reason = "command refused" // by check, before any start
	Unlimited     Reason = "limits cannot be enforced"
	NoResources   Reason = "no processes, memory or file descriptors left"
	Failed        Reason = "program could not be started"
)

// StartError reports why a program did not start. Its message contains the base
// name of the program, but no arguments, environment or directories.
type StartError struct {
	Program string
	Reason  Reason
	Err     error // the system's error number, or what was wrong with the command; may be nil
}

func (e *StartError) Error() string {
	s := "start " + e.Program + ": " + string(e.Reason)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *StartError) Unwrap() error { return e.Err }

// ownProgram is the file of this process's program, also after the file was
// replaced.
const ownProgram = "/proc/self/exe"

// child is a started program and our ends of its pipes.
type child struct {
	cmd                   *exec.Cmd
	stdin, stdout, stderr *os.File
	shared                *os.File // a duplicate of stdin, or nil
	mark                  string   // the whole NAME=value, or empty
	fence                 *fence
}

func spawn(c Command) (*child, error) {
	fail := func(r Reason, err error) (*child, error) {
		return nil, &StartError{Program: program(c.Path), Reason: r, Err: err}
	}
	if err := check(c, runtime.GOOS); err != nil {
		return fail(Refused, err)
	}
	env := append([]string{}, c.Env...) // never nil, which would inherit our environment
	mark := ""
	if c.Mark != "" {
		mark = c.Mark + "=" + rand.Text()
		env = append(env, mark)
	}
	var pipes [3]struct{ read, write *os.File }
	var shared *os.File
	closeAll := func() {
		shared.Close() // closing a nil file only returns an error
		for _, p := range pipes {
			p.read.Close()
			p.write.Close()
		}
	}
	stdout := outputChannel
	if c.ShareStdout {
		stdout = sharedChannel
	}
	for i, open := range []func() (read, write *os.File, err error){inputChannel, stdout, os.Pipe} {
		var err error
		if pipes[i].read, pipes[i].write, err = open(); err != nil {
			closeAll()
			return fail(reasonOf(c, bare(err)))
		}
	}
	if c.ShareStdin { // now, because it is closed when the child ends
		var err error
		if shared, err = duplicateOf(pipes[0].write); err != nil {
			closeAll()
			return fail(reasonOf(c, bare(err)))
		}
	}
	var further []*os.File
	if c.Boxed {
		image, err := os.Open(ownProgram)
		if err != nil {
			closeAll()
			return fail(Failed, bare(err))
		}
		defer image.Close()
		further = []*os.File{image}
	}
	command := func() *exec.Cmd {
		return &exec.Cmd{
			Path: c.Path, Args: append([]string{c.Path}, c.Args...), Dir: c.Dir, Env: env, SysProcAttr: attributes(c),
			Stdin: pipes[0].read, Stdout: pipes[1].write, Stderr: pipes[2].write, ExtraFiles: further,
		}
	}
	cmd, fence, err := fenced(c, command)
	if err != nil {
		closeAll()
		return fail(reasonOf(c, bare(err)))
	}
	// Close the child's ends at once. While we hold them, neither side can
	// detect that the other has closed.
	pipes[0].read.Close()
	pipes[1].write.Close()
	pipes[2].write.Close()
	return &child{cmd: cmd, stdin: pipes[0].write, stdout: pipes[1].read, stderr: pipes[2].read, shared: shared, mark: mark, fence: fence}, nil
}

// fenced starts the command in a fence. If that fails, it starts the command
// without one, unless the command has limits.
func fenced(c Command, command func() *exec.Cmd) (*exec.Cmd, *fence, error) {
	f, err := newFence(c)
	if err != nil {
		return nil, nil, err
	}
	if f != nil {
		cmd := command()
		f.enclose(cmd.SysProcAttr)
		err := cmd.Start()
		if err == nil {
			if err = f.hold(cmd.Process.Pid); err == nil {
				return cmd, f, nil
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		f.close()
		if c.Limits.any() {
			return nil, nil, err
		}
	}
	cmd := command()
	return cmd, nil, cmd.Start()
}

// check rejects an invalid command. goos is an argument so that the rules of
// every system can be tested on any system.
func check(c Command, goos string) error {
	switch {
	case c.Path == "":
		return errors.New("no path")
	case goos == runtime.GOOS && !filepath.IsAbs(c.Path):
		return errors.New("path is not absolute")
	case c.Dir != "" && goos == runtime.GOOS && !filepath.IsAbs(c.Dir):
		return errors.New("directory is not absolute")
	case strings.ContainsRune(c.Path+c.Dir, 0) || strings.ContainsRune(strings.Join(c.Args, ""), 0):
		return errors.New("NUL in an argument or path")
	case strings.ContainsAny(c.Mark, "=\x00"):
		return errors.New("mark is not a variable's name")
	case c.Mark != "" && !strings.HasSuffix(c.Mark, MarkSuffix):
		return errors.New("mark does not end in " + MarkSuffix)
	}
	for _, e := range c.Env {
		if i := strings.IndexByte(e, '='); i < 0 || i == 0 && goos != "windows" || strings.ContainsRune(e, 0) {
			return errors.New("environment entry is not NAME=value")
		}
	}
	if goos == "windows" {
		return checkWindows(c.Path)
	}
	return nil
}

// checkWindows accepts only real executables. cmd.exe runs batch files, and its
// quoting rules let an argument run commands. Windows also ignores dots and
// spaces at the end of a name, and a name without an extension can resolve to a
// batch file.
func checkWindows(path string) error {
	name := strings.ToLower(strings.TrimRight(path, ". "))
	if strings.HasSuffix(name, ".exe") || strings.HasSuffix(name, ".com") {
		return nil
	}
	return errors.New("not an .exe file")
}

// reasonOf classifies an error of a start. It checks the file system again,
// because one error number has several causes.
func reasonOf(c Command, err error) (Reason, error) {
	if _, ok := errors.AsType[*LimitsError](err); ok {
		return Unlimited, err
	}
	if c.Dir != "" && !usableDir(c.Dir) {
		return BadDir, err
	}
	switch {
	case ReasonOf(err) == NoResources:
		return NoResources, err
	case errors.Is(err, syscall.ENOEXEC):
		return BadFormat, err
	case errors.Is(err, fs.ErrNotExist):
		if _, err2 := os.Stat(c.Path); err2 == nil {
			return BadFormat, err // the interpreter of the script does not exist
		}
		return NotFound, err
	case errors.Is(err, syscall.ENOTDIR):
		return NotFound, err
	case errors.Is(err, fs.ErrPermission):
		return NotExecutable, err
	}
	return Failed, err
}

// ReasonOf classifies an error that does not concern the program: it returns
// NoResources or Failed.
func ReasonOf(err error) Reason {
	for _, none := range []syscall.Errno{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, none) {
			return NoResources
		}
	}
	return Failed
}

// program returns the base name of path, shortened and quoted for a message.
func program(path string) string {
	name, _ := text.Cut(filepath.Base(path), 64)
	if strings.IndexFunc(name, func(r rune) bool { return !strconv.IsGraphic(r) || r == '"' || r == ' ' }) >= 0 {
		return strconv.QuoteToASCII(name)
	}
	return name
}
