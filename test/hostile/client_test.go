//go:build linux

package hostile

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/event"
)

// client follows one session as a program would: it resumes by position
// whenever the stream breaks off, and answers what the agent asks.
type client struct {
	w       *world
	session string
	events  []event.Event // what until has gone through of all that it has seen, in the order in which it did
	last    int64         // position of what it has seen; belongs to run
	answers bool
	quit    context.CancelFunc
	done    chan struct{}
	grown   chan event.Event
}

// follow is a client that allows everything.
func (w *world) follow(session string) *client { return w.open(session, true) }

// watch is one that answers nothing.
func (w *world) watch(session string) *client { return w.open(session, false) }

func (w *world) open(session string, answers bool) *client {
	ctx, quit := context.WithCancel(context.Background())
	c := &client{w: w, session: session, answers: answers, quit: quit, done: make(chan struct{}), grown: make(chan event.Event, 100_000)}
	go c.run(ctx)
	return c
}

func (c *client) run(ctx context.Context) {
	defer close(c.done)
	pause := time.NewTicker(5 * time.Millisecond)
	defer pause.Stop()
	for ctx.Err() == nil {
		c.read(ctx)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
}

// read follows the stream until it breaks.
func (c *client) read(ctx context.Context) {
	res, err := c.w.do(ctx, "GET", fmt.Sprintf("/api/session/%s/events?after=%d", c.session, c.last), nil)
	if err != nil {
		return
	}
	defer res.Body.Close()
	lines := bufio.NewReaderSize(res.Body, 64<<10)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var ev event.Event
		if json.Unmarshal([]byte(data), &ev) != nil {
			continue // the frame that opens the stream
		}
		c.last = ev.Seq
		c.grown <- ev
		if b, ok := ev.Body.(event.ApprovalRequested); ok && c.answers {
			go c.decide(b.Approval.ID)
		}
	}
}

// decide allows what was asked, also through a server that is not there yet.
func (c *client) decide(id string) {
	pause := time.NewTicker(10 * time.Millisecond)
	defer pause.Stop()
	for range 1000 {
		code, ok := c.w.call("POST", "/api/session/"+c.session+"/approvals/"+id, map[string]any{"choice": "allow_once"}, nil)
		if ok && code != 503 {
			return
		}
		<-pause.C
	}
}

// send begins a turn.
func (c *client) send(prompt string) string {
	c.w.t.Helper()
	var sent struct {
		TurnID string `json:"turnId"`
		Error  any    `json:"error"`
	}
	if code, ok := c.w.call("POST", "/api/session/"+c.session+"/send", map[string]any{"content": prompt}, &sent); !ok || code != 202 {
		c.w.t.Fatalf("send: %d %v", code, sent.Error)
	}
	return sent.TurnID
}

// until waits for an event.
func (c *client) until(what string, want func(event.Event) bool) event.Event {
	c.w.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		select {
		case ev := <-c.grown:
			c.events = append(c.events, ev)
			if want(ev) {
				return ev
			}
		case <-late.C:
			c.w.t.Fatalf("session %s: no %s in %v", c.session, what, patience)
		}
	}
}

func (c *client) end(turn string) event.Event {
	c.w.t.Helper()
	return c.until("end of the turn", func(ev event.Event) bool { return ev.Turn == turn && event.Ends(ev.Body) })
}

// leave ends the client.
func (c *client) leave() {
	c.quit()
	<-c.done
}

// log returns the session's log as a new client reads it.
func (w *world) log(session string, head int64) []event.Event {
	w.t.Helper()
	c := w.watch(session)
	defer c.leave()
	c.until("end of the log", func(ev event.Event) bool { return ev.Seq >= head })
	c.leave()
	return c.events
}

// agrees compares what the client has seen of a turn with the log: everything,
// once, in order. The log may have dropped the deltas of items that are done.
func (c *client) agrees(turn string, log []event.Event) {
	t := c.w.t
	t.Helper()
	seen := make(map[int64]event.Event)
	last := int64(0)
	for _, ev := range c.events {
		if ev.Seq <= last {
			t.Errorf("seen twice or out of order: %d after %d", ev.Seq, last)
		}
		last = ev.Seq
		seen[ev.Seq] = ev
	}
	kept := make(map[int64]bool)
	ends, text := 0, make(map[string]string)
	for _, ev := range log {
		kept[ev.Seq] = true
		if ev.Seq > last {
			continue
		}
		if got, ok := seen[ev.Seq]; !ok {
			t.Errorf("missed: %d %s", ev.Seq, event.Type(ev.Body))
		} else if !reflect.DeepEqual(got, ev) {
			t.Errorf("%d was shown as\n%+v\nand is\n%+v", ev.Seq, got, ev)
		}
		if ev.Turn == turn && event.Ends(ev.Body) {
			ends++
		}
	}
	for _, ev := range c.events {
		if b, ok := ev.Body.(event.ItemDelta); ok {
			text[b.ItemID] += b.DeltaContent
		} else if !kept[ev.Seq] {
			t.Errorf("shown and not in the log: %d %s", ev.Seq, event.Type(ev.Body))
		}
	}
	if ends != 1 {
		t.Errorf("turn %s has %d ends", turn, ends)
	}
	for _, ev := range log {
		b, ok := ev.Body.(event.ItemDone)
		if !ok || text[b.ItemID] == "" {
			continue
		}
		if m, ok := b.FinalItem.(event.Message); ok && m.Content != text[b.ItemID] {
			t.Errorf("%s: deltas say %q, the item %q", b.ItemID, text[b.ItemID], m.Content)
		}
	}
}
