package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel/internal/testload"
)

// A scene is a home directory with a project, and a server whose data is in
// that home directory.
type scene struct {
	home, project string
	env           []string
	srv           *exec.Cmd
	stderr        bytes.Buffer // of the servers
}

func newScene(t *testing.T) *scene {
	t.Helper()
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{home: home, project: filepath.Join(home, "project")}
	for _, name := range []string{"PATH", "TMPDIR", "GORACE"} {
		if v := os.Getenv(name); v != "" {
			s.env = append(s.env, name+"="+v)
		}
	}
	s.env = append(s.env, "HOME="+home, "RUNNEL_DATA="+filepath.Join(home, "data"), "TERM=xterm-256color")
	if err := os.Mkdir(s.project, 0o700); err != nil {
		t.Fatal(err)
	}
	return s
}

// command returns a runnel command in the project.
func (s *scene) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "runnel", args...)
	cmd.Env, cmd.Dir = s.env, s.project
	return cmd
}

// serve starts the server and returns once it accepts requests.
func (s *scene) serve(t *testing.T, flags ...string) {
	t.Helper()
	s.srv = s.command(t, append([]string{"serve", "--listen", "127.0.0.1:0"}, flags...)...)
	s.srv.Stderr = &s.stderr
	out, err := s.srv.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.srv.Start(); err != nil {
		t.Fatal(err)
	}
	srv := s.srv
	t.Cleanup(func() { _ = srv.Process.Kill() })
	var shown []byte
	for buf := make([]byte, 4096); !bytes.Contains(shown, []byte("#c=")); {
		n, err := out.Read(buf)
		shown = append(shown, buf[:n]...)
		if err != nil {
			t.Fatalf("the server did not start: %s%s", shown, s.stderr.Bytes())
		}
	}
}

// kill ends the server as a crash does.
func (s *scene) kill(t *testing.T) {
	t.Helper()
	if err := s.srv.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = s.srv.Wait()
}

// sessions returns the ids of all sessions of the server.
func (s *scene) sessions(t *testing.T) (ids []string) {
	t.Helper()
	out, err := s.command(t, "sessions", "list", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var list []struct{ SessionID string }
	if err := json.Unmarshal(out, &list); err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		ids = append(ids, s.SessionID)
	}
	return ids
}

// result is what a command did, without ids, times and positions.
type result struct {
	Code           int
	Stdout, Stderr string
}

var (
	uuids     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	times     = regexp.MustCompile(`"(timestamp|startedAt|sourceTimestamp|emittedAt)":"[^"]*"`)
	deltas    = regexp.MustCompile(`"\}\}\n\{[^\n]*"type":"item_delta","itemId":"[^"]*","deltaContent":"`)
	positions = regexp.MustCompile(`("seq":|"eventId":"ID\d+:)\d+`)
)

// finish runs a command to its end. The n-th id in the output becomes "ID n".
func finish(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), normalised(out.String()), normalised(errOut.String())}
}

func normalised(text string) string {
	seen := make(map[string]string)
	text = uuids.ReplaceAllStringFunc(text, func(id string) string {
		if seen[id] == "" {
			seen[id] = fmt.Sprintf("ID%d", len(seen))
		}
		return seen[id]
	})
	text = times.ReplaceAllString(text, `"$1":"T"`)
	text = positions.ReplaceAllString(text, "${1}N")
	// Where a delta ends depends on the secrets that the process knows.
	return deltas.ReplaceAllString(text, "")
}

// A prompt gives the same output whether it runs in the server or without it.
func TestRunThroughTheServerPrintsTheSame(t *testing.T) {
	testload.TakesLong(t)
	s := newScene(t)
	s.serve(t)
	sessions := 0
	same := func(args ...string) {
		t.Helper()
		local := finish(t, s.command(t, append([]string{"run", "--agent", "script", "--local"}, args...)...))
		served := finish(t, s.command(t, append([]string{"run", "--agent", "script"}, args...)...))
		if diff := cmp.Diff(local, served); diff != "" {
			t.Errorf("%v: without the server (-), with it (+):\n%s", args, diff)
		}
	}
	for _, args := range [][]string{
		{"tools"}, {"fail"}, {"approve"}, {"--quiet", "tools"}, {"--verbose", "--model", "m1", "--effort", "high", "--permission-mode", "dontAsk", "approve"},
		{"--output", "events", "tools"}, {"--output", "events", "terminal"}, {"--output", "events", "approve"}, {"--output", "events", "withdraw"},
		{"--output", "upserts", "approve"}, {"--output", "universal", "fail"}, {"--extension", "agent_api.tools.results.v1=true", "--output", "universal", "tools"},
	} {
		same(args...)
		sessions++
	}
	if got := len(s.sessions(t)); got != sessions {
		t.Errorf("the server has %d sessions, want %d", got, sessions)
	}
	for _, wrong := range [][]string{
		{"--permission-mode", "yolo", "x"}, {"--set", "nonsense=1", "x"}, {"--persona", "nobody", "x"}, {"--fork", "x"}, {"--max-turns", "3", "x"}, {" "},
	} {
		same(wrong...)
	}
}
