package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// silence is how long a stream may send nothing. The server sends a comment
// every 15 seconds.
const silence = 45 * time.Second

// A position is how far a reader has read the log of a session.
type position struct {
	seq int64
	log string // id of the log. Default: unknown
}

// errStop ends a stream whose reader wants no more events.
var errStop = errors.New("the reader stopped")

// errReset means that the server has another log than the one that the events
// so far came from.
type errReset struct{ reason string }

func (e *errReset) Error() string {
	return "the events after those that were shown are not known: " + e.reason
}

// events yields the events of a session after a position, in the order of the
// log, until ctx ends. It connects again when the connection breaks or the
// server restarts, and continues where it was. The last pair has the error, if
// there is one: of a server that is away for longer than l.wait, or of a
// session that cannot be read.
func (l *serverLink) events(ctx context.Context, session string, after int64) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		at := position{seq: after}
		var out outage
		for {
			err := l.read(ctx, session, &at, func() { out = outage{}; l.found(true) }, func(ev event.Event) bool { return yield(ev, nil) })
			_, reset := errors.AsType[*errReset](err)
			switch {
			case errors.Is(err, errStop):
				return
			case ctx.Err() != nil:
				err = ctx.Err()
			case !reset && (!answered(err) || busy(err)) && l.pause(ctx, &out, err):
				continue
			}
			yield(event.Event{}, err)
			return
		}
	}
}

// read reads events from one connection until it ends, moves *at and never
// returns nil. It calls opened once the server has begun the stream.
func (l *serverLink) read(ctx context.Context, session string, at *position, opened func(), f func(event.Event) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	alive := time.AfterFunc(silence, cancel)
	defer alive.Stop()
	q := url.Values{"after": {strconv.FormatInt(at.seq, 10)}}
	if at.log != "" {
		q.Set("logId", at.log)
	}
	client := &http.Client{Transport: l.ad.client.Transport} // a stream has no total time
	res, err := l.ad.send(ctx, client, http.MethodGet, sessionPath(session, "events?"+q.Encode()), nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	for fr, err := range sseFrames(res.Body) {
		if err != nil {
			return err
		}
		alive.Stop() // f may take long
		switch {
		case fr.name == "":
		case fr.name == "stream:open":
			if err := at.open(fr.data); err != nil {
				return err
			}
			opened()
		case fr.name == "stream:end":
			return ended(fr.data)
		case slices.Contains(event.Types(), fr.name): // a later server may send others
			var ev event.Event
			if err := json.Unmarshal(fr.data, &ev); err != nil {
				return runnel.Fail(runnel.InvalidStreamEvent, "the server sent an event that this program cannot read: "+oneLine(err.Error(), 300))
			}
			at.seq = ev.Seq
			if !f(ev) {
				return errStop
			}
		}
		alive.Reset(silence)
	}
	return io.ErrUnexpectedEOF
}

// open applies the first frame of a stream.
func (at *position) open(data []byte) error {
	var open struct {
		Resume struct {
			Status string `json:"status"`
			Reason string `json:"reason"`
			LogID  string `json:"logId"`
		} `json:"resume"`
	}
	if err := json.Unmarshal(data, &open); err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	switch open.Resume.Status {
	case "reset":
		return &errReset{oneLine(open.Resume.Reason, 300)}
	case "gap":
		return &errReset{"some of them no longer exist"}
	}
	at.log = open.Resume.LogID
	return nil
}

// ended returns the reason for which the server ended a stream.
func ended(data []byte) error {
	var end struct {
		Error *struct {
			Type    runnel.Code `json:"type"`
			Message string      `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(data, &end) == nil && end.Error != nil {
		return runnel.Fail(runnel.Code(oneLine(string(end.Error.Type), 40)), oneLine(end.Error.Message, 2000))
	}
	return io.EOF // the server stops
}

// sseFrame is a frame of a stream of server-sent events; a comment has no name.
type sseFrame struct {
	name string
	data []byte
}

// sseFrames yields the frames of a stream until it ends. A frame that is longer
// than maxAnswer is an error. The data of a frame is valid until the next one.
func sseFrames(r io.Reader) iter.Seq2[sseFrame, error] {
	return func(yield func(sseFrame, error) bool) {
		sc := bufio.NewScanner(r)
		sc.Buffer(make([]byte, 0, 64<<10), maxAnswer)
		var fr sseFrame
		for sc.Scan() {
			line := sc.Bytes()
			switch field, value, _ := bytes.Cut(line, []byte(":")); {
			case len(line) == 0:
				if !yield(fr, nil) {
					return
				}
				fr = sseFrame{data: fr.data[:0]}
			case string(field) == "event":
				fr.name = string(bytes.TrimPrefix(value, []byte(" ")))
			case string(field) == "data": // the server writes each frame in one line
				fr.data = append(fr.data[:0], bytes.TrimPrefix(value, []byte(" "))...)
			}
		}
		if err := sc.Err(); err != nil {
			yield(sseFrame{}, fmt.Errorf("read the server's stream: %w", err))
		}
	}
}
