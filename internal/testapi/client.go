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

// Client follows one session as a client program would. It resumes from its
// cursor whenever the stream breaks, and answers approvals.
type Client struct {
	Session string
	Events  []event.Event // received events that Until has processed, in the order received
	Answers atomic.Bool   // whether the client allows approvals
	s       *Server
	last    int64 // cursor: seq of the last event received; used by run only
	quit    context.CancelFunc
	done    chan struct{}
	grown   chan event.Event
}

// Follow returns a client that allows every approval.
func (s *Server) Follow(session string) *Client { return s.open(session, true) }

// Watch returns a client that answers no approvals.
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

// read receives events until the stream breaks.
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
			continue // the first frame of the stream is no event
		}
		c.last = ev.Seq
		c.grown <- ev
		if b, ok := ev.Body.(event.ApprovalRequested); ok && c.Answers.Load() {
			go c.Decide(b.Approval)
		}
	}
}

// Decide allows an approval. It retries while the server is down or starting.
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

// Send sends a prompt and returns the id of the turn that it starts.
func (c *Client) Send(prompt string) (turn string) {
	c.s.T.Helper()
	return c.s.Send(c.Session, prompt)
}

// Until processes received events up to the first one that want accepts, and
// returns that one. It fails the test after Timeout.
func (c *Client) Until(what string, want func(event.Event) bool) event.Event {
	c.s.T.Helper()
	late := time.NewTimer(Timeout)
	defer late.Stop()
	for {
		select {
		case ev := <-c.grown:
			c.Events = append(c.Events, ev)
			if want(ev) {
				return ev
			}
		case <-late.C:
			c.s.T.Fatalf("session %s: no %s in %v", c.Session, what, Timeout)
		}
	}
}

// End waits for the end of a turn and returns its last event.
func (c *Client) End(turn string) event.Event {
	c.s.T.Helper()
	return c.Until("end of the turn", func(ev event.Event) bool { return ev.Turn == turn && event.Ends(ev.Body) })
}

// Leave stops the client.
func (c *Client) Leave() {
	c.quit()
	<-c.done
}

// Agrees compares the events that the client has received with the log. Each
// event must have arrived exactly once and in order, and the turn must have one
// end. The log may have dropped the deltas of completed items.
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

// addsUp checks that only deltas were received and are not in the log, and that
// the deltas of a message add up to its text.
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
