package claude

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/supervise"
)

func TestMain(m *testing.M) {
	supervise.Main()
	if os.Getenv(mcpServer) != "" {
		serveMCP(os.Stdin, os.Stdout)
		return
	}
	goleak.VerifyTestMain(m)
}

// patience bounds how long a test waits for a real agent.
const patience = 60 * time.Second

// rig is a real agent in a home of its own, with a model that plays scripts.
type rig struct {
	t     testing.TB
	model *fakemodel.Server
	home  realagents.Home
	opt   runnel.Options
	conn  runnel.Conn
	turn  string // id of the last prompt
	cut   func() // if not nil, called when another agent takes over
}

// eachAgent runs a test with every pinned version at the same time.
func eachAgent(t *testing.T, test func(t *testing.T, r *rig)) {
	for _, b := range realagents.Claude(t) {
		t.Run(b.Version, func(t *testing.T) {
			t.Parallel()
			test(t, newRig(t, b))
		})
	}
}

// eachAgentInTurn is eachAgent for tests that set environment variables.
func eachAgentInTurn(t *testing.T, test func(t *testing.T, r *rig)) {
	for _, b := range realagents.Claude(t) {
		t.Run(b.Version, func(t *testing.T) { test(t, newRig(t, b)) })
	}
}

// on returns the rig for a subtest that shares the agent.
func (r *rig) on(t *testing.T) *rig {
	if r.conn == nil {
		r.open()
	}
	sub := *r
	sub.t = t
	return &sub
}

func newRig(t testing.TB, b realagents.Binary) *rig {
	t.Helper()
	model, err := fakemodel.Start(fakemodel.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { model.Close() })
	home := realagents.NewHome(t, model.URL())
	return &rig{t: t, model: model, home: home, opt: runnel.Options{
		Path: b.Path, Dir: home.Project, Env: append(home.Environ(), "CLAUDE_CODE_MAX_RETRIES=2"),
	}}
}

// open starts the agent. The test's end closes it.
func (r *rig) open() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	c, err := New().Open(ctx, r.opt)
	if err != nil {
		r.t.Fatal(err)
	}
	r.conn = c
	r.t.Cleanup(func() { c.Close() })
}

// send begins a turn.
func (r *rig) send(text string) {
	r.t.Helper()
	if r.conn == nil {
		r.open()
	}
	r.turn = uuid.NewString()
	if err := r.conn.Prompt(r.t.Context(), r.turn, runnel.Text(text)); err != nil {
		r.t.Fatal(err)
	}
}

// play begins a turn in which the model does steps.
func (r *rig) play(steps ...fakemodel.Step) {
	r.t.Helper()
	r.send(fakemodel.Scenario{Steps: steps}.Prompt("go"))
}

// until collects events up to the first for which stop holds.
func (r *rig) until(stop func(event.Event) bool) []event.Event {
	r.t.Helper()
	timer := time.AfterFunc(patience, func() { r.conn.Close() })
	defer timer.Stop()
	var evs []event.Event
	for {
		ev, err := r.conn.Next(r.t.Context())
		if err != nil {
			r.t.Fatalf("%v; so far:\n%s", err, dump(evs))
		}
		evs = append(evs, ev)
		if stop(ev) {
			return evs
		}
	}
}

// finish collects the events to the end of the turn, answering approvals with
// a choice on the way.
func (r *rig) finish(choice string) []event.Event {
	r.t.Helper()
	return r.until(func(ev event.Event) bool {
		if a, ok := ev.Body.(event.ApprovalRequested); ok {
			if err := r.conn.Decide(r.t.Context(), a.Approval.ID, runnel.Decision{Choice: choice}); err != nil {
				r.t.Fatal(err)
			}
		}
		return event.Ends(ev.Body)
	})
}

// file returns the absolute path of a file in the project.
func (r *rig) file(name string) string { return filepath.Join(r.home.Project, name) }

func (r *rig) write(name, content string) {
	r.t.Helper()
	if err := os.WriteFile(r.file(name), []byte(content), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) read(name string) string {
	r.t.Helper()
	b, err := os.ReadFile(r.file(name))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(b)
}

// use is a tool call of the model.
func use(name string, input any) fakemodel.Block {
	b, err := json.Marshal(input)
	if err != nil {
		panic(err)
	}
	return fakemodel.Block{Type: "tool_use", Name: name, Input: b}
}

type args map[string]any

// dump shows events one a line.
func dump(evs []event.Event) string {
	var b strings.Builder
	for _, ev := range evs {
		body, err := event.MarshalBody(ev.Body)
		fmt.Fprintf(&b, "%.8s %s %v\n", ev.Turn, body, err)
	}
	return b.String()
}

// items folds events.
func items(evs []event.Event) []event.Item {
	var tr event.Transcript
	for _, ev := range evs {
		tr.Apply(ev)
	}
	return tr.Items()
}

// sound fails the test unless evs keep the rules of a turn.
func sound(t testing.TB, evs []event.Event) {
	t.Helper()
	open := map[string]bool{}
	ended := map[string]bool{}
	for i, ev := range evs {
		if err := ev.Validate(); err != nil {
			t.Errorf("event %d: %v", i, err)
		}
		if ev.Turn != "" && ended[ev.Turn] {
			t.Errorf("event %d: %s after the end of its turn", i, event.Type(ev.Body))
		}
		switch b := ev.Body.(type) {
		case event.ItemStart:
			if _, seen := open[b.ItemID]; seen {
				t.Errorf("event %d: %s starts twice", i, b.ItemID)
			}
			open[b.ItemID] = true
		case event.ItemDelta:
			if !open[b.ItemID] {
				t.Errorf("event %d: delta for %s, which is not open", i, b.ItemID)
			}
		case event.ItemDone:
			if !open[b.ItemID] {
				t.Errorf("event %d: %s ends but is not open", i, b.ItemID)
			}
			open[b.ItemID] = false
		case event.ItemCancelled:
			if !open[b.ItemID] {
				t.Errorf("event %d: %s is cancelled but not open", i, b.ItemID)
			}
			open[b.ItemID] = false
		case event.ResponseDone, event.ResponseError:
			ended[ev.Turn] = true
			for id, is := range open {
				if is && strings.HasPrefix(id, ev.Turn) {
					t.Errorf("event %d: the turn ends and %s is open", i, id)
				}
			}
		}
	}
}

func last(evs []event.Event) event.Body { return evs[len(evs)-1].Body }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// await waits for a file that something outside of this process makes.
func await(t testing.TB, path string) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !exists(path) {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("%s did not appear", filepath.Base(path))
		}
	}
}
