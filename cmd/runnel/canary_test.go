package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
)

// canary is a secret that a test plants, in each form that must not appear.
type canary struct{ name, value string }

func (c canary) forms() []string {
	quoted, _ := json.Marshal(c.value)
	forms := []string{c.value, string(quoted[1 : len(quoted)-1]), url.QueryEscape(c.value)}
	for shift := range 3 {
		data := base64.StdEncoding.EncodeToString([]byte("abc"[:shift] + c.value))
		forms = append(forms, data[4:len(data)-4])
	}
	return forms
}

// TestSecretsAppearInNothingShownLoggedOrStored makes a real agent read, run
// and print secrets of every kind. No response, log or stored file of the
// server may contain one.
func TestSecretsAppearInNothingShownLoggedOrStored(t *testing.T) {
	agent := realagents.Claude(t)[0]
	data := filepath.Join(t.TempDir(), "data")
	created, err := exec.CommandContext(t.Context(), "runnel", "token", "create", "t", "--scope", "read,send,approve,admin", "--data", data).Output()
	if err != nil {
		t.Fatal(err)
	}
	apiKey := canary{"key in the environment", "sk-ant-api03-C4n4ryC4n4ryC4n4ryC4n4ry"}
	password := canary{"password in our environment, which the agent is not given", `pw "C4n4ry" & more/0`}
	passed := canary{"variable that the agent is given", "c4n4ry-passed-on-0815"}
	header := canary{"header of the model's API", "c4n4ry-header-4711"}
	ours := canary{"our own token", strings.TrimSpace(string(created))}
	key := canary{"private key in a file", strings.Repeat("C4n4ryKey/", 6)}
	github := canary{"token in a tool's output", "ghp_C4n4ryC4n4ryC4n4ryC4n4ryC4n4ry"}
	aws := canary{"key in thoughts", "AKIAC4N4RYC4N4RYC4N4"}
	slack := canary{"token in a tool's arguments", "xoxb-1234567890-C4n4ryC4n4ry"}
	bearer := canary{"header in a command", "c4n4ry.bearer.value"}
	openai := canary{"key that comes in small pieces", "sk-proj-C4n4ry_C4n4ry-C4n4ryC4n4ry"}
	failure := canary{"key in an error of the model's API", "github_pat_C4n4ryC4n4ryC4n4ry_C4n4ry"}
	all := []canary{apiKey, password, passed, header, ours, key, github, aws, slack, bearer, openai, failure}

	command := strings.Join([]string{
		"cat key.pem token.txt",
		"echo $ANTHROPIC_API_KEY | base64; printf x$CLAUDE_CODE_CANARY | base64; echo $CLAUDE_CODE_CANARY $ANTHROPIC_CUSTOM_HEADERS",
		"echo \"Authorization: Bearer " + bearer.value + "\" " + slack.value + " > /dev/null",
		"echo " + base64.StdEncoding.EncodeToString([]byte(ours.value)),
		"echo the tool has run",
	}, "\n")
	input, err := json.Marshal(map[string]string{"command": command, "description": "look for " + slack.value})
	if err != nil {
		t.Fatal(err)
	}
	model, err := fakemodel.Start(fakemodel.Config{Scenarios: map[string]fakemodel.Scenario{
		"canary": {Steps: []fakemodel.Step{
			{Chunk: 3, Blocks: []fakemodel.Block{
				{Type: "thinking", Text: "the user's key is " + aws.value + ", I think"},
				{Type: "text", Text: "Our password is " + password.value + ", in a URL " + url.QueryEscape(password.value) + "."},
				{Type: "tool_use", Name: "Bash", Input: input},
			}},
			{Chunk: 1, Text: "It is " + openai.value + " or " + ours.value + " or " + base64.URLEncoding.EncodeToString([]byte("12"+passed.value)) + ". That was all."},
		}},
		"failure": {Steps: []fakemodel.Step{{Fail: &fakemodel.Failure{Status: 400, Message: "bad request with " + failure.value}}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	home := realagents.NewHome(t, model.URL())
	pemFile := "-----BEGIN RSA PRIVATE KEY-----\n" + strings.Repeat(key.value+"\n", 20) + "-----END RSA PRIVATE KEY-----\n"
	for name, text := range map[string]string{"key.pem": pemFile, "token.txt": "machine github.com password " + github.value + "\n"} {
		if err := os.WriteFile(filepath.Join(home.Project, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bin := t.TempDir()
	if err := os.Symlink(agent.Path, filepath.Join(bin, "claude")); err != nil {
		t.Fatal(err)
	}

	s := startServer(t, data, ours.value, append(home.Environ(),
		"PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"),
		"ANTHROPIC_API_KEY="+apiKey.value, "DEPLOY_PASSWORD="+password.value, "CLAUDE_CODE_CANARY="+passed.value, "CLAUDE_CODE_CANARY_TOKEN="+passed.value,
		"ANTHROPIC_CUSTOM_HEADERS=X-Canary: "+header.value))
	var session struct{ SessionID string }
	body := fmt.Sprintf(`{"cliType":"claude","projectDir":%q,"options":{"permissionMode":"bypass"}}`, home.Project)
	if err := json.Unmarshal(s.call("POST", "/api/session/create", body), &session); err != nil {
		t.Fatal(err)
	}
	for _, prompt := range []string{"<<play canary>>", "<<play failure>>"} {
		s.call("POST", "/api/harness/turn", fmt.Sprintf(`{"sessionId":%q,"message":%q}`, session.SessionID, prompt))
	}
	s.call("POST", "/api/session/create", fmt.Sprintf(`{"cliType":"claude","projectDir":%q}`, "/nowhere/"+github.value))
	for _, path := range []string{"/items", "/items?limit=1", "/export", "/export?format=markdown", "/status"} {
		s.call("GET", "/api/session/"+session.SessionID+path, "")
	}
	for _, path := range []string{"/api/session/list?projectId=*", "/api/agents", "/api/projects", "/api/overview", "/api/tokens", "/metrics"} {
		s.call("GET", path, "")
	}
	s.end()

	shown := s.shown.String()
	for _, want := range []string{"the tool has run", "That was all.", "Our password is [redacted], in a URL [redacted].", "turn:error", "level=INFO"} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is missing in what was shown:\n%.20000s", want, shown)
		}
	}
	places := map[string][]byte{"the answers and the log": s.shown.Bytes()}
	err = filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		places[path], err = os.ReadFile(path)
		return err
	})
	if err != nil || len(places) < 2 {
		t.Fatalf("the data directory has %d files: %v", len(places)-1, err)
	}
	for place, text := range places {
		for _, c := range all {
			for _, form := range c.forms() {
				if i := bytes.Index(text, []byte(form)); i >= 0 {
					t.Errorf("%s holds the %s: …%s…", place, c.name, text[max(0, i-80):min(len(text), i+80)])
				}
			}
		}
	}
}

// aServer is a `runnel serve` whose responses and log are recorded.
type aServer struct {
	t     *testing.T
	cmd   *exec.Cmd
	out   *bufio.Reader
	url   string
	token string
	log   bytes.Buffer
	shown bytes.Buffer // used by the test only, not by the goroutine that copies the log
}

func startServer(t *testing.T, data, token string, env []string, flags ...string) *aServer {
	t.Helper()
	s := &aServer{t: t, token: token}
	args := append([]string{"serve", "--listen", "127.0.0.1:0", "--data", data, "--allow-bypass", "--log-level", "debug"}, flags...)
	s.cmd = exec.CommandContext(t.Context(), "runnel", args...)
	s.cmd.Env, s.cmd.Stderr = env, &s.log
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.out = bufio.NewReader(out)
	for s.url == "" {
		line, err := s.out.ReadString('\n')
		if m := apiAt.FindStringSubmatch(line); m != nil {
			s.url = m[1]
		} else if err != nil {
			_ = s.cmd.Wait()
			t.Fatalf("the server did not start: %s", s.log.String())
		}
	}
	return s
}

// call returns the body of the response, whatever its status.
func (s *aServer) call(method, path, body string) []byte {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		s.t.Fatalf("%s %s: %v\n%s", method, path, err, s.log.String())
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	fmt.Fprintf(&s.shown, "%s %s: %d\n%s\n", method, path, res.StatusCode, answer)
	return answer
}

// end stops the server and adds its log to shown.
func (s *aServer) end() {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, s.out)
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("%v\n%s", err, s.log.String())
	}
	s.shown.Write(s.log.Bytes())
}
