//go:build unix

package clients

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/internal/testprogram"
)

// patience bounds each command of a test.
const patience = 4 * time.Minute

func TestMain(m *testing.M) { os.Exit(testprogram.Main(m)) }

// A client that oapi-codegen made compiles and holds a conversation, streams
// included.
func TestGeneratedGoClientHoldsAConversation(t *testing.T) {
	s := serve(t)
	binary := filepath.Join(t.TempDir(), "client")
	run(t, "go", "go", "build", "-o", binary, ".")
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
	run(t, "typescript", "npm", "run", "--silent", "build")
	s.converse(t, "node", filepath.Join(dir, "test", "clients", "typescript", "conversation.js"))
}

type server struct {
	testprogram.Server
	token, project string
}

// serve starts the built program. It skips the test with -short.
func serve(t *testing.T) *server {
	t.Helper()
	if testing.Short() {
		t.Skip("drives the built program")
	}
	s := &server{project: t.TempDir()}
	s.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	s.Start(t)
	s.token = s.Token(t, "read,send,approve")
	return s
}

// converse runs a client, which takes the server, a token and a directory.
func (s *server) converse(t *testing.T, client ...string) {
	t.Helper()
	if said := run(t, "", append(client, s.API, s.token, s.project)...); !strings.Contains(said, "the conversation went well") {
		t.Errorf("the client said %q", said)
	}
}

// run runs a command in a folder and returns what it printed.
func run(t *testing.T, dir string, command ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd, failed := exec.CommandContext(ctx, command[0], command[1:]...), new(bytes.Buffer)
	cmd.Dir, cmd.Stderr = dir, failed
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(command, " "), err, out, failed)
	}
	return string(out)
}
