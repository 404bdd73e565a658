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
	"strings"
	"syscall"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
)

// errNoServer reports that no server uses the data directory.
var errNoServer = errors.New("no server is running")

// errStartServer is errNoServer for a command that needs the server.
var errStartServer = errors.New("no server is running; start it with 'runnel serve'")

// An admin sends requests to the running server of this user.
type admin struct {
	client *http.Client
	dial   dialFunc
	base   string // URL without the path
	token  string // sent as bearer token, if any
}

const adminTimeout = 30 * time.Second

// connect finds the running server. With RUNNEL_TOKEN and RUNNEL_URL it uses
// that address, otherwise the server's unix socket, where the server asks the
// kernel who the caller is. It returns errNoServer if no server listens there.
// No file stores the server's address: an agent could rewrite every file that
// this user can write.
func connect(ctx context.Context, c config) (*admin, error) {
	token := os.Getenv("RUNNEL_TOKEN")
	if url := os.Getenv("RUNNEL_URL"); token != "" && url != "" {
		return newAdmin(strings.TrimSuffix(url, "/"), token, dialServer), nil
	}
	if c.Socket == "" {
		return nil, errNoServer
	}
	ad := newAdmin("http://localhost", token, func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", c.Socket)
	})
	conn, err := ad.dial(ctx, "", "")
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, errNoServer
	case err != nil:
		return nil, fmt.Errorf("reach the server through %s: %w", c.Socket, err)
	}
	_ = conn.Close()
	return ad, nil
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// newAdmin returns an admin that checks, after each dial, who listens at the
// other end.
func newAdmin(base, token string, dial dialFunc) *admin {
	ad := &admin{base: base, token: token}
	ad.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if err := auth.CheckServer(c); err != nil {
			c.Close()
			return nil, fmt.Errorf("%w. Nothing was sent to that process; stop it and start the server again", err)
		}
		return c, nil
	}
	ad.client = &http.Client{Timeout: adminTimeout, Transport: &http.Transport{
		Proxy: proxyOf, DialContext: ad.dial, DisableKeepAlives: true,
	}}
	return ad
}

// maxAnswer is the maximum size of a response, in bytes.
const maxAnswer = 64 << 20

// request returns a request with in, unless in is nil, as its JSON body.
func (ad *admin) request(ctx context.Context, method, path string, in any) (*http.Request, error) {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, ad.base+path, body)
	if err != nil {
		return nil, err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

// send sends a request with the given client. It returns a response that
// reports an error as that error. The caller closes the body of the response.
func (ad *admin) send(ctx context.Context, client *http.Client, method, path string, in any) (*http.Response, error) {
	req, err := ad.request(ctx, method, path, in)
	if err != nil {
		return nil, err
	}
	return ad.answer(client, req)
}

// answer sends a request with this admin's credential. It returns a response
// that reports an error as that error.
func (ad *admin) answer(client *http.Client, req *http.Request) (*http.Response, error) {
	if ad.token != "" {
		req.Header.Set("Authorization", "Bearer "+ad.token)
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("reach the server: %w", err)
	}
	if res.StatusCode < 300 {
		return res, nil
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the server's answer: %w", err)
	}
	return nil, serverError(res.StatusCode, data)
}

// download copies a response of any length to w. A response that breaks off is
// an error.
func (ad *admin) download(ctx context.Context, path string, w io.Writer) error {
	res, err := ad.send(ctx, &http.Client{Transport: ad.client.Transport}, http.MethodGet, path, nil) // a long download may take longer than adminTimeout
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(w, res.Body); err != nil {
		return fmt.Errorf("copy the server's answer: %w", err)
	}
	return nil
}

// upload sends a file of any length and decodes the response into out.
func (ad *admin) upload(ctx context.Context, path string, file io.Reader, out any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, ad.base+path, file)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	res, err := ad.answer(&http.Client{Transport: ad.client.Transport}, req) // a large file may take longer than adminTimeout
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(out); err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	return nil
}

// do sends a request and decodes the response into out, unless out is nil. If
// out is a *[]byte, do stores the response unchanged.
func (ad *admin) do(ctx context.Context, method, path string, in, out any) error {
	req, err := ad.request(ctx, method, path, in)
	if err != nil {
		return err
	}
	return ad.decode(ad.client, req, out)
}

// decode sends a request and decodes the response into out, as do does.
func (ad *admin) decode(client *http.Client, req *http.Request, out any) error {
	res, err := ad.answer(client, req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	if file, ok := out.(*[]byte); ok {
		*file = data
		return nil
	}
	if out == nil || len(data) == 0 {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	return nil
}

// agentTimeout is how long the server may take to answer a request that starts
// an agent.
const agentTimeout = 3 * time.Minute

// create sends a request that creates something and may start an agent. The
// server carries out repetitions of the request with the same key once.
func (ad *admin) create(ctx context.Context, path, key string, in, out any) error {
	req, err := ad.request(ctx, http.MethodPost, path, in)
	if err != nil {
		return err
	}
	req.Header.Set("Idempotency-Key", key)
	return ad.decode(&http.Client{Transport: ad.client.Transport, Timeout: agentTimeout}, req, out)
}

func (ad *admin) get(ctx context.Context, path string, out any) error {
	return ad.do(ctx, http.MethodGet, path, nil, out)
}

func (ad *admin) post(ctx context.Context, path string, in, out any) error {
	return ad.do(ctx, http.MethodPost, path, in, out)
}

// serverError returns the error that a response reports, with its error code.
func serverError(status int, body []byte) error {
	var answer struct {
		Error struct {
			Type    runnel.Code `json:"type"`
			Message string      `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &answer) != nil || answer.Error.Message == "" {
		return fmt.Errorf("the server answered with HTTP status %d", status)
	}
	if answer.Error.Type == runnel.Unauthorized {
		return runnel.Fail(runnel.Unauthorized, "the server does not accept this caller; stop the server, create a token with 'runnel token create' and set RUNNEL_TOKEN, and RUNNEL_URL if the server has no unix socket")
	}
	return runnel.Fail(runnel.Code(oneLine(string(answer.Error.Type), 40)), oneLine(answer.Error.Message, 2000))
}
