package main

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/turnview"
	"github.com/runnel-dev/runnel/universal"
	"github.com/runnel-dev/runnel/upsert"
)

// A sink prints the events of a run in one of the output formats.
type sink interface {
	event(ev event.Event) error
	close() error // after the last event
}

// outputFormats are the values of --output.
var outputFormats = []string{"text", "events", "upserts", "universal"}

// Times for which a call runs before its row appears. Rows of short calls would
// flicker. If the call needs an approval, the question shows more than its row.
const (
	holdRow      = 120 * time.Millisecond
	holdAskedRow = 300 * time.Millisecond
)

// sink returns the sink for one of outputFormats. dir is the folder in which the
// agent works. kind is the name of the agent in the universal API. results
// reports whether universal events have the arguments and outputs of tools.
func (a *app) sink(f runFlags, dir, kind string, results bool) sink {
	switch f.output {
	case "events":
		return eventLines{a.encoder()}
	case "upserts":
		return newUpsertLines(a.encoder())
	case "universal":
		return &universalLines{enc: a.encoder(), stream: universal.Stream{AgentKind: kind, Results: results}}
	}
	if file := a.drawable(); file != nil && !f.quiet {
		cfg := turnview.Config{Dir: dir, Verbose: f.chats, Hold: holdRow, Hint: "Ctrl-C cancels", Brief: true}
		if f.ask {
			cfg.Hold = holdAskedRow
		}
		return newLiveView(a, file, cfg)
	}
	v := newTextView(a, f.quiet, f.chats)
	v.asks = f.ask
	return v
}

// eventLines prints events unchanged.
type eventLines struct{ enc *json.Encoder }

func (l eventLines) event(ev event.Event) error { return l.enc.Encode(ev) }
func (l eventLines) close() error               { return nil }

// universalLines prints the flat envelope of the universal API.
type universalLines struct {
	enc    *json.Encoder
	stream universal.Stream
}

func (l *universalLines) event(ev event.Event) error {
	for _, u := range l.stream.Push(ev) {
		if err := l.enc.Encode(u); err != nil {
			return err
		}
	}
	return nil
}

func (l *universalLines) close() error { return nil }

// upsertFrame is a line of the format "upserts". A WebSocket sends the same
// frames.
type upsertFrame struct {
	Type    string     `json:"type"`
	Payload upsert.Out `json:"payload"`
}

// upsertLines prints whole items at a limited rate. A timer prints delayed
// items if no event does so first.
type upsertLines struct {
	mu    sync.Mutex // guards the rest
	enc   *json.Encoder
	pacer upsert.Pacer
	timer *time.Timer
	err   error
	over  bool
}

func newUpsertLines(enc *json.Encoder) *upsertLines {
	l := &upsertLines{enc: enc}
	l.timer = time.AfterFunc(time.Hour, l.due)
	l.timer.Stop()
	return l
}

func (l *upsertLines) event(ev event.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write(l.pacer.Push(ev, time.Now()))
	return l.err
}

func (l *upsertLines) due() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.write(l.pacer.Flush(time.Now()))
	}
}

// write prints outs and sets the timer for items that are still delayed. The
// caller holds l.mu.
func (l *upsertLines) write(outs []upsert.Out) {
	for _, o := range outs {
		if l.err == nil {
			l.err = l.enc.Encode(upsertFrame{o.Frame(), o})
		}
	}
	if at, ok := l.pacer.Due(); ok {
		l.timer.Reset(time.Until(at))
	} else {
		l.timer.Stop()
	}
}

func (l *upsertLines) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write(l.pacer.Close(time.Now()))
	l.over = true
	l.timer.Stop()
	return l.err
}
