//go:build linux

package hostile

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/internal/procinfo"
	"github.com/runnel-dev/runnel/internal/testapi"
	"github.com/runnel-dev/runnel/internal/testexec"
	"github.com/runnel-dev/runnel/internal/testload"
)

// world is the environment of one test: a user with a home, a data directory, a
// server, and agents that this test binary plays.
type world struct {
	testapi.Server
	t        *testing.T
	user     *syscall.Credential // nil: the user who runs the test
	dir      string
	data     string
	project  string
	window   string
	flags    []string
	under    []string // the command, with arguments, that runs the program; nil: none
	path     string   // first directories of PATH; "" for none
	sessions []string
	group    *os.File              // cgroup of the world's server, or nil
	others   map[string]procFolder // by path, of the processes that ran before the world and are not its own

	mu     sync.Mutex
	cmd    *exec.Cmd
	stderr *output
}

// output collects what a server prints. Goroutines may use it in parallel.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// stranger is an ordinary user without a name.
var stranger = &syscall.Credential{Uid: 54321, Gid: 54321}

func newWorld(t *testing.T, user *syscall.Credential, window string) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "runnel-world")
	if err != nil {
		t.Fatal(err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	w := &world{
		Server: testapi.Server{T: t, Addr: testapi.FreeAddr(t)}, t: t, user: user, dir: dir, data: filepath.Join(dir, "data"), project: filepath.Join(dir, "project"), window: window,
	}
	t.Cleanup(w.end)
	w.others = w.foreign()
	for _, d := range []string{dir, w.project, filepath.Join(dir, "bin"), filepath.Join(dir, "other")} {
		if err := os.Mkdir(d, 0o700); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
		w.own(d)
	}
	w.placeAgent()
	w.Token = w.runnel("token", "create", "client", "--scope", "read,send,approve", "--data", w.data)
	return w
}

// placeAgent links a copy of this test binary, which belongs to the world's user,
// to the path of the agent's program. All worlds of a user share the copy: writing
// one for each would take longer than the link.
func (w *world) placeAgent() {
	w.t.Helper()
	shared := filepath.Join(filepath.Dir(program), "agent")
	if w.user != nil {
		shared += fmt.Sprint("-", w.user.Uid)
	}
	if _, err := os.Stat(shared); err != nil {
		self, err := os.Executable()
		if err != nil {
			w.t.Fatal(err)
		}
		copyFile(w.t, self, shared)
		w.own(shared)
	}
	if err := os.Link(shared, w.agent()); err != nil {
		w.t.Fatal(err)
	}
}

// own gives a file to the world's user.
func (w *world) own(path string) {
	if w.user == nil {
		return
	}
	if err := os.Chown(path, int(w.user.Uid), int(w.user.Gid)); err != nil {
		w.t.Fatal(err)
	}
}

// agent returns the path of the agent's program, which is also the program of
// its tools.
func (w *world) agent() string { return filepath.Join(w.dir, "bin", "claude") }

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = testexec.Write(to, b)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// command returns a command that runs the program as the world's user.
func (w *world) command(args ...string) *exec.Cmd {
	line := slices.Concat(w.under, []string{program}, args)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Dir = w.dir
	path := filepath.Dir(w.agent()) + ":/usr/local/bin:/usr/bin:/bin"
	if w.path != "" {
		path = w.path + ":" + path
	}
	cmd.Env = []string{"HOME=" + w.dir, "PATH=" + path, "TMPDIR=" + w.dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: w.user}
	return cmd
}

// runnel runs the program's command line to its end and returns what it prints.
func (w *world) runnel(args ...string) string {
	w.t.Helper()
	cmd := w.command(args...)
	cmd.Stderr = new(bytes.Buffer)
	out, err := cmd.Output()
	if err != nil {
		w.t.Fatalf("%v: %v %s", args, err, cmd.Stderr)
	}
	return strings.TrimSpace(string(out))
}

// start starts the server and returns when it is ready for requests.
func (w *world) start() {
	w.t.Helper()
	cmd := w.command(append([]string{"serve", "--listen", w.Addr, "--data", w.data, "--reattach-window=" + w.window, "--log-level", "info"}, w.flags...)...)
	if w.group != nil {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(w.group.Fd())
	}
	stderr := new(output)
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	w.cmd, w.stderr = cmd, stderr
	w.mu.Unlock()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = cmd.Wait()
		w.t.Fatalf("the server does not start: %q %s", line, stderr)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the server
}

// kill kills the server with SIGKILL.
func (w *world) kill() {
	_ = w.cmd.Process.Kill()
	_ = w.cmd.Wait()
	http.DefaultClient.CloseIdleConnections() // so that no prompt is sent on a dead connection
}

// stop stops the server with an interrupt and waits for its end.
func (w *world) stop() {
	w.t.Helper()
	if err := w.cmd.Process.Signal(os.Interrupt); err != nil {
		w.t.Fatal(err)
	}
	if err := w.cmd.Wait(); err != nil {
		w.t.Errorf("serve: %v\n%s", err, w.stderr)
	}
	http.DefaultClient.CloseIdleConnections()
}

// says waits until the server has logged a text this many times. It returns
// false if that does not happen. The log arrives through a pipe, a little later
// than the responses.
func (w *world) says(what string, times int) bool {
	w.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < testapi.Timeout; <-tick.C {
		if strings.Count(w.stderr.String(), what) >= times {
			return true
		}
	}
	return false
}

// end kills every process of the world and removes its files. If the test
// failed, it logs what the last server printed.
func (w *world) end() {
	if w.cmd != nil && w.cmd.ProcessState == nil {
		w.kill()
	}
	if w.t.Failed() && w.stderr != nil {
		said := w.stderr.String()
		w.t.Logf("the last server said:\n%s", said[max(0, len(said)-4000):])
	}
	for range 100 { // processes that fork all the time may escape the first rounds
		left := w.processes()
		if len(left) == 0 {
			break
		}
		for _, p := range left {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
	_ = os.RemoveAll(w.dir)
}

// process is a process that belongs to the world.
type process struct {
	pid        int
	supervisor bool
	line       string
}

// procFolder identifies a folder in /proc, and so its process: the kernel makes
// another folder for another process with the same id.
type procFolder struct {
	inode   uint64
	created syscall.Timespec
}

func procFolderOf(dir string) (f procFolder, ok bool) {
	var st syscall.Stat_t
	if syscall.Stat(dir, &st) != nil {
		return f, false
	}
	return procFolder{st.Ino, st.Ctim}, true
}

// foreign returns the folders of the processes that run now and do not belong to
// the world.
func (w *world) foreign() map[string]procFolder {
	found := make(map[string]procFolder)
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if f, ok := procFolderOf(dir); ok && !w.has(dir, process{}) {
			found[dir] = f
		}
	}
	return found
}

// processes returns the processes of the world, without its server: all
// processes of the world's user. If that is the user who runs the test, it
// returns the processes that run from, work in or name the world's folder, and
// the supervisors of the world's sessions.
func (w *world) processes() []process {
	var found []process
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if w.cmd != nil && w.cmd.Process != nil && pid == w.cmd.Process.Pid || pid == os.Getpid() {
			continue
		}
		if f, ok := procFolderOf(dir); ok && f == w.others[dir] {
			continue // without a look at its status, which the kernel writes slowly
		}
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		args := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
		session, supervisor := procinfo.SupervisedSession(args)
		p := process{pid, supervisor && slices.Contains(w.sessions, session), strings.Join(args, " ")}
		if !w.has(dir, p) {
			continue
		}
		if st, err := procinfo.ReadStat(pid); err == nil && !st.Dead {
			found = append(found, p)
		}
	}
	return found
}

func (w *world) has(dir string, p process) bool {
	if w.user != nil {
		var st syscall.Stat_t
		status, err := os.ReadFile(filepath.Join(dir, "status")) // not the owner of dir, which is root if the process hides itself
		if err != nil || syscall.Stat(dir, &st) != nil {
			return false
		}
		_, rest, _ := bytes.Cut(status, []byte("\nUid:\t"))
		return bytes.HasPrefix(rest, []byte(strconv.Itoa(int(w.user.Uid))+"\t"))
	}
	exe, _ := os.Readlink(filepath.Join(dir, "exe"))
	cwd, _ := os.Readlink(filepath.Join(dir, "cwd"))
	return p.supervisor || strings.HasPrefix(exe, w.dir) || strings.HasPrefix(cwd, w.dir) || strings.Contains(p.line, w.dir)
}

// supervisors returns the process ids of the supervisors.
func (w *world) supervisors() []int {
	var pids []int
	for _, p := range w.processes() {
		if p.supervisor {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// slack limits how much longer empty may wait on a loaded machine.
const slack = 10 * time.Second

// empty waits until no process of the world runs except its server, and returns
// how long that took. It must happen within the given time, which grows with
// the load of the machine.
func (w *world) empty(within time.Duration) time.Duration {
	w.t.Helper()
	began := time.Now()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for clean, gone := 0, time.Duration(0); ; <-tick.C {
		left := w.processes()
		if len(left) > 0 {
			clean = 0
		} else if clean++; clean == 1 {
			gone = time.Since(began)
		} else if clean == 5 { // a process that forks all the time may be missed once
			return gone
		}
		if took := time.Since(began); took > within && took > min(testload.Room(within), within+slack) {
			w.t.Errorf("still there after %v, want %v: %d, such as %+v", took, within, len(left), left[:min(5, len(left))])
			return took
		}
	}
}

type problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// create creates a session in the world's project and returns its id.
func (w *world) create() string {
	w.t.Helper()
	var made struct {
		SessionID string  `json:"sessionId"`
		Error     problem `json:"error"`
	}
	if code, ok := w.Call("POST", "/api/session/create", object{"cliType": "claude", "projectDir": w.project}, &made); !ok || code != http.StatusCreated {
		w.t.Fatalf("create: %d %+v", code, made.Error)
	}
	w.knows(made.SessionID)
	return made.SessionID
}

// knows makes a session one of the world, so that its processes end with the
// world. A refused session has no id, and nor have the supervisors of programs
// that use the library.
func (w *world) knows(session string) {
	if session != "" {
		w.sessions = append(w.sessions, session)
	}
}

// rss returns the resident memory of a process and its proportional share (RSS
// and PSS), in KiB.
func rss(pid int) (resident, share int) {
	field := func(file, name string) (n int) {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		for line := range strings.Lines(string(b)) {
			if rest, ok := strings.CutPrefix(line, name+":"); ok {
				_, _ = fmt.Sscan(rest, &n)
			}
		}
		return n
	}
	return field("status", "VmRSS"), field("smaps_rollup", "Pss")
}
