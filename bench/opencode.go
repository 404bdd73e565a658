package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// opencode is the server of npm's opencode-ai. It is agent and server in one
// program, so it uses the model directly.
type opencode struct {
	w       *workspace
	program string
	home    string

	url    string
	daemon *daemon
}

func newOpencode(w *workspace, model string) (*opencode, error) {
	program, err := w.peerProgram("opencode", "opencode")
	if err != nil {
		return nil, err
	}
	home, err := w.fresh("home")
	if err != nil {
		return nil, err
	}
	limit := map[string]any{"context": 200_000, "output": 32_000}
	config, err := json.Marshal(map[string]any{
		"autoupdate": false, "share": "disabled", "model": "bench/bench", "small_model": "bench/bench", "enabled_providers": []string{"bench"},
		"provider": map[string]any{"bench": map[string]any{
			"npm": "@ai-sdk/anthropic", "name": "bench", "options": map[string]any{"baseURL": model + "/v1", "apiKey": "dummy"},
			"models": map[string]any{"bench": map[string]any{"name": "bench", "limit": limit}},
		}},
	})
	if err != nil {
		return nil, err
	}
	return &opencode{w: w, program: program, home: home}, os.WriteFile(filepath.Join(home, "opencode.json"), config, 0o600)
}

func (s *opencode) name() string { return "opencode" }

func (s *opencode) start(ctx context.Context) error {
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, s.program, "serve", "--port", strconv.Itoa(port))
	cmd.Dir = s.home
	cmd.Env = s.w.environ(s.home, s.home, "OPENCODE_CONFIG="+filepath.Join(s.home, "opencode.json"), "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_AUTOUPDATE=1")
	s.url = fmt.Sprintf("http://127.0.0.1:%d", port)
	s.daemon, err = launch(cmd, func(io.Reader) error { return answers(ctx, s.url+"/session") })
	return err
}

func (s *opencode) kill()                   { s.daemon.kill() }
func (s *opencode) stop()                   { s.daemon.stop() }
func (s *opencode) servers() ([]int, error) { return []int{s.daemon.pid()}, nil }

func (s *opencode) open(ctx context.Context) (conversation, error) {
	var made struct{ ID string }
	err := postJSON(ctx, s.url+"/session", http.Header{}, map[string]any{}, &made)
	return &opencodeSession{s, made.ID}, err
}

type opencodeSession struct {
	s  *opencode
	id string
}

func (c *opencodeSession) prompt(ctx context.Context, text string) error {
	return postJSON(ctx, c.s.url+"/session/"+c.id+"/prompt_async", http.Header{}, map[string]any{
		"model": map[string]any{"providerID": "bench", "modelID": "bench"},
		"parts": []any{map[string]any{"type": "text", "text": text}},
	}, nil)
}

// follow reads the stream that opencode has for all sessions. It contains no
// earlier events.
func (c *opencodeSession) follow(ctx context.Context, _ string, ready func(), see func(message) bool) error {
	res, err := getSSE(ctx, c.s.url+"/event", http.Header{})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	ready()
	return followed(readSSE(res.Body, func(at time.Time, data []byte) error {
		var e struct {
			Type       string
			Properties struct{ SessionID, Field, Delta string }
		}
		if err := json.Unmarshal(data, &e); err != nil {
			return err
		}
		m := message{at: at}
		switch {
		case e.Properties.SessionID != c.id:
			return nil
		case e.Type == "message.part.delta" && e.Properties.Field == "text":
			m.delta = e.Properties.Delta
		case e.Type == "session.idle":
			m.end = "completed"
		}
		if see(m) {
			return errLast
		}
		return nil
	}))
}

func (c *opencodeSession) end(context.Context) error { return nil } // a session has no process
