package guardrails

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/procinfo"
	"github.com/runnel-dev/runnel/internal/realagents"
)

// brokered are the options of a session whose agent has a placeholder.
func (w *world) brokered(sandbox string) map[string]any {
	options := map[string]any{"keys": "broker", "sandbox": sandbox}
	if sandbox == "project" {
		options["egress"] = map[string]any{"allow": []string{}}
	}
	return options
}

// eachBroker runs a test with agents that can have a broker.
func eachBroker(t *testing.T, f func(*testing.T, realagents.Binary)) {
	names := []string{"claude-code", "codex", "gemini"}
	if long() {
		names = append(names, "qwen", "claude-agent-acp")
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

func newKey() string { return "sk-real-" + rand.Text() + rand.Text() }

// TestBrokerKeepsKeyFromAgent searches for the API key while a tool runs: in the
// memory, the environment, the arguments and the open files of the agent and of
// every process below it, and in every file that they could have written. With
// keys: agent the search finds the key, so it can find it.
func TestBrokerKeepsKeyFromAgent(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root reads the memory of every process")
	}
	eachBroker(t, func(t *testing.T, agent realagents.Binary) {
		key := newKey()
		w := newKeyedWorld(t, agent, key)
		boxes := []string{"off", "project"}
		if agent.Name == "claude-agent-acp" || agent.Name == "gemini" && !long() {
			boxes = boxes[:1] // one cannot run in a sandbox, and the other starts slowly
		}
		for _, sandbox := range boxes {
			if found := w.search(w.brokered(sandbox), key); len(found) > 0 {
				t.Errorf("sandbox %s: the key is in %s", sandbox, strings.Join(found, "\n"))
			}
			w.reached(key)
		}
		if agent.Name != "gemini" || long() { // the search is the same for every agent
			if found := w.search(map[string]any{"keys": "agent"}, key); len(found) == 0 {
				t.Error("the search does not find the key of an agent that has it")
			}
		}
		w.prog.Stop()
		if strings.Contains(w.prog.Stderr(), key) {
			t.Error("the server's log has the key")
		}
	})
}

// search starts a session, searches for the key while a tool of the agent runs,
// ends the turn, and searches the files.
func (w *world) search(options map[string]any, key string) (found []string) {
	w.t.Helper()
	session, code, message := w.create(options)
	if code != http.StatusCreated {
		w.t.Fatalf("create: %d %s", code, message)
	}
	c := w.Follow(session)
	defer c.Leave()
	turn, release := w.blocked(c, "env")
	if n := len(descendants(w.t, w.prog.PID)); n < 3 { // the supervisor, the agent and its tool
		w.t.Errorf("only %d processes are below the server", n)
	}
	found = searchProcesses(w.t, w.prog.PID, key)
	release()
	if end := c.End(turn); !isDone(end) {
		w.t.Errorf("the turn ended with %+v", end.Body)
	}
	found = append(found, searchProcesses(w.t, w.prog.PID, key)...)
	found = append(found, searchFiles(w.t, filepath.Dir(w.home.Dir), key)...)
	log, _ := json.Marshal(c.Events)
	if bytes.Contains(log, []byte(key)) {
		w.t.Error("the session's log has the key")
	}
	w.Call("POST", "/api/session/"+session+"/kill", struct{}{}, nil)
	return found
}

// Claude Code stores the key of a login with an account of the API in
// .claude.json, and the MCP servers and the newest conversation of each project.
// An agent in a sandbox has a copy of the file.
func TestSandboxLacksSettingsOfOtherProjects(t *testing.T) {
	w := newKeyedWorld(t, realagents.Claude(t)[0], newKey())
	login, other := newKey(), newKey()
	path := filepath.Join(w.home.Config, ".claude.json")
	settings := map[string]any{}
	if data, err := os.ReadFile(path); err == nil {
		if err := json.Unmarshal(data, &settings); err != nil {
			t.Fatal(err)
		}
	}
	settings["primaryApiKey"], settings["kept"] = login, "kept-setting"
	settings["projects"] = map[string]any{filepath.Join(w.home.Dir, "other"): map[string]any{"mcpServers": map[string]any{"x": map[string]any{"command": "x", "env": map[string]any{"TOKEN": other}}}}}
	data, err := json.Marshal(settings)
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, options := range []map[string]any{w.brokered("project"), w.brokered("files"), {"sandbox": "files"}} {
		session, code, message := w.create(options)
		if code != http.StatusCreated {
			t.Fatalf("%v: create: %d %s", options, code, message)
		}
		log, _ := json.Marshal(w.tool(session, `rev "$CLAUDE_CONFIG_DIR/.claude.json"`)) // the log would lack the key itself
		if !has(log, reversed("kept-setting")) {
			t.Errorf("%v: the agent does not see its other settings", options)
		}
		if has(log, reversed(login)) != (options["keys"] == nil) { // an agent without a broker has its login
			t.Errorf("%v: the agent can read the key of the login: %t", options, has(log, reversed(login)))
		}
		if has(log, reversed(other)) {
			t.Errorf("%v: the agent can read the settings of another project", options)
		}
	}
}

// reversed returns a text in ASCII from its end to its beginning.
func reversed(text string) string {
	b := []byte(text)
	slices.Reverse(b)
	return string(b)
}

// reached checks that each request to the model has the key as its only
// credential.
func (w *world) reached(key string) {
	w.t.Helper()
	requests := w.model.Requests()
	if len(requests) == 0 {
		w.t.Error("no request has reached the model")
	}
	for _, r := range requests {
		var credentials []string
		for _, name := range []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key"} {
			credentials = append(credentials, r.Header.Values(name)...)
		}
		if len(credentials) != 1 || strings.TrimPrefix(credentials[0], "Bearer ") != key {
			w.t.Errorf("%s %s has the credentials %q", r.Method, r.Path, credentials)
		}
	}
}

// occurrences returns how often a text in ASCII is in data, with one or two
// bytes per character.
func occurrences(data []byte, text string) int {
	wide := make([]byte, 0, 2*len(text))
	for i := range len(text) {
		wide = append(wide, text[i], 0)
	}
	return bytes.Count(data, []byte(text)) + bytes.Count(data, wide)
}

func has(data []byte, text string) bool { return occurrences(data, text) > 0 }

// searchProcesses searches every process below one for a text.
func searchProcesses(t *testing.T, root int, text string) (found []string) {
	t.Helper()
	for _, pid := range descendants(t, root) {
		dir := filepath.Join("/proc", strconv.Itoa(pid))
		args, _ := os.ReadFile(dir + "/cmdline")
		name := fmt.Sprintf("process %d (%.60q)", pid, args)
		for _, file := range []string{"environ", "cmdline"} {
			if data, err := os.ReadFile(filepath.Join(dir, file)); err == nil && has(data, text) {
				found = append(found, name+" "+file)
			}
		}
		if n := searchMemory(pid, text); n > 0 {
			found = append(found, fmt.Sprintf("%s memory, %d times", name, n))
		}
		fds, _ := filepath.Glob(dir + "/fd/*")
		for _, fd := range fds {
			if info, err := os.Stat(fd); err != nil || !info.Mode().IsRegular() || info.Size() > 256<<20 {
				continue
			}
			if data, err := os.ReadFile(fd); err == nil && has(data, text) {
				target, _ := os.Readlink(fd)
				found = append(found, name+" descriptor "+target)
			}
		}
	}
	return found
}

// descendants returns the processes below one.
func descendants(t *testing.T, root int) (out []int) {
	t.Helper()
	pids, err := procinfo.Pids()
	if err != nil {
		t.Fatal(err)
	}
	parent := make(map[int]int)
	for _, pid := range pids {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if i := bytes.LastIndexByte(stat, ')'); i >= 0 {
			if fields := bytes.Fields(stat[i+1:]); len(fields) > 1 {
				parent[pid], _ = strconv.Atoi(string(fields[1]))
			}
		}
	}
	for pid := range parent {
		for up := parent[pid]; up > 1; up = parent[up] {
			if up == root {
				out = append(out, pid)
				break
			}
		}
	}
	return out
}

// page is the size of a page in bytes.
var page = os.Getpagesize()

// searchMemory returns how often a text is in the memory of a process that other
// processes do not share with it through a file.
func searchMemory(pid int, text string) (n int) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0 // it has ended
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return 0
	}
	defer mem.Close()
	pages, err := os.Open(fmt.Sprintf("/proc/%d/pagemap", pid))
	if err != nil {
		return 0
	}
	defer pages.Close()
	m := memory{mem, pages, make([]byte, atOnce*entry), make([]byte, atOnce*page)}
	for line := range strings.Lines(string(maps)) {
		var from, to uint64
		var mode string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &mode); err != nil || mode[0] != 'r' || mode[1] != 'w' && strings.Contains(line, "/") {
			continue
		}
		n += m.searchRange(from, to, text)
	}
	return n
}

// A memory reads the memory of a process.
type memory struct {
	mem, present  *os.File // the memory, and the map of its pages
	entries, data []byte   // of pages that are read at once
}

const (
	entry   = 8       // bytes of an entry of the map of pages
	atOnce  = 1 << 14 // pages
	present = 62      // the bits of an entry from here on are set for a page in memory or in swap
)

// searchRange searches the pages of a range that are present. It does not find a
// text that lies across two of its reads.
func (m *memory) searchRange(from, to uint64, text string) (n int) {
	for at := from; at < to; at += atOnce * uint64(page) {
		count := min(atOnce, (to-at)/uint64(page))
		got, _ := m.present.ReadAt(m.entries[:count*entry], int64(at/uint64(page)*entry))
		for i, end := 0, got/entry; i < end; i++ {
			first := i
			for i < end && binary.LittleEndian.Uint64(m.entries[i*entry:])>>present != 0 {
				i++
			}
			n += m.searchPages(int64(at)+int64(first*page), m.data[:(i-first)*page], text)
		}
	}
	return n
}

// searchPages reads consecutive pages into data, and searches those that can be
// read.
func (m *memory) searchPages(at int64, data []byte, text string) (n int) {
	for len(data) > 0 {
		got, err := m.mem.ReadAt(data, at)
		n += occurrences(data[:got], text)
		if err == nil {
			return n
		}
		skip := got/page*page + page // the page that cannot be read
		data, at = data[min(skip, len(data)):], at+int64(skip)
	}
	return n
}

// searchFiles searches every file below a directory for a text.
func searchFiles(t *testing.T, root, text string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // a file that an agent has removed meanwhile
		}
		if data, err := os.ReadFile(path); err == nil && has(data, text) {
			found = append(found, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// variableOf returns a variable of the environment of a process below the
// server.
func (w *world) variableOf(name string) string {
	w.t.Helper()
	for _, pid := range descendants(w.t, w.prog.PID) {
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		for e := range strings.SplitSeq(string(data), "\x00") {
			if value, ok := strings.CutPrefix(e, name+"="); ok {
				return value
			}
		}
	}
	w.t.Fatalf("no process has the variable %s", name)
	return ""
}

// TestBrokerServesOnlyItsAgent calls a broker from outside of its agent.
func TestBrokerServesOnlyItsAgent(t *testing.T) {
	key := newKey()
	w := newKeyedWorld(t, realagents.Claude(t)[0], key)
	session, code, message := w.create(w.brokered("off"))
	if code != http.StatusCreated {
		t.Fatalf("create: %d %s", code, message)
	}
	c := w.Follow(session)
	defer c.Leave()
	turn, release := w.blocked(c, "true")
	address, placeholder := w.variableOf("ANTHROPIC_BASE_URL"), w.variableOf("ANTHROPIC_API_KEY")
	before := len(w.model.Requests())
	for name, header := range map[string]http.Header{
		"no credential":        {},
		"a wrong placeholder":  {"X-Api-Key": {"runnel-placeholder-AAAAAAAAAAAAAAAAAAAAAAAAAA"}},
		"the key itself":       {"X-Api-Key": {key}},
		"another header":       {"Authorization": {"Bearer " + placeholder}},
		"a prefix of it":       {"X-Api-Key": {placeholder[:len(placeholder)-1]}},
		"placeholder and more": {"X-Api-Key": {placeholder + "x"}},
	} {
		r, err := http.NewRequest(http.MethodPost, address+"/v1/messages", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = header
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: status %d", name, resp.StatusCode)
		}
	}
	if n := len(w.model.Requests()) - before; n > 0 {
		t.Errorf("%d requests have reached the model", n)
	}
	release()
	if end := c.End(turn); !isDone(end) {
		t.Errorf("the turn ended with %+v", end.Body)
	}
	w.Call("POST", "/api/session/"+session+"/kill", struct{}{}, nil)
	if conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://")); err == nil {
		conn.Close()
		t.Error("the broker of an ended session accepts connections")
	}
}

// TestBrokeredTurnSurvivesKilledServer kills the server while a tool runs. No
// other program can listen in the place of the broker meanwhile, and the next
// server's broker serves the agent. The audit log has the broker once.
func TestBrokeredTurnSurvivesKilledServer(t *testing.T) {
	for _, sandbox := range []string{"off", "project"} {
		t.Run(sandbox, func(t *testing.T) {
			key := newKey()
			w := newKeyedWorld(t, realagents.Claude(t)[0], key)
			session, code, message := w.create(w.brokered(sandbox))
			if code != http.StatusCreated {
				t.Fatalf("create: %d %s", code, message)
			}
			c := w.Follow(session)
			turn, release := w.blocked(c, "true")
			address := strings.TrimPrefix(w.variableOf("ANTHROPIC_BASE_URL"), "http://")
			w.prog.Kill()
			c.Leave()
			if ln, err := net.Listen("tcp", address); err == nil {
				ln.Close()
				t.Error("another program could take the place of the broker")
			}
			w.start()
			c = w.Follow(session)
			defer c.Leave()
			release()
			if end := c.End(turn); !isDone(end) {
				t.Errorf("the turn ended with %+v", end.Body)
			}
			again := c.Send(fakemodel.Scenario{Steps: []fakemodel.Step{{Text: "More."}}}.Prompt("Go on."))
			if end := c.End(again); !isDone(end) {
				t.Errorf("the second turn ended with %+v", end.Body)
			}
			w.reached(key)
			w.prog.Stop()
			out := w.prog.Command(t, "audit", "--json")
			if n := strings.Count(out, `"key_brokered"`); n != 1 || strings.Contains(out, key) {
				t.Errorf("the audit log has the broker %d times:\n%s", n, out)
			}
		})
	}
}

// TestBrokerIsRefusedNotIgnored asks for brokers that are impossible.
func TestBrokerIsRefusedNotIgnored(t *testing.T) {
	w := newKeyedWorld(t, realagents.Claude(t)[0], newKey())
	refused := func(name, agent string, options map[string]any, code int, want string) {
		t.Helper()
		other := *w
		other.agent.Name = agent
		if id, got, message := other.create(options); got != code || !strings.Contains(message, want) {
			t.Errorf("%s: %d %s %s", name, got, id, message)
		}
	}
	broker := map[string]any{"keys": "broker"}
	for _, agent := range []string{"opencode", "copilot", "codex-acp", "script"} {
		refused(agent, agent, broker, http.StatusBadRequest, "keys: ")
	}
	refused("unknown", "claude-code", map[string]any{"keys": "none"}, http.StatusBadRequest, "want agent or broker")
	refused("login", "claude-code", map[string]any{"keys": "broker", "auth": "agent-login"}, http.StatusBadRequest, "a broker is for API keys")
	refused("no key", "gemini", broker, http.StatusServiceUnavailable, "There is no API key: GEMINI_API_KEY is not set")
	settings := filepath.Join(w.home.Config, "settings.json")
	for text, want := range map[string]string{
		`{"apiKeyHelper":"cat key"}`:                         "apiKeyHelper",
		`{"env":{"ANTHROPIC_BASE_URL":"https://x.invalid"}}`: "env.ANTHROPIC_BASE_URL",
		`{`: "cannot be read",
	} {
		if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		refused(text, "claude-code", broker, http.StatusBadRequest, want)
	}
	if n := len(w.model.Requests()); n > 0 {
		t.Errorf("agents sent %d requests", n)
	}
}

// TestConfiguredBrokerCannotBeSwitchedOff runs a server whose configuration
// gives the key of one agent, which is in a file, to a broker.
func TestConfiguredBrokerCannotBeSwitchedOff(t *testing.T) {
	w := newKeyedWorld(t, realagents.Claude(t)[0], "unused")
	w.prog.Stop()
	dir, key := t.TempDir(), newKey()
	config, file := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "key")
	text := "agents:\n  claude-code:\n    auth: api-key\n    apiKeyFile: " + file + "\n    options:\n      keys: broker\n"
	for path, text := range map[string]string{config: text, file: key + "\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.prog.Args = []string{"--config", config}
	w.start()
	for _, options := range []map[string]any{{}, {"keys": "agent"}} {
		session, code, message := w.create(options)
		if code != http.StatusCreated {
			t.Fatalf("%d %s", code, message)
		}
		w.tool(session, "env > seen")
		seen, err := os.ReadFile(filepath.Join(w.home.Project, "seen"))
		if err != nil || bytes.Contains(seen, []byte(key)) || bytes.Contains(seen, []byte("unused")) || !bytes.Contains(seen, []byte("=runnel-placeholder-")) {
			t.Errorf("%v: the tool's environment: %v\n%s", options, err, seen)
		}
	}
	w.reached(key)
	if out := w.prog.Command(t, "doctor", "--config", config); !strings.Contains(out, "keys: broker") {
		t.Errorf("runnel doctor printed\n%s", out)
	}
}

// TestBrokerOfCodexWithItsOwnModelProvider runs Codex with the model provider
// that it has without a configuration.
func TestBrokerOfCodexWithItsOwnModelProvider(t *testing.T) {
	key := newKey()
	w := newKeyedWorld(t, realagents.Codex(t), "unused")
	w.prog.Stop()
	model, err := url.Parse(w.model.URL())
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(model)
	api := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" { // the scripted model has no WebSocket; Codex then sends a request
			rw.WriteHeader(http.StatusUpgradeRequired)
			return
		}
		forward.ServeHTTP(rw, r)
	}))
	defer api.Close()
	config := "model = \"gpt-5.5\"\nopenai_base_url = \"" + api.URL + "/v1\"\ncheck_for_update_on_startup = false\n[analytics]\nenabled = false\n[feedback]\nenabled = false\n[features]\napps = false\nplugins = false\nremote_plugin = false\nenable_request_compression = false\n"
	if err := os.WriteFile(filepath.Join(w.home.Codex, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	w.prog.Env = append(w.prog.Env, "OPENAI_API_KEY="+key)
	w.start()
	for _, sandbox := range []string{"off", "project"} {
		session, code, message := w.create(w.brokered(sandbox))
		if code != http.StatusCreated {
			t.Fatalf("create: %d %s", code, message)
		}
		w.tool(session, "env > seen")
		if seen, err := os.ReadFile(filepath.Join(w.home.Project, "seen")); err != nil || bytes.Contains(seen, []byte(key)) {
			t.Errorf("sandbox %s: the tool's environment: %v\n%s", sandbox, err, seen)
		}
	}
	var used bool
	for _, r := range w.model.Requests() {
		used = used || r.Header.Get("Authorization") == "Bearer "+key
		if strings.Contains(fmt.Sprint(r.Header), "runnel-placeholder") {
			t.Errorf("%s %s has the placeholder", r.Method, r.Path)
		}
	}
	if !used {
		t.Error("no request has the key")
	}
}

// TestForgedFileOfBrokerGetsNoSecretOfTheServer plays an agent without a sandbox
// that kills the server and changes what the server has written about a broker:
// it names another variable of the server and a host of its own.
func TestForgedFileOfBrokerGetsNoSecretOfTheServer(t *testing.T) {
	if !long() {
		t.Skip("internal/agentconn tests the same without an agent")
	}
	w := newKeyedWorld(t, realagents.Claude(t)[0], newKey())
	w.prog.Stop()
	w.prog.Env = append(w.prog.Env, "ANOTHER_SECRET="+newKey())
	w.start()
	session, code, message := w.create(w.brokered("off"))
	if code != http.StatusCreated {
		t.Fatalf("create: %d %s", code, message)
	}
	c := w.Follow(session)
	w.blocked(c, "true")
	address, placeholder := w.variableOf("ANTHROPIC_BASE_URL"), w.variableOf("ANTHROPIC_API_KEY")
	w.prog.Kill()
	c.Leave()

	attacker := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("the attacker received %v", r.Header) }))
	defer attacker.Close()
	path := filepath.Join(w.prog.Data, "run", session+".box", "egress.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	forged := bytes.ReplaceAll(data, []byte(`"ANTHROPIC_API_KEY"`), []byte(`"ANOTHER_SECRET"`))
	forged = bytes.ReplaceAll(forged, []byte(w.model.URL()), []byte(attacker.URL))
	if bytes.Equal(forged, data) {
		t.Fatalf("nothing to forge in %s", data)
	}
	if err := os.WriteFile(path, forged, 0o600); err != nil {
		t.Fatal(err)
	}
	w.start()
	r, err := http.NewRequest(http.MethodPost, address+"/v1/messages", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", placeholder)
	if resp, err := http.DefaultClient.Do(r); err == nil {
		resp.Body.Close()
		t.Errorf("a broker answered with status %d", resp.StatusCode)
	}
}
