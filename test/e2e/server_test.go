//go:build unix

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/internal/testprogram"
)

// waitTimeout bounds every wait for the server or an agent.
const waitTimeout = 90 * time.Second

// overTLS makes every server of the suite use TLS, and every client use HTTP/2
// except on the WebSocket.
var overTLS = os.Getenv("RUNNEL_TLS") == "1"

func TestMain(m *testing.M) { os.Exit(testprogram.Main(m)) }

// build returns the path of the program under test.
var build = testprogram.Build

// server is a running `runnel serve` with a real agent on its PATH.
type server struct {
	t     *testing.T
	url   string
	page  string // origin of the page
	login string // link that logs in one browser
	token string
	home  realagents.Home
	model *fakemodel.Server
	agent string // name of the agent's provider
	pid   int
	env   []string // environment of the server and the agents
	data  string   // data directory of the server
	cmd   *exec.Cmd
	said  *bytes.Buffer // stderr of the server
	keys  *keyPair      // nil without TLS
}

var (
	apiAt = regexp.MustCompile(`its API is at (https?://\S+)`)
	link  = regexp.MustCompile(`(https?://\S+)/#c=\S+`)
)

func serve(t *testing.T, agent realagents.Binary, others ...realagents.Binary) *server {
	t.Helper()
	s := prepare(t, agent, others...)
	binary, err := build()
	if err != nil {
		t.Fatal(err)
	}
	s.start(binary)
	t.Cleanup(s.stop)
	return s
}

// prepare returns a server that has not been started, with its own home, model
// and token. Others are further agents in its PATH.
func prepare(t *testing.T, agent realagents.Binary, others ...realagents.Binary) *server {
	t.Helper()
	binary, err := build()
	if err != nil {
		t.Fatal(err)
	}
	model, err := fakemodel.Start(fakemodel.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = model.Close() })
	home := realagents.NewHome(t, model.URL())
	bin, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
	for _, a := range append(others, agent) {
		command := strings.TrimSuffix(a.Name, "-code") // the program's name in PATH
		if err := os.Symlink(a.Path, filepath.Join(bin, command)); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
	}
	env := append(home.EnvironFor(agent.Name), "PATH="+bin+":"+os.Getenv("PATH"), "CLAUDE_CODE_MAX_RETRIES=1")
	token := exec.Command(binary, "token", "create", "e2e", "--scope", "read,send,approve", "--data", data)
	token.Env = env
	secret, err := token.Output()
	if err != nil {
		t.Fatalf("token create: %v", err)
	}
	s := &server{t: t, token: strings.TrimSpace(string(secret)), home: home, model: model, agent: agent.Name, env: env, data: data}
	if overTLS {
		s.keys = newKeyPair(t)
	}
	return s
}

// start starts the server's process and returns when the server has printed its
// addresses.
func (s *server) start(binary string) {
	s.t.Helper()
	flags := []string{"serve", "--listen", "127.0.0.1:0", "--data", s.data}
	if s.keys != nil {
		flags = append(flags, "--tls-cert", s.keys.cert, "--tls-key", s.keys.key)
	}
	s.cmd, s.said = exec.Command(binary, flags...), new(bytes.Buffer)
	s.cmd.Env, s.cmd.Stderr = s.env, s.said
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.pid, s.login = s.cmd.Process.Pid, ""
	lines := bufio.NewReader(out)
	for s.login == "" {
		line, err := lines.ReadString('\n')
		if m := apiAt.FindStringSubmatch(line); m != nil {
			s.url = m[1]
		} else if m := link.FindStringSubmatch(line); m != nil {
			s.login, s.page = m[0], m[1]
		} else if err != nil {
			s.t.Fatalf("the server does not start: %s", s.said.String())
		}
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }() // ends with the server
}

// stop stops the server with SIGTERM, as a service manager does.
func (s *server) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("serve: %v\n%s", err, s.said.String())
	}
}

// launch starts a server that is not running.
func (s *server) launch() {
	s.t.Helper()
	binary, err := build()
	if err != nil {
		s.t.Fatal(err)
	}
	s.start(binary)
}

// crash kills the server, as the system does when it is out of memory.
func (s *server) crash() {
	s.t.Helper()
	if err := syscall.Kill(s.pid, syscall.SIGKILL); err != nil {
		s.t.Fatal(err)
	}
	_ = s.cmd.Wait()
}

// restart stops the server and starts it again with the same data directory.
func (s *server) restart() {
	s.t.Helper()
	s.stop()
	s.launch()
}

func (s *server) on(t *testing.T) *server {
	c := *s
	c.t = t
	return &c
}

// call sends a request and decodes the answer into out, if that is not nil.
func (s *server) call(method, path string, body, out any) int {
	s.t.Helper()
	res := s.do(s.t.Context(), method, path, body)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if out != nil {
		if err := json.Unmarshal(data, out); err != nil {
			s.t.Fatalf("%s %s: %d %s", method, path, res.StatusCode, data)
		}
	}
	return res.StatusCode
}

func (s *server) do(ctx context.Context, method, path string, body any) *http.Response {
	s.t.Helper()
	return s.keyed(ctx, method, path, "", body)
}

// keyed sends a request with this Idempotency-Key; "" sends none.
func (s *server) keyed(ctx context.Context, method, path, key string, body any) *http.Response {
	s.t.Helper()
	var r io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			s.t.Fatal(err)
		}
		r = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, r)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	client := http.DefaultClient
	if s.keys != nil {
		client = s.keys.http2
	}
	res, err := client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	if s.keys != nil && res.ProtoMajor != 2 {
		s.t.Fatalf("%s %s: %s, want HTTP/2", method, path, res.Proto)
	}
	return res
}

// webSocketClient returns the HTTP client for WebSockets, which use HTTP/1.1;
// nil means the default client.
func (s *server) webSocketClient() *http.Client {
	if s.keys == nil {
		return nil
	}
	return s.keys.http1
}

// create creates a session in the project directory and returns its id.
func (s *server) create() string {
	s.t.Helper()
	var made struct {
		SessionID string `json:"sessionId"`
		Error     any    `json:"error"`
	}
	code := s.call("POST", "/api/session/create", map[string]any{"cliType": s.agent, "projectDir": s.home.Project}, &made)
	if code != http.StatusCreated {
		s.t.Fatalf("create: %d %v", code, made.Error)
	}
	return made.SessionID
}

// killAgents kills the server's child processes, as the system would when it is
// out of memory. These are the supervisors, and their agents end with them.
func (s *server) killAgents() {
	s.t.Helper()
	killed := 0
	entries, err := os.ReadDir("/proc")
	if err != nil {
		s.t.Skip("processes are looked up in /proc")
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if fields[1] == fmt.Sprint(s.pid) && syscall.Kill(pid, syscall.SIGKILL) == nil {
			killed++
		}
	}
	if killed == 0 {
		s.t.Fatal("the server runs no agent")
	}
}
