package main

import (
	"bufio"
	"bytes"
	"cmp"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	_ "modernc.org/sqlite"
)

// A server is the `runnel serve` of a script, on a free port, with its data in
// $WORK/data. It sets URL (of the API), PAGE (of the page), CODE and SERVER_PID
// once it runs.
type server struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	cookie *http.Cookie
	out    *bufio.Reader

	// orphans are the processes that a killed server left. They would end by
	// themselves, but only after the test.
	orphans []*os.Process
}

type serverKey struct{}

// serverEnv are the variables that the server inherits from the script.
var serverEnv = []string{
	"HOME", "PATH", "TMPDIR", "GORACE",
	"CLAUDE_CONFIG_DIR", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "IS_SANDBOX", "DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER",
	"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "CODEX_HOME",
	"RUNNEL_CONFIG", "RUNNEL_LIST_CONVERSATIONS", "RUNNEL_SEARCH", "CHIRALITY_GLOBAL_MODEL",
}

var (
	apiAt = regexp.MustCompile(`its API is at (https?://\S+)`)
	link  = regexp.MustCompile(`(https?://\S+)/#c=(\S+)`)
)

// cmdServer starts and stops the script's server:
//
//	server start [FLAG…]  serves $RUNNEL_DATA, or else data, and sets RUNNEL_DATA
//	server stop           stops it with SIGTERM; it must succeed
//	server kill           kills it with SIGKILL
func cmdServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: server start|stop|kill")
	}
	s := ts.Value(serverKey{}).(*server)
	switch args[0] {
	case "start":
		s.start(ts, args[1:])
	case "stop":
		ts.Check(s.cmd.Process.Signal(syscall.SIGTERM))
		_, _ = io.Copy(io.Discard, s.out)
		if err := s.cmd.Wait(); err != nil {
			ts.Fatalf("server stop: %v\n%s", err, s.stderr.Bytes())
		}
		fmt.Fprint(ts.Stderr(), s.stderr.String())
		s.cmd = nil
	case "kill":
		s.orphans = append(s.orphans, descendants(s.cmd.Process.Pid)...)
		s.kill()
	default:
		ts.Fatalf("server: no such order %q", args[0])
	}
}

func (s *server) start(ts *testscript.TestScript, flags []string) {
	if s.cmd != nil {
		ts.Fatalf("the server runs already")
	}
	data := ts.MkAbs(cmp.Or(ts.Getenv("RUNNEL_DATA"), "data"))
	s.stderr.Reset()
	s.cmd = exec.Command("runnel", append([]string{"serve", "--listen", "127.0.0.1:0", "--data", data}, flags...)...)
	s.cmd.Dir = ts.MkAbs(".")
	for _, name := range serverEnv {
		if v := ts.Getenv(name); v != "" {
			s.cmd.Env = append(s.cmd.Env, name+"="+v)
		}
	}
	s.cmd.Stderr = &s.stderr
	out, err := s.cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(s.cmd.Start())
	ts.Setenv("SERVER_PID", fmt.Sprint(s.cmd.Process.Pid))
	s.out = bufio.NewReader(out)
	for {
		line, err := s.out.ReadString('\n')
		if m := apiAt.FindStringSubmatch(line); m != nil {
			ts.Setenv("URL", m[1])
		}
		m := link.FindStringSubmatch(line)
		if m != nil {
			ts.Setenv("PAGE", m[1])
			ts.Setenv("CODE", m[2])
		}
		if m != nil || strings.Contains(line, "The page has no address yet") {
			ts.Setenv("RUNNEL_DATA", data)
			return
		}
		if err != nil {
			_ = s.cmd.Wait()
			ts.Fatalf("the server did not start: %s", s.stderr.Bytes())
		}
	}
}

// end ends all processes of the script's servers.
func (s *server) end() {
	if s.cmd != nil {
		s.orphans = append(s.orphans, descendants(s.cmd.Process.Pid)...)
		s.kill()
	}
	for _, p := range s.orphans {
		_ = p.Kill()
		_ = p.Release()
	}
}

// descendants returns the processes that a process started, if the system lists
// them.
func descendants(pid int) (found []*os.Process) {
	children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range children {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for _, field := range strings.Fields(string(data)) {
			var child int
			if _, err := fmt.Sscan(field, &child); err != nil {
				continue
			}
			if p, err := os.FindProcess(child); err == nil { // keeps a handle, because the process id may be reused
				found = append(append(found, p), descendants(child)...)
			}
		}
	}
	return found
}

func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	_, _ = io.Copy(io.Discard, s.out)
	_ = s.cmd.Wait()
	s.cmd = nil
}

// cmdHTTP sends a request and prints the status and the body of the response.
// It authenticates with $TOKEN. Without it the request looks like one of the
// page, with the cookie of an earlier login.
//
//	http METHOD PATH [BODY]
//	http until=TEXT GET PATH    reads a stream up to the frame with TEXT
func cmdHTTP(ts *testscript.TestScript, neg bool, args []string) {
	until := ""
	if len(args) > 0 {
		if text, ok := strings.CutPrefix(args[0], "until="); ok {
			until, args = text, args[1:]
		}
	}
	if neg || len(args) < 2 {
		ts.Fatalf("usage: http METHOD PATH [BODY]")
	}
	s := ts.Value(serverKey{}).(*server)
	req, err := http.NewRequest(args[0], ts.Getenv("URL")+args[1], strings.NewReader(strings.Join(args[2:], " ")))
	ts.Check(err)
	if len(args) > 2 {
		req.Header.Set("Content-Type", "application/json")
		if strings.HasPrefix(args[1], "/api/uploads") {
			req.Header.Set("Content-Type", "application/octet-stream")
		}
	} else {
		req.Body = http.NoBody
	}
	if token := ts.Getenv("TOKEN"); token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	} else {
		_, req.Host, _ = strings.Cut(ts.Getenv("PAGE"), "://") // few resolvers know the page's name
		req.Header.Set("Sec-Fetch-Site", "same-origin")
		req.Header.Set("Origin", ts.Getenv("PAGE"))
		if s.cookie != nil {
			req.AddCookie(s.cookie)
			req.Header.Set("Runnel-Key", ts.Getenv("KEY"))
		}
	}
	client := http.Client{Timeout: time.Minute}
	res, err := client.Do(req)
	ts.Check(err)
	defer res.Body.Close()
	for _, c := range res.Cookies() {
		s.cookie = c
	}
	fmt.Fprintln(ts.Stdout(), res.StatusCode)
	body := bufio.NewReader(res.Body)
	for found := false; ; {
		line, err := body.ReadString('\n')
		fmt.Fprint(ts.Stdout(), line)
		if strings.HasPrefix(line, `{"key":"`) {
			var login struct{ Key string }
			ts.Check(json.Unmarshal([]byte(line), &login))
			ts.Setenv("KEY", login.Key)
		}
		found = found || until != "" && strings.Contains(line, until)
		if err == io.EOF && until == "" || found && line == "\n" {
			fmt.Fprintln(ts.Stdout())
			return
		}
		ts.Check(err)
	}
}

// cmdLet sets a variable to a member of the JSON in a file, or to the text of
// the file:
//
//	let NAME FILE [MEMBER]
func cmdLet(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: let NAME FILE [MEMBER]")
	}
	text := strings.TrimSpace(ts.ReadFile(args[1]))
	if len(args) == 3 {
		var members map[string]any
		ts.Check(json.Unmarshal([]byte(text[strings.IndexByte(text, '{'):]), &members))
		text = fmt.Sprint(members[args[2]])
	}
	ts.Setenv(args[0], text)
}

// cmdFuture changes a data directory as if a later version had written it.
func cmdFuture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: future DIR")
	}
	db, err := sql.Open("sqlite", filepath.Join(ts.MkAbs(args[0]), "runnel.db"))
	ts.Check(err)
	_, err = db.Exec("PRAGMA user_version = 2000000000")
	ts.Check(err)
	ts.Check(db.Close())
}

// cmdNowhere checks that no file below a directory contains a text:
//
//	nowhere DIR TEXT
func cmdNowhere(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 || args[1] == "" {
		ts.Fatalf("usage: nowhere DIR TEXT")
	}
	files := 0
	ts.Check(filepath.Walk(ts.MkAbs(args[0]), func(path string, info os.FileInfo, err error) error {
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		files++
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(args[1])) {
			ts.Fatalf("%s holds the text", path)
		}
		return err
	}))
	if files == 0 {
		ts.Fatalf("there are no files in %s", args[0])
	}
}
