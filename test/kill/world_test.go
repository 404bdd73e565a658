//go:build linux

package kill

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/procinfo"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/internal/testapi"
	"github.com/runnel-dev/runnel/internal/testexec"
	"github.com/runnel-dev/runnel/internal/testload"
	"github.com/runnel-dev/runnel/internal/testprogram"
)

// updateDir is the folder into which update writes its program.
var updateDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "runnel-kill")
	if err != nil {
		panic(err)
	}
	updateDir = dir
	code := testprogram.Main(m)
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// update writes a file that differs from the program under test, as an update
// does, but runs the same code, and returns its path. The system ignores bytes
// after the end of a program.
var update = sync.OnceValues(func() (string, error) {
	program, err := testprogram.Build()
	if err != nil {
		return "", err
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return "", err
	}
	path := filepath.Join(updateDir, "update")
	return path, testexec.Write(path, append(content, "update"...))
})

// long reports whether to repeat tests often enough to hit rare races.
func long() bool { return os.Getenv("RUNNEL_LONG") != "" }

// rounds returns how many times to repeat something: often if long reports
// true, else seldom.
func rounds(often, seldom int) int {
	if long() {
		return often
	}
	return seldom
}

// world is the environment of one test: a home, a model, a data directory and,
// most of the time, a server with real agents.
type world struct {
	testapi.Server
	t      *testing.T
	agent  string // name of the agent's provider
	home   realagents.Home
	model  *fakemodel.Server
	bin    string // first directory in PATH
	data   string
	window string
	binary string
	begun  bool // if true, moments calls act only after every turn has a delta

	settings []string // further environment variables of the server

	mu     sync.Mutex
	cmd    *exec.Cmd
	stderr *bytes.Buffer
}

func newWorld(t *testing.T, window string) *world {
	t.Helper()
	return newWorldOf(t, "claude-code", window, filepath.Join(t.TempDir(), "data"))
}

// newFastWorld returns a world for tests of the server and its supervisors, in
// which the agent does not matter. Its sessions use Codex, which takes less
// processor time to start, or Claude Code with RUNNEL_LONG.
func newFastWorld(t *testing.T, window string) *world {
	t.Helper()
	return newFastWorldIn(t, window, filepath.Join(t.TempDir(), "data"))
}

func newFastWorldIn(t *testing.T, window, data string) *world {
	t.Helper()
	if long() {
		return newWorldOf(t, "claude-code", window, data)
	}
	return newWorldOf(t, "codex", window, data)
}

// newWorldOf returns a world whose sessions use the agent of the named
// provider.
func newWorldOf(t *testing.T, agent, window, data string) *world {
	t.Helper()
	program := realagents.Find(t, agent)
	model, err := fakemodel.Start(fakemodel.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = model.Close() })
	w := &world{
		Server: testapi.Server{T: t, Addr: testapi.FreeAddr(t)}, t: t, home: realagents.NewHome(t, model.URL()), model: model, bin: t.TempDir(), data: data,
		window: window, binary: testprogram.Path(t), agent: agent,
	}
	command := strings.TrimSuffix(agent, "-code") // the program's name in PATH
	if err := os.Symlink(program.Path, filepath.Join(w.bin, command)); err != nil {
		t.Fatal(err)
	}
	token := exec.Command(w.binary, "token", "create", "kill", "--scope", "read,send,approve", "--data", w.data)
	token.Env = w.environ()
	secret, err := token.Output()
	if err != nil {
		t.Fatalf("token create: %v", err)
	}
	w.Token = strings.TrimSpace(string(secret))
	t.Cleanup(w.end)
	return w
}

func (w *world) environ() []string {
	return append(append(w.home.EnvironFor(w.agent), w.settings...), "PATH="+w.bin+":"+os.Getenv("PATH"), "CLAUDE_CODE_MAX_RETRIES=1", "GORACE=atexit_sleep_ms=0")
}

// start starts the server and returns when it is ready for requests.
func (w *world) start() {
	w.t.Helper()
	if said := w.tryStart(); said != "" {
		w.t.Fatalf("the server does not start: %s", said)
	}
}

// refusesOrStarts starts the server on a full disk. If the server does not
// start, it must name the missing space as the reason.
func (w *world) refusesOrStarts() {
	w.t.Helper()
	if said := w.tryStart(); said != "" && !strings.Contains(said, "space") {
		w.t.Errorf("the server does not start, and says only: %s", said)
	}
}

// tryStart starts the server. It returns "", or what the server printed if it
// does not start.
func (w *world) tryStart() string {
	w.t.Helper()
	cmd := exec.Command(w.binary, "serve", "--listen", w.Addr, "--data", w.data, "--reattach-window", w.window, "--log-level", "info")
	cmd.Env = w.environ()
	stderr := new(bytes.Buffer)
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cmd, w.stderr = cmd, stderr
	if err != nil {
		_ = cmd.Wait()
		return line + stderr.String()
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the server
	return ""
}

// kill kills the server with SIGKILL.
func (w *world) kill() {
	w.t.Helper()
	if err := w.cmd.Process.Kill(); err != nil {
		w.t.Fatal(err)
	}
	_ = w.cmd.Wait()
	http.DefaultClient.CloseIdleConnections() // so that no prompt is sent on a dead connection
}

// stop stops the server with a signal and waits for its end.
func (w *world) stop(sig syscall.Signal) {
	w.t.Helper()
	if err := w.cmd.Process.Signal(sig); err != nil {
		w.t.Fatal(err)
	}
	if err := w.cmd.Wait(); err != nil {
		w.t.Errorf("serve: %v\n%s", err, w.stderr)
	}
	http.DefaultClient.CloseIdleConnections()
}

// end kills every process of the world. If the test failed, it logs what the
// last server printed.
func (w *world) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cmd != nil && w.cmd.ProcessState == nil {
		_ = w.cmd.Process.Kill()
		_ = w.cmd.Wait()
	}
	if w.t.Failed() && w.stderr != nil {
		w.t.Logf("the last server said:\n%s", w.stderr)
	}
	for range 100 { // an agent that is just starting may start another process meanwhile
		left := w.processes()
		if len(left) == 0 {
			break
		}
		for _, p := range left {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
}

// process is a process that belongs to the world.
type process struct {
	pid, ppid  int
	supervisor bool
	line       string
}

// processes returns the processes with the world's home in their environment,
// and the supervisors, which hide their environment. It leaves out the server.
func (w *world) processes() []process {
	var found []process
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		args := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
		session, ours := procinfo.SupervisedSession(args)
		ours = ours && w.isSession(session)
		environ, _ := os.ReadFile(filepath.Join(dir, "environ"))
		if !ours && !bytes.Contains(environ, []byte("HOME="+w.home.Dir)) {
			continue
		}
		if w.cmd != nil && pid == w.cmd.Process.Pid || pid == os.Getpid() {
			continue
		}
		st, err := procinfo.ReadStat(pid)
		if err != nil || st.Dead {
			continue
		}
		found = append(found, process{pid, st.Parent, ours, strings.Join(args, " ")})
	}
	return found
}

// isSession reports whether a session of the world has this id.
func (w *world) isSession(id string) bool {
	out, err := os.ReadDir(filepath.Join(w.data, "run"))
	if err != nil {
		return false
	}
	for _, e := range out {
		if strings.TrimSuffix(strings.TrimSuffix(e.Name(), ".sock"), ".json") == id {
			return true
		}
	}
	return false
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

// slack limits how much longer empty may wait on a loaded machine. It is far
// below the times after which leftover processes would end by themselves.
const slack = 10 * time.Second

// empty waits until no process of the world runs except its server. That must
// happen within the given time, which grows with the load of the machine.
func (w *world) empty(within time.Duration) {
	w.t.Helper()
	began := time.Now()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		left := w.processes()
		if len(left) == 0 {
			return
		}
		if took := time.Since(began); took > within && took > min(testload.Room(within), within+slack) {
			w.t.Errorf("still there after %v, want %v: %+v", took, within, left)
			return
		}
		<-tick.C
	}
}

// create creates a session with the world's agent and returns its id.
func (w *world) create() string {
	w.t.Helper()
	var made struct {
		SessionID string `json:"sessionId"`
		Error     any    `json:"error"`
	}
	if code, ok := w.Call("POST", "/api/session/create", map[string]any{"cliType": w.agent, "projectDir": w.home.Project}, &made); !ok || code != http.StatusCreated {
		w.t.Fatalf("create: %d %v", code, made.Error)
	}
	return made.SessionID
}
