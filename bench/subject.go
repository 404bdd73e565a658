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

// A subject is a program under test that runs agents for its clients.
type subject interface {
	name() string

	// start runs its server, on the data of the one before if there was one.
	start(ctx context.Context) error

	// open begins a conversation with the agent that writes what a load.Plan
	// asks for.
	open(ctx context.Context) (conversation, error)

	// servers are its processes that stand between agents and clients.
	servers() ([]int, error)

	kill() // the server only, as the system would
	stop()
}

// A conversation is one with one agent.
type conversation interface {
	// prompt returns once the prompt is accepted.
	prompt(ctx context.Context, text string) error

	// follow calls see with everything that comes, from the start where the
	// subject keeps it, until see says that it was the last or the connection
	// ends. It calls ready when nothing that comes later can be missed.
	follow(ctx context.Context, transport string, ready func(), see func(message) (last bool)) error

	// end ends the agent.
	end(ctx context.Context) error
}

var errLast = errors.New("that was the last message")

// followed makes the end that see asked for no error.
func followed(err error) error {
	if errors.Is(err, errLast) {
		return nil
	}
	return err
}

// readSSE calls f with the data of each event of a stream, and when it came.
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

// getSSE opens a stream; the caller closes its body.
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
		said, _ := io.ReadAll(io.LimitReader(res.Body, 1000)) // a help, not the error
		_ = res.Body.Close()
		return nil, fmt.Errorf("GET %s: %s %s", url, res.Status, said)
	}
	return res, nil
}

// A reader is one that follows a conversation in the background.
type reader struct {
	tally *tally
	done  chan error
}

// finish waits for the reader's end. What it lacks is counted, whatever ended
// it; the tally says what did.
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

// read begins to follow c and returns once nothing can be missed. The reader
// takes each message for pause and ends with the turn, or when nothing came for
// quiet.
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
