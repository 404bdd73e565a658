package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"
)

// sandboxAgent is npm's sandbox-agent, a server with HTTP and SSE for agents
// that implement the Agent Client Protocol. It stores a limited number of
// messages in memory and nothing on disk.
type sandboxAgent struct {
	w       *workspace
	program string
	home    string
	bin     string

	url    string
	opened int
	daemon *daemon
}

// sandbox-agent looks in PATH for agents with known names. The benchmark's
// agent is there under one of these names; any of them would do.
const (
	sandboxAgentID      = "amp"
	sandboxAgentProgram = "amp-acp"
)

// peerProgram copies a program from a peer's npm package for this platform into
// the workspace, and returns the path of the copy. The benchmark recognises its
// own processes by such paths.
func (w *workspace) peerProgram(pkg, program string) (string, error) {
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	src := filepath.Join(w.root, "bench", "peers", "node_modules", filepath.FromSlash(pkg)+"-"+runtime.GOOS+"-"+arch, "bin", program)
	dst := w.path("peers", program)
	if err := os.MkdirAll(filepath.Dir(dst), 0o700); err != nil {
		return "", err
	}
	if _, err := os.Stat(dst); err == nil {
		return dst, nil
	}
	return dst, copyProgram(src, dst)
}

// peerVersion returns the version of the installed package.
func (w *workspace) peerVersion(pkg string) string {
	var v struct{ Version string }
	data, err := os.ReadFile(filepath.Join(w.root, "bench", "peers", "node_modules", pkg, "package.json"))
	if err != nil || json.Unmarshal(data, &v) != nil {
		return "unknown version"
	}
	return v.Version
}

func copyProgram(src, dst string) error {
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(dst, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func newSandboxAgent(w *workspace) (*sandboxAgent, error) {
	program, err := w.peerProgram("@sandbox-agent/cli", "sandbox-agent")
	if err != nil {
		return nil, err
	}
	home, err := w.fresh("home")
	if err != nil {
		return nil, err
	}
	s := &sandboxAgent{w: w, program: program, home: home, bin: filepath.Join(home, "bin")}
	if err := os.Mkdir(s.bin, 0o700); err != nil {
		return nil, err
	}
	return s, copyProgram(w.path("bin", "claude"), filepath.Join(s.bin, sandboxAgentProgram))
}

func (s *sandboxAgent) name() string { return "sandbox-agent" }

func (s *sandboxAgent) start(ctx context.Context) error {
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, s.program, "server", "--no-token", "--no-telemetry", "--port", strconv.Itoa(port))
	cmd.Env = s.w.environ(s.home, s.bin)
	s.url = fmt.Sprintf("http://127.0.0.1:%d/v1", port)
	s.daemon, err = launch(cmd, func(io.Reader) error { return answers(ctx, s.url+"/health") })
	return err
}

// freePort returns a port that no program listens on now.
func freePort(ctx context.Context) (int, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port, nil
}

// answers waits until a server responds successfully.
func answers(ctx context.Context, url string) error {
	last := errors.New("it was not asked")
	err := until(ctx, 30*time.Second, func() (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // a request that arrives too early may hang for ever
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false, err
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			last = err
			return false, nil
		}
		defer res.Body.Close()
		last = fmt.Errorf("GET %s: %s", url, res.Status)
		return res.StatusCode < 300, nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}

func (s *sandboxAgent) kill()                   { s.daemon.kill() }
func (s *sandboxAgent) stop()                   { s.daemon.stop() }
func (s *sandboxAgent) servers() ([]int, error) { return []int{s.daemon.pid()}, nil }

func (s *sandboxAgent) open(ctx context.Context) (conversation, error) {
	s.opened++
	c := &acpConversation{s: s, path: "/acp/bench" + strconv.Itoa(s.opened)}
	hello := map[string]any{"protocolVersion": 1, "clientCapabilities": map[string]any{}}
	if err := c.call(ctx, "?agent="+sandboxAgentID, "initialize", hello, nil); err != nil {
		return nil, err
	}
	var made struct{ SessionID string }
	if err := c.call(ctx, "", "session/new", map[string]any{"cwd": s.home, "mcpServers": []any{}}, &made); err != nil {
		return nil, err
	}
	c.session = made.SessionID
	return c, nil
}

// acpConversation is a conversation through sandbox-agent. Each has its own
// agent process.
type acpConversation struct {
	s       *sandboxAgent
	path    string
	session string
	calls   int
}

// call sends a request and decodes its result into out, unless out is nil.
func (c *acpConversation) call(ctx context.Context, query, method string, params, out any) error {
	c.calls++
	var answer struct {
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	err := postJSON(ctx, c.s.url+c.path+query, http.Header{}, map[string]any{"jsonrpc": "2.0", "id": c.calls, "method": method, "params": params}, &answer)
	if err == nil && answer.Error != nil {
		err = errors.New(answer.Error.Message)
	}
	if err != nil || out == nil {
		return err
	}
	return json.Unmarshal(answer.Result, out)
}

// prompt returns at once, because the response to a prompt arrives only at the
// end of the turn. Readers receive that response, too.
func (c *acpConversation) prompt(ctx context.Context, text string) error {
	go func() {
		_ = c.call(ctx, "", "session/prompt", map[string]any{ // if it fails the readers receive no end of the turn
			"sessionId": c.session, "prompt": []any{map[string]any{"type": "text", "text": text}},
		}, nil)
	}()
	return nil
}

func (c *acpConversation) follow(ctx context.Context, _ string, ready func(), see func(message) bool) error {
	res, err := getSSE(ctx, c.s.url+c.path, http.Header{})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	ready()
	return followed(readSSE(res.Body, func(at time.Time, data []byte) error {
		var m struct {
			Params struct {
				Update struct {
					SessionUpdate string
					Content       struct{ Text string }
				}
			}
			Result struct{ StopReason string }
		}
		if err := json.Unmarshal(data, &m); err != nil {
			return err
		}
		got := message{at: at}
		if m.Params.Update.SessionUpdate == "agent_message_chunk" {
			got.delta = m.Params.Update.Content.Text
		}
		if m.Result.StopReason == "end_turn" {
			got.end = "completed"
		}
		if see(got) {
			return errLast
		}
		return nil
	}))
}

// end asks the server to end the agent. Like the server's own client it waits
// only briefly for the response, which may never arrive.
func (c *acpConversation) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, c.s.url+c.path, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	if err != nil {
		return err
	}
	return res.Body.Close()
}
