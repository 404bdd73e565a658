package main

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/universal"
	"github.com/runnel-dev/runnel/upsert"
)

// A sink shows the events of a run in one of the output formats.
type sink interface {
	event(ev event.Event) error
	close() error // after the last event
}

func (a *app) sink(f runFlags, p runnel.Provider, opt runnel.Options) (sink, error) {
	switch f.output {
	case "text":
		v := newTextView(a, f.quiet, f.chats)
		v.asks = f.ask
		return v, nil
	case "events":
		return eventLines{a.encoder()}, nil
	case "upserts":
		return newUpsertLines(a.encoder()), nil
	case "universal":
		return &universalLines{enc: a.encoder(), stream: universal.Stream{
			AgentKind: runnel.AgentKind(p), Results: opt.Extensions.Results(),
		}}, nil
	}
	return nil, usage("there is no output format %q; use text, events, upserts or universal", f.output)
}

// eventLines writes events as they are.
type eventLines struct{ enc *json.Encoder }

func (l eventLines) event(ev event.Event) error { return l.enc.Encode(ev) }
func (l eventLines) close() error               { return nil }

// universalLines writes the flat envelope.
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

// upsertFrame is a line of the format "upserts", the same as a frame of the
// WebSocket.
type upsertFrame struct {
	Type    string     `json:"type"`
	Payload upsert.Out `json:"payload"`
}

// upsertLines writes whole items, paced. What waits is written by a timer if no
// event comes first.
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

// write writes outs and sets the timer for what still waits; l.mu is held.
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
