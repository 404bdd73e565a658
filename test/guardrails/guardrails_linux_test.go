package guardrails

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/internal/testapi"
	"github.com/runnel-dev/runnel/internal/testexec"
	"github.com/runnel-dev/runnel/internal/testprogram"
)

// TestMain lets this test program be the attacker.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case attackRole:
			os.Exit(attack())
		case reachRole:
			os.Exit(reach(os.Args[2:]))
		case filesRole:
			os.Exit(attackFiles())
		case oldKernelRole:
			os.Exit(onOldKernel(os.Args[2:]))
		}
	}
	flag.Parse()
	if testing.Short() { // the cache of test results does not notice changes of the built program
		_ = flag.Set("test.run", "^$")
	}
	os.Exit(testprogram.Main(m))
}

// long reports whether to run the long tests.
func long() bool { return os.Getenv("RUNNEL_LONG") != "" }

// world is a server with one agent, a scripted model, and a user with secrets.
type world struct {
	testapi.Server
	t     *testing.T
	prog  testprogram.Server
	home  realagents.Home
	model *fakemodel.Server
	agent realagents.Binary
}

func newWorld(t *testing.T, agent realagents.Binary, flags ...string) *world {
	t.Helper()
	return newKeyedWorld(t, agent, "dummy", flags...)
}

// newKeyedWorld is newWorld with an API key in the server's environment.
func newKeyedWorld(t *testing.T, agent realagents.Binary, key string, flags ...string) *world {
	t.Helper()
	model, err := fakemodel.Start(fakemodel.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = model.Close() })
	w := &world{t: t, home: realagents.NewHome(t, model.URL()), model: model, agent: agent}
	bin := t.TempDir()
	if err := os.Symlink(agent.Path, filepath.Join(bin, strings.TrimSuffix(agent.Name, "-code"))); err != nil {
		t.Fatal(err)
	}
	w.prog = testprogram.Server{
		Home: w.home.Dir, Data: filepath.Join(w.home.Dir, "..", "data"), Args: flags,
		Env: append(w.home.EnvironFor(agent.Name), "PATH="+bin+":"+os.Getenv("PATH"), "CLAUDE_CODE_MAX_RETRIES=1"),
	}
	for i, e := range w.prog.Env {
		if name, ok := strings.CutSuffix(e, "=dummy"); ok {
			w.prog.Env[i] = name + "=" + key
		}
	}
	w.start()
	return w
}

func (w *world) start() {
	w.t.Helper()
	token := w.Token
	if token == "" {
		token = w.prog.Token(w.t, "read,send,approve")
	}
	w.prog.Start(w.t)
	w.Server = testapi.Server{T: w.t, Addr: strings.TrimPrefix(w.prog.API, "http://"), Token: token}
}

// port returns the port of a URL or an address.
func port(at string) string { return at[strings.LastIndex(at, ":")+1:] }

// create creates a session with these options.
func (w *world) create(options map[string]any) (id string, code int, message string) {
	w.t.Helper()
	var s struct {
		SessionID string `json:"sessionId"`
		Error     struct{ Code, Message string }
	}
	code, _ = w.Call("POST", "/api/session/create", map[string]any{"cliType": w.agent.Name, "projectDir": w.home.Project, "options": options}, &s)
	return s.SessionID, code, s.Error.Code + ": " + s.Error.Message
}

// enclosed creates a session in a sandbox that reaches the scripted model.
func (w *world) enclosed(allow ...string) string {
	w.t.Helper()
	id, code, message := w.create(map[string]any{"sandbox": "project", "egress": map[string]any{"allow": append(allow, "localhost:"+port(w.model.URL()))}})
	if code != http.StatusCreated {
		w.t.Fatalf("create: %d %s", code, message)
	}
	return id
}

// tool runs a command as a tool of the agent, and returns the events of the
// turn.
func (w *world) tool(session, command string) []event.Event {
	w.t.Helper()
	c := w.Follow(session)
	defer c.Leave()
	tools := realagents.ToolsetOf(w.agent.Name)
	turn := c.Send(fakemodel.Scenario{Steps: []fakemodel.Step{{Blocks: []fakemodel.Block{tools.Shell(command)}}, {Text: "done"}}}.Prompt("Go."))
	if end := c.End(turn); !isDone(end) {
		w.t.Errorf("the turn ended with %+v", end.Body)
	}
	return c.Events
}

func isDone(ev event.Event) bool { _, ok := ev.Body.(event.ResponseDone); return ok }

// each runs a test with these agents, and with all agents that can run in a
// sandbox if the tests are long.
func each(t *testing.T, f func(*testing.T, realagents.Binary), names ...string) {
	if long() {
		names = []string{"claude-code", "codex", "gemini", "qwen", "opencode"}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			if name == "claude-code" {
				f(t, realagents.Claude(t)[0])
				return
			}
			f(t, realagents.Find(t, name))
		})
	}
}

// TestHostileToolReachesNothing runs a program as a tool that tries to read and
// write outside of the sandbox, and to reach hosts, sockets and processes.
func TestHostileToolReachesNothing(t *testing.T) {
	each(t, func(t *testing.T, agent realagents.Binary) {
		w := newWorld(t, agent)
		home := w.home.Dir
		secrets := map[string]string{
			filepath.Join(home, ".ssh", "id_ed25519"): "secret", filepath.Join(home, ".aws", "credentials"): "secret",
			filepath.Join(home, "other", "file"): "secret", filepath.Join(w.prog.Data, "secret"): "secret",
			filepath.Join(home, ".config", "runnel", "config.yaml"): "# secret\n", filepath.Join(home, ".bashrc"): "secret",
		}
		var to targets
		for path, text := range secrets {
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			to.Read = append(to.Read, path)
			if filepath.Dir(path) != home { // the home directory in the sandbox is another one
				to.Write = append(to.Write, path)
			}
		}
		git := exec.Command("git", "init", "-q", w.home.Project)
		if out, err := git.CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		config, err := os.ReadFile(filepath.Join(w.home.Project, ".git/config"))
		if err != nil {
			t.Fatal(err)
		}
		to.Read = append(to.Read, filepath.Join(w.prog.Data, "runnel.db"), "/etc/shadow", "/etc/gshadow", fmt.Sprintf("/proc/%d/environ", w.prog.PID))
		to.Write = append(to.Write, filepath.Join(w.home.Project, ".git/hooks/post-checkout"), filepath.Join(w.home.Project, ".git/config"), "/usr/attacked", "/etc/attacked", "/attacked")
		to.Write = append(to.Write, w.settings()...)
		udp := w.listen(&to)
		to.Pid = w.prog.PID
		to.Allowed = "127.0.0.1:" + port(w.model.URL())
		w.place(to)

		session := w.enclosed()
		events := w.tool(session, "./attacker "+attackRole)
		report := w.report(events)
		for name, got := range report {
			if !strings.HasPrefix(name, "allowed") {
				t.Errorf("the attacker could %s: %q", name, got)
			}
		}
		for _, name := range []string{"allowed by the proxy", "allowed directly"} {
			if _, ok := report[name]; !ok {
				t.Errorf("not %s", name)
			}
		}
		for path, text := range secrets {
			if got, err := os.ReadFile(path); err != nil || string(got) != text {
				t.Errorf("%s is now %q, %v", path, got, err)
			}
		}
		if got, err := os.ReadFile(filepath.Join(w.home.Project, ".git/config")); err != nil || string(got) != string(config) {
			t.Errorf(".git/config is now %q, %v", got, err)
		}
		if n := udp(); n > 0 {
			t.Errorf("%d packets have arrived", n)
		}
		w.checkRecord(session, to)
	}, "claude-code", "codex")
}

// settings returns files of the agent itself whose content would run outside of
// the sandbox.
func (w *world) settings() []string {
	switch w.agent.Name {
	case "claude-code":
		path := filepath.Join(w.home.Config, "settings.json")
		if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
			w.t.Fatal(err)
		}
		return []string{path}
	case "codex":
		return []string{filepath.Join(w.home.Codex, "config.toml")}
	}
	return nil
}

// listen opens sockets that the attacker must not reach, and adds them to its
// targets. It returns a function that returns how many packets have arrived.
func (w *world) listen(to *targets) (packets func() int) {
	t := w.t
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	at := server.Listener.Addr().String()
	to.TCP = []string{at, w.Addr}
	to.Blocked = []string{at, w.Addr, "localhost:" + port(w.Addr), "example.com:443", "169.254.169.254:80", "10.0.0.1:443"}
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	to.UDP = udp.LocalAddr().String()
	for _, name := range []string{filepath.Join(w.home.Dir, "daemon.sock"), fmt.Sprintf("@runnel-test-%d", os.Getpid())} {
		ln, err := net.Listen("unix", name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ln.Close() })
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				_, _ = c.Write([]byte("reached"))
				c.Close()
			}
		}()
		to.Unix = append(to.Unix, name)
	}
	to.Unix = append(to.Unix, filepath.Join(w.prog.Data, "api.sock"))
	arrived := make(chan int)
	go func() {
		n := 0
		for buf := make([]byte, 100); ; n++ {
			if _, _, err := udp.ReadFrom(buf); err != nil {
				arrived <- n
				return
			}
		}
	}()
	return func() int {
		udp.Close()
		return <-arrived
	}
}

// place writes the attacker and its targets into the project.
func (w *world) place(to targets) {
	self, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	data, err := os.ReadFile(self)
	if err == nil {
		err = testexec.Write(filepath.Join(w.home.Project, "attacker"), data)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	text, err := json.Marshal(to)
	if err == nil {
		err = os.WriteFile(filepath.Join(w.home.Project, targetsFile), text, 0o600)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// report returns what the attacker could do.
func (w *world) report(events []event.Event) (out map[string]string) {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.home.Project, reportFile))
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		text, _ := json.Marshal(events)
		w.t.Fatalf("the attacker did not run to its end: %v\n%s", err, text)
	}
	return out
}

// checkRecord compares the record of the session's egress with what the
// attacker tried.
func (w *world) checkRecord(session string, to targets) {
	w.t.Helper()
	var record struct{ Attempts []runnel.EgressAttempt }
	if code, _ := w.Call("GET", "/api/session/"+session+"/egress", nil, &record); code != http.StatusOK {
		w.t.Fatalf("egress: %d", code)
	}
	for _, at := range to.Blocked {
		if !slices.ContainsFunc(record.Attempts, func(a runnel.EgressAttempt) bool {
			return a.By == "" && a.Why != "" && net.JoinHostPort(a.Host, fmt.Sprint(a.Port)) == at
		}) {
			w.t.Errorf("the blocked attempt to reach %s is not recorded: %+v", at, record.Attempts)
		}
	}
	if !slices.ContainsFunc(record.Attempts, func(a runnel.EgressAttempt) bool {
		return a.By == "egress.allow: localhost:"+port(w.model.URL()) && a.Sent > 0 && a.Received > 0
	}) {
		w.t.Errorf("the connection to the model is not recorded: %+v", record.Attempts)
	}
	if out := w.prog.Command(w.t, "egress", session); !strings.Contains(out, "example.com:443") || !strings.Contains(out, "blocked") {
		w.t.Errorf("runnel egress printed\n%s", out)
	}
}
