package recordtest

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
)

// Session is the session id in the events of [Replayed] and [Live].
const Session = "recorded"

// A Step is one step of a conversation: an action of the user, or the events
// that the agent's connection returns. At most one of Prompt, Approval,
// Interrupt and Events is set.
type Step struct {
	At        time.Time
	Prompt    *runnel.Input // includes the turn's id
	Approval  string        // id of the approval that Decision answers
	Decision  runnel.Decision
	Interrupt bool
	Events    []event.Event
}

// byUser reports whether the step is an action of the user.
func (s Step) byUser() bool { return s.Prompt != nil || s.Approval != "" || s.Interrupt }

// Batching selects how many of the agent's events a session appends at once.
type Batching bool

// OneByOne stands for an agent that pauses after each event. AtOnce stands for
// an agent that prints everything before the session reads it.
const (
	OneByOne Batching = false
	AtOnce   Batching = true
)

// Live performs a conversation with a session, at the times of its steps. It
// returns the events that the session logged until the agent exited.
func Live(t *testing.T, provider string, steps []Step, batching Batching) (logged []event.Event) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if len(steps) > 0 {
			time.Sleep(time.Until(steps[0].At))
		}
		log := &gatedLog{gate: make(chan struct{}, 1)}
		log.gate <- struct{}{}
		agent := &player{name: provider, events: make(chan event.Event), closed: make(chan struct{})}
		s, err := runnel.Open(t.Context(), agent, runnel.Options{}, runnel.Config{ID: Session, Log: log, InterruptGrace: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range steps {
			time.Sleep(time.Until(step.At))
			if step.byUser() {
				synctest.Wait()
				if err := step.act(t, s); err != nil {
					t.Errorf("at %s: %v", step.At, err)
				}
				synctest.Wait()
				continue
			}
			agent.emit(log, step.Events, batching)
		}
		synctest.Wait()
		agent.exit()
		synctest.Wait()
		for ev, err := range log.Read(t.Context(), Session, 0) {
			if err != nil {
				t.Fatal(err)
			}
			logged = append(logged, ev)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return logged
}

// act performs the user's action.
func (s Step) act(t *testing.T, session *runnel.Session) error {
	switch {
	case s.Prompt != nil:
		_, err := session.Send(t.Context(), *s.Prompt)
		return err
	case s.Approval != "":
		d := s.Decision
		for _, a := range session.Status().Pending {
			if a.ID == s.Approval {
				d.ArgumentsDigest = a.ArgumentsDigest
			}
		}
		return session.Decide(t.Context(), s.Approval, d)
	}
	return session.Cancel(t.Context())
}

// gatedLog is a log whose Append blocks until the gate is open.
type gatedLog struct {
	runnel.Memory
	gate chan struct{} // contains one token while the gate is open
}

func (l *gatedLog) Append(ctx context.Context, session string, head int64, evs ...event.Event) error {
	<-l.gate
	defer func() { l.gate <- struct{}{} }()
	return l.Memory.Append(ctx, session, head, evs...)
}

// player is a provider and its only connection. It returns the events passed to
// emit.
type player struct {
	name   string
	events chan event.Event
	closed chan struct{}
}

func (p *player) Name() string                                              { return p.name }
func (p *player) Open(context.Context, runnel.Options) (runnel.Conn, error) { return p, nil }
func (p *player) Prompt(context.Context, string, runnel.Input) error        { return nil }
func (p *player) Interrupt(context.Context) error                           { return nil }
func (p *player) Decide(context.Context, string, runnel.Decision) error     { return nil }
func (p *player) Close() error                                              { return nil }

func (p *player) Next(context.Context) (event.Event, error) {
	select {
	case ev := <-p.events:
		return ev, nil
	case <-p.closed:
		return event.Event{}, io.EOF
	}
}

// maxBatch is less than the number of events that a session appends in one
// batch.
const maxBatch = 200

// emit passes events to the session. With AtOnce, the session appends the first
// event alone. The other events arrive meanwhile, and the session appends them
// in one batch.
func (p *player) emit(log *gatedLog, evs []event.Event, batching Batching) {
	for part := range slices.Chunk(evs, maxBatch) {
		if batching == AtOnce {
			<-log.gate
		}
		for _, ev := range part {
			p.events <- ev
			if batching == OneByOne {
				synctest.Wait()
			}
		}
		synctest.Wait()
		if batching == AtOnce {
			log.gate <- struct{}{}
		}
		synctest.Wait()
	}
}

// exit simulates the exit of the agent.
func (p *player) exit() { close(p.closed) }

// Steps returns the steps of a recording. Consecutive lines of the agent are
// one step.
func Steps(t *testing.T, tr agentconn.Translator, lines []runnel.Line) (steps []Step) {
	t.Helper()
	reader := agentconn.NewReader(tr)
	withdrawn := make(map[string]bool) // approvals that an interrupt withdrew
	for _, l := range lines {
		evs, interrupts := reader.Line(l)
		switch {
		case interrupts:
			for _, ev := range evs {
				if b, ok := ev.Body.(event.ApprovalResolved); ok {
					withdrawn[b.ApprovalID] = true
				}
			}
			steps = append(steps, Step{At: l.At, Interrupt: true})
		case l.Dir == runnel.DirOut && len(steps) > 0 && !steps[len(steps)-1].byUser():
			last := &steps[len(steps)-1]
			last.At, last.Events = l.At, append(last.Events, evs...)
		case l.Dir == runnel.DirOut:
			steps = append(steps, Step{At: l.At, Events: evs})
		case l.Dir == runnel.DirIn:
			for _, step := range userSteps(t, l.At, evs) {
				if !withdrawn[step.Approval] { // a withdrawal is part of the interrupt
					steps = append(steps, step)
				}
			}
		}
	}
	if evs := tr.Flush(); len(evs) > 0 {
		steps = append(steps, Step{At: steps[len(steps)-1].At, Events: evs})
	}
	return steps
}

// userSteps returns the user's actions that the events of a sent line
// represent.
func userSteps(t *testing.T, at time.Time, evs []event.Event) (steps []Step) {
	t.Helper()
	for _, ev := range evs {
		switch b := ev.Body.(type) {
		case event.ItemDone:
			m, ok := b.FinalItem.(event.Message)
			if !ok || b.ItemID != runnel.UserItemID(ev.Turn) {
				t.Fatalf("a sent line gives item %s, which is no prompt", b.ItemID)
			}
			steps = append(steps, Step{At: at, Prompt: input(ev.Turn, m)})
		case event.ApprovalResolved:
			if b.By == event.ByPolicy { // the session logs this by itself
				continue
			}
			steps = append(steps, Step{At: at, Approval: b.ApprovalID, Decision: runnel.Decision{Choice: b.Choice, By: b.By}})
		case event.ItemStart: // the start of the prompt's item
		default:
			t.Fatalf("a sent line gives %s, which no live session logs", event.Type(b))
		}
	}
	return steps
}

// input returns the prompt for which a session logs the user message m.
func input(turn string, m event.Message) *runnel.Input {
	in := runnel.Input{Turn: turn, Text: m.Content}
	for _, a := range m.Attachments {
		file := runnel.Attachment{Name: a.Name, MediaType: a.MediaType, Text: strings.Repeat(" ", int(a.Size))}
		if a.Picture != "" {
			file.Data, file.Text = redPixel(), ""
		}
		in.Attachments = append(in.Attachments, file)
	}
	return &in
}

// redPixel returns the only image in recordings.
func redPixel() []byte {
	data, _ := base64.StdEncoding.DecodeString("iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEklEQVR4nGP4z8CAFWEXHbQSACj/P8Fu7N9hAAAAAElFTkSuQmCC") // cannot fail
	return data
}

// Replayed returns the events that runnel.Replay gives for a recording.
func Replayed(t testing.TB, p runnel.Provider, lines []runnel.Line) (evs []event.Event) {
	t.Helper()
	tr, ok := p.(runnel.Translator)
	if !ok {
		t.Fatal(errors.New(p.Name() + " has no recordings"))
	}
	return replay(t, p, Events(t, tr, lines))
}

func replay(t testing.TB, p runnel.Provider, of []event.Event) (evs []event.Event) {
	t.Helper()
	for ev, err := range runnel.Replay(Session, p.Name(), Seq(of)) {
		if err != nil {
			t.Fatal(err)
		}
		evs = append(evs, ev)
	}
	return evs
}

// Seq returns an iterator over events.
func Seq(evs []event.Event) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for _, ev := range evs {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// SameLive fails the test unless a live session logs the same events at the
// same positions as a replay of the recording. It also fails the test if
// [Universal] does for these events, or [Undisguised] for the recording. It
// returns the events.
func SameLive[T agentconn.Translator](t *testing.T, p runnel.Provider, in []byte, fresh func() T) []event.Event {
	t.Helper()
	lines := All(t, in)
	want := Replayed(t, p, lines)
	steps := Steps(t, fresh(), lines)
	for _, batching := range []Batching{OneByOne, AtOnce} {
		if d := cmp.Diff(want, Live(t, p.Name(), steps, batching)); d != "" {
			t.Errorf("at once %v (-replayed +live):\n%s", batching, d)
		}
	}
	Universal(t, want)
	Undisguised(t, lines, fresh)
	return want
}
