package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/termtext"
)

// place says where a running server is, in a file of its data directory. It
// holds no secret.
type place struct {
	URL string `json:"url"`
	PID int    `json:"pid"`
}

func placeFile(data string) string { return filepath.Join(data, "server.json") }

// writePlace tells other commands of this user where the server is. The caller
// has locked the data directory.
func writePlace(data string, p place) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return os.WriteFile(placeFile(data), append(text, '\n'), 0o600)
}

func readPlace(data string) (p place, err error) {
	text, err := os.ReadFile(placeFile(data))
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal(text, &p)
}

// errNoServer means that no server uses the data directory.
var errNoServer = errors.New("no server is running")

// An admin talks to the running server of this user.
type admin struct {
	client *http.Client
	base   string // before the path
	token  string // sent as bearer token, if any
}

const adminTimeout = 30 * time.Second

// connect finds the running server: through its unix socket, where the system
// tells it who calls, or with RUNNEL_TOKEN at its address. It returns
// errNoServer if there is none.
func connect(ctx context.Context, c config) (*admin, error) {
	if token := os.Getenv("RUNNEL_TOKEN"); token != "" {
		p, err := readPlace(c.Data)
		if url := os.Getenv("RUNNEL_URL"); url != "" {
			p, err = place{URL: strings.TrimSuffix(url, "/")}, nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil, errNoServer
		} else if err != nil {
			return nil, err
		}
		return &admin{&http.Client{Timeout: adminTimeout}, p.URL, token}, nil
	}
	if c.Socket == "" {
		return nil, errNoServer
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", c.Socket)
	}
	conn, err := dial(ctx, "", "")
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, errNoServer
	case err != nil:
		return nil, fmt.Errorf("reach the server through %s: %w", c.Socket, err)
	}
	_ = conn.Close()
	return &admin{
		client: &http.Client{Timeout: adminTimeout, Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}},
		base:   "http://localhost",
	}, nil
}

// maxAnswer bounds an answer of the server, in bytes.
const maxAnswer = 64 << 20

// do sends a request and decodes the answer into out.
func (ad *admin) do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, ad.base+path, body)
	if err != nil {
		return err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if ad.token != "" {
		req.Header.Set("Authorization", "Bearer "+ad.token)
	}
	res, err := ad.client.Do(req)
	if err != nil {
		return fmt.Errorf("reach the server: %w", err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	if res.StatusCode >= 300 {
		return serverError(res.StatusCode, data)
	}
	if out == nil || len(data) == 0 {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	return nil
}

func (ad *admin) get(ctx context.Context, path string, out any) error {
	return ad.do(ctx, http.MethodGet, path, nil, out)
}

func (ad *admin) post(ctx context.Context, path string, in, out any) error {
	return ad.do(ctx, http.MethodPost, path, in, out)
}

// serverError makes the error in an answer ours again.
func serverError(status int, body []byte) error {
	var answer struct {
		Error struct {
			Type    runnel.Code `json:"type"`
			Message string      `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &answer) != nil || answer.Error.Message == "" {
		return fmt.Errorf("the server answered %d", status)
	}
	if answer.Error.Type == runnel.Unauthorized {
		return runnel.Fail(runnel.Unauthorized, "the server does not take this caller; make a token while it is stopped and set RUNNEL_TOKEN")
	}
	return runnel.Fail(answer.Error.Type, termtext.Clean(answer.Error.Message))
}
