//go:build unix

package clients

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience bounds each command of a test.
const patience = 4 * time.Minute

// A client that oapi-codegen made compiles and holds a conversation, streams
// included.
func TestGeneratedGoClientHoldsAConversation(t *testing.T) {
	s := serve(t)
	binary := filepath.Join(t.TempDir(), "client")
	run(t, "go", nil, "go", "build", "-o", binary, ".")
	s.converse(t, binary)
}

// A client of openapi-fetch with the types of openapi-typescript compiles and
// holds a conversation, streams included.
func TestGeneratedTypeScriptClientHoldsAConversation(t *testing.T) {
	if _, err := os.Stat("typescript/node_modules"); err != nil {
		t.Fatal("the client's libraries are not installed: run npm ci --prefix test/clients/typescript")
	}
	s := serve(t)
	dir := filepath.Join("typescript", "dist") // beside the libraries that it imports
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	run(t, "typescript", nil, "npm", "run", "--silent", "build")
	s.converse(t, "node", filepath.Join(dir, "test", "clients", "typescript", "conversation.js"))
}

// A server is the built program, serving.
type server struct{ url, token, project string }

var apiAt = regexp.MustCompile(`its API is at (https?://\S+)`)

// serve builds the program and starts it. It skips the test with -short.
func serve(t *testing.T) *server {
	t.Helper()
	if testing.Short() {
		t.Skip("drives the built program")
	}
	dir := t.TempDir()
	binary, data, project := filepath.Join(dir, "runnel"), filepath.Join(dir, "data"), filepath.Join(dir, "project")
	if err := os.Mkdir(project, 0o700); err != nil {
		t.Fatal(err)
	}
	run(t, "", nil, "go", "build", "-o", binary, "github.com/runnel-dev/runnel/cmd/runnel")
	env := []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	token := run(t, "", env, binary, "token", "create", "client", "--scope", "read,send,approve", "--data", data)
	cmd, said := exec.Command(binary, "serve", "--listen", "127.0.0.1:0", "--data", data), new(bytes.Buffer)
	cmd.Env, cmd.Stderr = env, said
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server ended with %v: %s", err, said)
		}
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if m := apiAt.FindStringSubmatch(lines.Text()); m != nil {
			return &server{m[1], strings.TrimSpace(token), project}
		}
	}
	t.Fatalf("the server does not start: %s", said)
	return nil
}

// converse runs a client, which takes the server, a token and a directory.
func (s *server) converse(t *testing.T, client ...string) {
	t.Helper()
	if said := run(t, "", nil, append(client, s.url, s.token, s.project)...); !strings.Contains(said, "the conversation went well") {
		t.Errorf("the client said %q", said)
	}
}

// run runs a command in a folder and returns what it printed. The environment is
// the test's own if env is nil.
func run(t *testing.T, dir string, env []string, command ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd, failed := exec.CommandContext(ctx, command[0], command[1:]...), new(bytes.Buffer)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, env, failed
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(command, " "), err, out, failed)
	}
	return string(out)
}
