// Package load defines what the benchmark's agents write and how a reader
// recognises it.
//
// A prompt contains a [Plan]. Each delta of the answer contains a [Stamp] with
// its number and the time at which it was written. The reader at the other end
// thus knows the latency of each delta and whether any is missing.
package load

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// A Plan describes one answer of an agent.
type Plan struct {
	Events int     // number of deltas
	Rate   float64 // deltas per second; 0 means as fast as possible
	Items  int     // number of whole messages before the deltas
	Tool   bool    // start a process in its own session, like the tools of agents
	Gate   string  // path of a unix socket; each delta waits for a byte from it; empty if they do not wait
}

const opening = "bench: "

// Prompt returns the prompt that requests p.
func (p Plan) Prompt() string {
	return fmt.Sprintf("%sevents=%d rate=%g items=%d tool=%t gate=@%s end", opening, p.Events, p.Rate, p.Items, p.Tool, url.PathEscape(p.Gate))
}

// Parse returns the last plan in text, which may be a prompt or a whole
// request.
func Parse(text string) (p Plan, ok bool) {
	at := strings.LastIndex(text, opening)
	if at < 0 {
		return Plan{}, false
	}
	var gate string
	if _, err := fmt.Sscanf(text[at+len(opening):], "events=%d rate=%g items=%d tool=%t gate=%s end", &p.Events, &p.Rate, &p.Items, &p.Tool, &gate); err != nil {
		return Plan{}, false
	}
	var err error
	p.Gate, err = url.PathUnescape(strings.TrimPrefix(gate, "@"))
	return p, err == nil
}

// Write calls emit for each delta of p, at its time and with its text, until
// ctx ends. It returns how many deltas it emitted.
func (p Plan) Write(ctx context.Context, emit func(text string) error) (n int, err error) {
	pass := func() error { return nil }
	if p.Gate != "" {
		gate, err := new(net.Dialer).DialContext(ctx, "unix", p.Gate)
		if err != nil {
			return 0, err
		}
		defer gate.Close()
		defer context.AfterFunc(ctx, func() { _ = gate.Close() })() // unblocks pass
		pass = func() error {
			_, err := io.ReadFull(gate, make([]byte, 1))
			return err
		}
	}
	start := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n < p.Events {
		if err := pass(); err != nil {
			return n, err
		}
		if p.Rate > 0 {
			timer.Reset(time.Until(start.Add(time.Duration(float64(n) / p.Rate * float64(time.Second)))))
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil { // also if the delta is late, so that its timer has fired
			return n, ctx.Err()
		}
		if err := emit(Stamp{n, time.Now()}.String()); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// A Stamp holds the number of a delta, from 0, and when it was written.
type Stamp struct {
	N  int
	At time.Time
}

// String returns the delta's text. It needs no escapes in JSON.
func (s Stamp) String() string { return fmt.Sprintf("%d@%d; ", s.N, s.At.UnixNano()) }

// Stamps returns all stamps in text, in order.
func Stamps(text string) (out []Stamp) {
	for part := range strings.SplitSeq(text, ";") {
		number, at, ok := strings.Cut(strings.TrimSpace(part), "@")
		if !ok {
			continue
		}
		n, err := strconv.Atoi(number)
		nanos, err2 := strconv.ParseInt(at, 10, 64)
		if err == nil && err2 == nil {
			out = append(out, Stamp{n, time.Unix(0, nanos)})
		}
	}
	return out
}
