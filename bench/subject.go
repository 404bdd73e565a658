package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/coder/websocket"
)

// A subject is a measured program that runs agents for clients.
type subject interface {
	name() string

	// start starts the server. It uses the data of an earlier start, if there
	// was one.
	start(ctx context.Context) error

	// open starts a conversation with the agent that writes the deltas of a
	// load.Plan.
	open(ctx context.Context) (conversation, error)

	// servers returns the ids of the subject's processes between agents and
	// clients.
	servers() ([]int, error)

	kill() // kills only the server, with SIGKILL
	stop()
}

// A conversation is a conversation with one agent.
type conversation interface {
	// prompt returns once the prompt is accepted.
	prompt(ctx context.Context, text string) error

	// follow calls see with every message until see returns true or the
	// connection ends. It starts with the first message if the subject stores
	// messages. It calls ready when it can no longer miss new messages.
	follow(ctx context.Context, transport string, ready func(), see func(message) (last bool)) error

	// end stops the agent.
	end(ctx context.Context) error
}

var errLast = errors.New("that was the last message")

// followed returns nil if see ended the stream, and otherwise err.
func followed(err error) error {
	if errors.Is(err, errLast) {
		return nil
	}
	return err
}

// readSSE calls f with the data of each event of a stream, and the time at
// which it arrived.
func readSSE(body io.Reader, f func(at time.Time, data []byte) error) error {
	lines := bufio.NewReaderSize(body, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		at := time.Now()
		if err != nil {
			return err
		}
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if err := f(at, bytes.TrimSpace(data)); err != nil {
				return err
			}
		}
	}
}

// getSSE opens a stream. The caller must close its body.
func getSSE(ctx context.Context, url string, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header = header.Clone()
	req.Header.Set("Accept", "text/event-stream")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(res.Body, 1000)) // only to explain the status
		_ = res.Body.Close()
		return nil, fmt.Errorf("GET %s: %s %s", url, res.Status, said)
	}
	return res, nil
}

// A reader follows a conversation in the background.
type reader struct {
	tally *tally
	done  chan error
}

// finish waits until the reader has ended. An error is no failure: the tally
// counts the missing deltas and stores the reason.
func (r *reader) finish() {
	err := <-r.done
	switch code := websocket.CloseStatus(err); {
	case err == nil:
	case code != -1:
		r.tally.cut = fmt.Sprintf("closed by the server with %d", code)
	case errors.Is(err, context.Canceled):
		r.tally.cut = "nothing more came"
	default:
		r.tally.cut = "the connection broke off"
	}
}

// read starts a reader of c and returns once it can miss no new message. The
// reader sleeps for the time pause after each delta. It ends with the turn, or
// when no message arrives within the time quiet.
func read(ctx context.Context, c conversation, transport string, events int, pause, quiet time.Duration) (*reader, error) {
	r := &reader{newTally(events), make(chan error, 1)}
	ctx, cancel := context.WithCancel(ctx)
	silence := time.AfterFunc(quiet, cancel)
	open := make(chan struct{})
	go func() {
		defer cancel()
		defer silence.Stop()
		r.done <- c.follow(ctx, transport, func() { close(open) }, func(m message) bool {
			silence.Reset(quiet)
			r.tally.add(m)
			if m.delta != "" && pause > 0 {
				time.Sleep(pause)
			}
			return m.end != ""
		})
	}()
	select {
	case <-open:
		return r, nil
	case err := <-r.done:
		return nil, fmt.Errorf("follow by %s: %w", transport, err)
	}
}
