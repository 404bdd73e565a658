package testapi

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/runnel-dev/runnel/event"
)

// Client follows one session as a program would: it resumes by position
// whenever the stream breaks off, and answers what the agent asks.
type Client struct {
	Session string
	Events  []event.Event // what Until has gone through of all that it has seen, in the order in which it did
	Answers atomic.Bool   // it allows what is asked
	s       *Server
	last    int64 // position of what it has seen; belongs to run
	quit    context.CancelFunc
	done    chan struct{}
	grown   chan event.Event
}

// Follow returns a client that allows everything.
func (s *Server) Follow(session string) *Client { return s.open(session, true) }

// Watch returns one that answers nothing.
func (s *Server) Watch(session string) *Client { return s.open(session, false) }

func (s *Server) open(session string, answers bool) *Client {
	ctx, quit := context.WithCancel(context.Background())
	c := &Client{s: s, Session: session, quit: quit, done: make(chan struct{}), grown: make(chan event.Event, 100_000)}
	c.Answers.Store(answers)
	go c.run(ctx)
	return c
}

func (c *Client) run(ctx context.Context) {
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
func (c *Client) read(ctx context.Context) {
	res, err := c.s.Do(ctx, "GET", fmt.Sprintf("/api/session/%s/events?after=%d", c.Session, c.last), nil)
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
		if b, ok := ev.Body.(event.ApprovalRequested); ok && c.Answers.Load() {
			go c.Decide(b.Approval)
		}
	}
}

// Decide allows what was asked, also through a server that is not there yet.
func (c *Client) Decide(a event.Approval) {
	i := max(0, slices.IndexFunc(a.Choices, func(ch event.Choice) bool { return ch.Kind == event.ChoiceAllowOnce }))
	pause := time.NewTicker(10 * time.Millisecond)
	defer pause.Stop()
	for range 1000 {
		code, ok := c.s.Call("POST", "/api/session/"+c.Session+"/approvals/"+a.ID, map[string]any{"choice": a.Choices[i].ID, "argumentsDigest": a.ArgumentsDigest}, nil)
		if ok && code != 503 {
			return
		}
		<-pause.C
	}
}

// Send begins a turn.
func (c *Client) Send(prompt string) (turn string) {
	c.s.T.Helper()
	return c.s.Send(c.Session, prompt)
}

// Until goes through what was seen, to an event that is wanted.
func (c *Client) Until(what string, want func(event.Event) bool) event.Event {
	c.s.T.Helper()
	late := time.NewTimer(Patience)
	defer late.Stop()
	for {
		select {
		case ev := <-c.grown:
			c.Events = append(c.Events, ev)
			if want(ev) {
				return ev
			}
		case <-late.C:
			c.s.T.Fatalf("session %s: no %s in %v", c.Session, what, Patience)
		}
	}
}

// End waits for the end of a turn.
func (c *Client) End(turn string) event.Event {
	c.s.T.Helper()
	return c.Until("end of the turn", func(ev event.Event) bool { return ev.Turn == turn && event.Ends(ev.Body) })
}

// Leave ends the client.
func (c *Client) Leave() {
	c.quit()
	<-c.done
}

// Agrees compares what the client has seen of a turn with the log: everything,
// once, in order. The log may have dropped the deltas of items that are done.
func (c *Client) Agrees(turn string, log []event.Event) {
	t := c.s.T
	t.Helper()
	seen := make(map[int64]event.Event)
	last := int64(0)
	for _, ev := range c.Events {
		if ev.Seq <= last {
			t.Errorf("seen twice or out of order: %d after %d", ev.Seq, last)
		}
		last = ev.Seq
		seen[ev.Seq] = ev
	}
	kept := make(map[int64]bool)
	ends := 0
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
	if ends != 1 {
		t.Errorf("turn %s has %d ends", turn, ends)
	}
	c.addsUp(kept, log)
}

// addsUp checks that what was shown and is not in the log are deltas only, and
// that a message's deltas are the message.
func (c *Client) addsUp(kept map[int64]bool, log []event.Event) {
	t := c.s.T
	t.Helper()
	text := make(map[string]string)
	for _, ev := range c.Events {
		if b, ok := ev.Body.(event.ItemDelta); ok {
			text[b.ItemID] += b.DeltaContent
		} else if !kept[ev.Seq] {
			t.Errorf("shown and not in the log: %d %s", ev.Seq, event.Type(ev.Body))
		}
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
