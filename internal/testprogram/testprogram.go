//go:build unix

// Package testprogram builds the runnel program once for the tests of a
// package, unless RUNNEL_BIN names one, and starts servers from it, each with
// its own home and data directory.
package testprogram

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
)

var directory string // holds the built program; removed by Main

// Main runs the tests of a package and removes the program that they built.
// TestMain must call it and exit with the exit code that it returns.
func Main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "runnel-program")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	directory = dir
	defer func() { _ = os.RemoveAll(dir) }()
	return m.Run()
}

// Build returns the path of the program. If RUNNEL_BIN is set, it is that
// absolute path. Otherwise the first call builds the program.
var Build = sync.OnceValues(func() (string, error) {
	if built := os.Getenv("RUNNEL_BIN"); built != "" {
		return built, nil
	}
	if directory == "" {
		return "", fmt.Errorf("testprogram: TestMain does not call Main")
	}
	program := filepath.Join(directory, "runnel")
	out, err := exec.Command("go", "build", "-o", program, "github.com/runnel-dev/runnel/cmd/runnel").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return program, nil
})

// Path is Build for tests: it fails the test at once if Build fails.
func Path(t testing.TB) string {
	t.Helper()
	program, err := Build()
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// A Server is a `runnel serve` process. Callers may set Home, Data, Env and
// Args before Start. A zero value means the default in the field's comment.
type Server struct {
	Home string   // home directory; default: a new directory
	Data string   // data directory; default: "data" in a new directory
	Env  []string // environment of the server and its agents; default: HOME and a PATH without agents
	Args []string // further arguments of serve

	API   string // address of the API, with scheme
	Page  string // origin of the page
	Login string // link that logs one browser in
	PID   int

	program string
	cmd     *exec.Cmd
	stderr  bytes.Buffer
	drained chan struct{} // closed when the server has closed its stdout
	stop    func()
}

var (
	apiAddress = regexp.MustCompile(`its API is at (https?://\S+)`)
	loginLink  = regexp.MustCompile(`(https?://\S+)/#c=\S+`)
)

// Start starts the server and returns when it has printed its login link. The
// server stops when the test ends.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	s.prepare(t)
	s.cmd = exec.Command(s.program, append([]string{"serve", "--listen", "127.0.0.1:0", "--data", s.Data}, s.Args...)...)
	s.cmd.Env, s.cmd.Stderr = s.Env, &s.stderr
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.PID, s.drained = s.cmd.Process.Pid, make(chan struct{})
	s.stop = sync.OnceFunc(func() { s.end(t) })
	t.Cleanup(s.Stop)
	lines := bufio.NewReader(stdout)
	if !s.readAddresses(lines) {
		close(s.drained)
		s.Stop()
		t.Fatalf("the server did not start: %s", s.stderr.String())
	}
	go func() {
		defer close(s.drained)
		_, _ = io.Copy(io.Discard, lines)
	}()
}

// prepare sets the defaults of fields that the caller did not set.
func (s *Server) prepare(t testing.TB) {
	t.Helper()
	s.program = Path(t)
	if s.Home == "" {
		s.Home = t.TempDir()
	}
	if s.Data == "" {
		s.Data = filepath.Join(t.TempDir(), "data")
	}
	if s.Env == nil {
		s.Env = []string{"HOME=" + s.Home, "PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8"}
	}
}

// readAddresses reads the server's output up to the login link. It returns
// false if the output ends before the link.
func (s *Server) readAddresses(lines *bufio.Reader) bool {
	for {
		line, err := lines.ReadString('\n')
		if m := apiAddress.FindStringSubmatch(line); m != nil {
			s.API = m[1]
		}
		if m := loginLink.FindStringSubmatch(line); m != nil {
			s.Login, s.Page = strings.TrimSpace(m[0]), m[1]
			return true
		}
		if err != nil {
			return false
		}
	}
}

// Stop stops the server with SIGTERM and fails the test if its exit code is not
// zero. A second call does nothing.
func (s *Server) Stop() { s.stop() }

func (s *Server) end(t testing.TB) {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	<-s.drained
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("serve: %v\n%s", err, s.stderr.String())
	}
}

// Kill kills the server with SIGKILL and waits until it has ended.
func (s *Server) Kill() {
	s.stop = func() {}
	_ = s.cmd.Process.Kill()
	<-s.drained
	_ = s.cmd.Wait()
}

// Stderr returns what the server has printed to stderr. Call it after Stop or
// Kill only.
func (s *Server) Stderr() string { return s.stderr.String() }

// Command runs the program with the server's environment and data directory and
// returns its stdout without the last newline.
func (s *Server) Command(t testing.TB, args ...string) string {
	t.Helper()
	s.prepare(t)
	cmd := exec.Command(s.program, append(args, "--data", s.Data)...)
	var stderr bytes.Buffer
	cmd.Env, cmd.Stderr = s.Env, &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("runnel %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSuffix(string(out), "\n")
}

// Token creates a token with the scopes, which are separated by commas. Flags
// such as --project may follow.
func (s *Server) Token(t testing.TB, scopes string, flags ...string) string {
	t.Helper()
	return s.Command(t, append([]string{"token", "create", "test", "--scope", scopes}, flags...)...)
}
