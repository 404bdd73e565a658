package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/coder/websocket"
)

// The sessions of a filled data directory with many events each.
const (
	manyTurns = "01990000-0000-7000-a000-000000000001"
	oneTurn   = "01990000-0000-7000-a000-000000000002"
)

// opening is how many entries the page requests when it opens a session.
const opening = 100

// longRows measures how long sessions with many events take to open at their
// end, and to read on from there.
func (b *bench) longRows(ctx context.Context) error {
	events := b.size.long
	b.w.logf("filling a data directory with two sessions of %s events", thousands(events))
	s, err := b.filled(ctx, func(f *filler) error {
		return errors.Join(f.long(ctx, manyTurns, events, 200), f.long(ctx, oneTurn, events, events))
	})
	if err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	defer s.stop()
	for _, c := range []struct{ id, what string }{
		{manyTurns, fmt.Sprintf("a session of %s events in turns of 200", thousands(events))},
		{oneTurn, fmt.Sprintf("a session of %s events in one turn", thousands(events))},
	} {
		var opened, rest, paged []time.Duration
		for i := range 1 + 3*b.size.rounds {
			took, first, err := s.openAtEnd(ctx, c.id)
			if err != nil {
				return fmt.Errorf("open %s: %w", c.what, err)
			}
			opened = append(opened, took)
			if i > 0 {
				rest = append(rest, took)
			}
			began := time.Now()
			if _, _, err := s.get(ctx, fmt.Sprintf("/api/session/%s/items?before=%d&limit=200", c.id, first)); err != nil {
				return err
			}
			paged = append(paged, time.Since(began))
		}
		b.report.add(row{
			ID: c.what + "/end", What: "open " + c.what + " at its end, WebSocket as the page does", Ours: millis(median(rest)), Numbers: []number{atMost("", ms(median(rest)), "ms", 50)},
			Note: fmt.Sprintf("from session:subscribe to the last part of the history; median of %d; the first time, without checkpoints and caches, %s", len(rest), millis(opened[0])),
		}, row{
			ID: c.what + "/before", What: "the page of 200 entries before that", Ours: millis(median(paged)), Numbers: []number{atMost("", ms(median(paged)), "ms", 50)}, Note: fmt.Sprintf("median of %d", len(paged)),
		})
	}
	return nil
}

// openAtEnd opens a session as the page does, on a connection that is open. It
// returns the position before which the session has older entries.
func (s *runnel) openAtEnd(ctx context.Context, id string) (took time.Duration, first int64, err error) {
	conn, _, err := websocket.Dial(ctx, "ws"+s.url[len("http"):]+"/api/ws", &websocket.DialOptions{HTTPHeader: s.header()}) //nolint:bodyclose // Dial closes it
	if err != nil {
		return 0, 0, err
	}
	defer conn.CloseNow()
	conn.SetReadLimit(-1)
	if err := conn.Write(ctx, websocket.MessageText, []byte(`{"type":"session:hello","append":true}`)); err != nil {
		return 0, 0, err
	}
	var began time.Time
	for {
		_, data, err := conn.Read(ctx)
		if err != nil {
			return 0, 0, err
		}
		var f struct {
			Type  string
			First int64
			Done  bool
		}
		if err := json.Unmarshal(data, &f); err != nil {
			return 0, 0, err
		}
		switch f.Type {
		case "session:hello:ack":
			began = time.Now()
			subscribe := fmt.Sprintf(`{"type":"session:subscribe","sessionId":%q,"limit":%d}`, id, opening)
			if err := conn.Write(ctx, websocket.MessageText, []byte(subscribe)); err != nil {
				return 0, 0, err
			}
		case "session:history":
			if f.First > 0 {
				first = f.First
			}
			if f.Done {
				return time.Since(began), first, nil
			}
		case "error":
			return 0, 0, fmt.Errorf("%s", data)
		}
	}
}
