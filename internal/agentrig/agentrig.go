// Package agentrig drives a real agent through its provider in a test, with a
// scripted model.
//
// It contains what the tests of all providers share. A provider's own tests
// wrap a [Rig] and add what is specific to their agent.
package agentrig

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/internal/supervisor"
)

// Timeout bounds every wait for a real agent. It only makes a test fail if the
// agent hangs, so it is long enough for a busy machine.
const Timeout = 4 * time.Minute

// A Rig is a real agent with its own home directory and a scripted model.
type Rig struct {
	T        testing.TB
	Agent    realagents.Binary
	Model    *fakemodel.Server
	Home     realagents.Home
	Provider runnel.Provider
	Opt      runnel.Options
	Conn     runnel.Conn // nil until the agent has started
	Turn     string      // id of the last prompt
	Cut      func()      // if not nil, called before a new process continues a recorded conversation
}

// New returns a Rig for an agent in the directory root. The caller sets
// Provider. Opt already contains the project directory and the agent's
// environment. The model stops at the end of the test.
func New(t testing.TB, b realagents.Binary, root string) *Rig {
	t.Helper()
	model, err := fakemodel.Start(fakemodel.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { model.Close() })
	home := realagents.NewHomeIn(t, root, model.URL())
	return &Rig{T: t, Agent: b, Model: model, Home: home, Opt: runnel.Options{Dir: home.Project, Env: home.EnvironFor(b.Name)}}
}

// Open starts the agent. The end of the test stops it.
func (r *Rig) Open() {
	r.T.Helper()
	ctx, cancel := context.WithTimeout(r.T.Context(), Timeout)
	defer cancel()
	c, err := r.Provider.Open(ctx, r.Opt)
	if err != nil {
		r.T.Fatalf("%v (%+v)", err, runnel.Safe(err).Err)
	}
	r.Takes(c)
}

// Takes sets the rig's connection to c. The end of the test closes c.
func (r *Rig) Takes(c runnel.Conn) {
	r.Conn = c
	r.T.Cleanup(func() { c.Close() })
}

// Close stops the agent and drops its remaining events.
func (r *Rig) Close() {
	r.T.Helper()
	r.Conn.Close()
	r.Drain()
}

// Drain reads and drops the remaining events of the connection.
func (r *Rig) Drain() {
	r.T.Helper()
	for {
		if _, err := r.Conn.Next(r.T.Context()); err != nil {
			return
		}
	}
}

// Kill kills the agent's process, as in a crash, and waits for its end.
func (r *Rig) Kill() {
	r.T.Helper()
	process := r.Conn.(interface{ Process() supervisor.Agent }).Process()
	p, err := os.FindProcess(process.Pid())
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		r.T.Fatal(err)
	}
	<-process.Done()
}

// Send begins a turn with a text prompt. It starts the agent if necessary.
func (r *Rig) Send(text string) { r.T.Helper(); r.Input(runnel.Text(text)) }

// Input begins a turn with a prompt. It starts the agent if necessary.
func (r *Rig) Input(in runnel.Input) {
	r.T.Helper()
	if r.Conn == nil {
		r.Open()
	}
	r.Turn = uuid.NewString()
	if err := r.Conn.Prompt(r.T.Context(), r.Turn, in); err != nil {
		r.T.Fatal(err)
	}
}

// Play begins a turn in which the model performs steps.
func (r *Rig) Play(steps ...fakemodel.Step) { r.T.Helper(); r.Send(Scenario(steps...)) }

// Scenario returns a prompt for which the model performs steps.
func Scenario(steps ...fakemodel.Step) string { return fakemodel.Scenario{Steps: steps}.Prompt("go") }

// Until returns the events up to and including the first one for which stop
// returns true.
func (r *Rig) Until(stop func(event.Event) bool) []event.Event {
	r.T.Helper()
	timer := time.AfterFunc(Timeout, func() { r.Conn.Close() })
	defer timer.Stop()
	var evs []event.Event
	for {
		ev, err := r.Conn.Next(r.T.Context())
		if err != nil {
			r.T.Fatalf("%v; so far:\n%s", err, Dump(evs))
		}
		evs = append(evs, ev)
		if stop(ev) {
			return evs
		}
	}
}

// Finish returns the events up to the end of any turn. It answers each approval
// with choice.
func (r *Rig) Finish(choice string) []event.Event {
	r.T.Helper()
	return r.Until(func(ev event.Event) bool {
		r.answer(ev, choice)
		return event.Ends(ev.Body)
	})
}

// FinishTurn returns the events up to the end of the last prompt's turn; other
// turns may end before it. It answers each approval with choice.
func (r *Rig) FinishTurn(choice string) []event.Event {
	r.T.Helper()
	return r.Until(func(ev event.Event) bool {
		r.answer(ev, choice)
		return event.Ends(ev.Body) && ev.Turn == r.Turn
	})
}

// DenyAll returns the events up to the end of the last prompt's turn. It denies
// every approval, and returns how many there were.
func (r *Rig) DenyAll() (evs []event.Event, asked int) {
	r.T.Helper()
	evs = r.Until(func(ev event.Event) bool {
		if a, ok := ev.Body.(event.ApprovalRequested); ok {
			asked++
			i := slices.IndexFunc(a.Approval.Choices, func(c event.Choice) bool { return c.Kind == event.ChoiceDeny || c.Kind == event.ChoiceDenyStop })
			if i < 0 {
				r.T.Fatalf("no way to deny: %+v", a.Approval.Choices)
			}
			r.Decide(a.Approval, runnel.Decision{Choice: a.Approval.Choices[i].ID})
		}
		return event.Ends(ev.Body) && ev.Turn == r.Turn
	})
	return evs, asked
}

func (r *Rig) answer(ev event.Event, choice string) {
	r.T.Helper()
	if a, ok := ev.Body.(event.ApprovalRequested); ok {
		r.Decide(a.Approval, runnel.Decision{Choice: choice})
	}
}

// Decide answers an approval.
func (r *Rig) Decide(a event.Approval, d runnel.Decision) {
	r.T.Helper()
	if err := r.Conn.Decide(r.T.Context(), a.ID, d); err != nil {
		r.T.Fatalf("%v: %+v", err, a.Choices)
	}
}

// Asked reads events up to the next approval and returns it.
func (r *Rig) Asked() event.Approval {
	r.T.Helper()
	evs := r.Until(func(ev event.Event) bool { _, ok := ev.Body.(event.ApprovalRequested); return ok })
	return Last(evs).(event.ApprovalRequested).Approval
}

// Interrupt interrupts the running turn.
func (r *Rig) Interrupt() {
	r.T.Helper()
	if err := r.Conn.Interrupt(r.T.Context()); err != nil {
		r.T.Fatal(err)
	}
}

// File returns the absolute path of a file in the project.
func (r *Rig) File(name string) string { return filepath.Join(r.Home.Project, name) }

// Write creates a file in the project.
func (r *Rig) Write(name, content string) {
	r.T.Helper()
	if err := os.WriteFile(r.File(name), []byte(content), 0o600); err != nil {
		r.T.Fatal(err)
	}
}

// Read returns the content of a file in the project.
func (r *Rig) Read(name string) string {
	r.T.Helper()
	b, err := os.ReadFile(r.File(name))
	if err != nil {
		r.T.Fatal(err)
	}
	return string(b)
}

// ModelReceived reports whether a request to the model contained a text.
func (r *Rig) ModelReceived(what string) bool { return r.Model.Received(what) }

// Exists reports whether a file exists.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Await waits until another process has created a file.
func Await(t testing.TB, path string) {
	t.Helper()
	if !AwaitOr(path, nil) {
		t.Fatalf("%s did not appear", filepath.Base(path))
	}
}

// AwaitOr waits until a file exists. It stops waiting when stop is closed, or
// after Timeout. It reports whether the file exists.
func AwaitOr(path string, stop <-chan struct{}) bool {
	deadline := time.NewTimer(Timeout)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !Exists(path) {
		select {
		case <-tick.C:
		case <-stop:
			return false
		case <-deadline.C:
			return false
		}
	}
	return true
}

// Bound lets four tests with real agents run in parallel, for use in TestMain.
// The agents' processes mostly wait. An explicit -parallel takes precedence.
// Bound fails outside of a test binary.
func Bound() error {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return nil
	}
	return flag.Set("test.parallel", "4")
}

// RedPixel returns a PNG image.
func RedPixel(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "providertest", "red.png"))
	if err != nil {
		t.Fatal(fmt.Errorf("the picture of package providertest: %w", err))
	}
	return data
}
