//go:build unix

package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/provider/claude"
	scripted "github.com/runnel-dev/runnel/provider/script"
	"github.com/runnel-dev/runnel/upsert"
)

var _ = register(39, library)

// library returns the table of the Go library's promises about events and the
// end of a run.
func library() table {
	tab := table{
		name: "library", title: "Go library: events and ends of a run", file: "library_test.go",
		intro: "What `runnel.Start` and `runnel.Open` promise about events, waiting and ends. The checks call the library as a program that embeds it does, with the scripted agent, " +
			"and where the end of a process matters, with a process that speaks the lines of Claude Code.",
		head: []string{"function", "promise"},
	}
	for _, r := range libraryRows {
		tab.rows = append(tab.rows, row{cells: []string{"`" + r.function + "`", r.promise}, check: r.check})
	}
	return tab
}

var libraryRows = []struct {
	function, promise string
	check             func(t *testing.T)
}{
	{"Run.Events", "events come while the agent runs", func(t *testing.T) {
		run := began(t, runnel.Options{}, object{"text": "one"}, object{"hang": true})
		for ev := range run.Events(t.Context()) {
			if _, ok := ev.Body.(event.ItemDelta); ok {
				break
			}
		}
		cancelRun(t, run)
	}},
	{"Run.Events", "it may be called again, also after the end", func(t *testing.T) {
		run := began(t, runnel.Options{}, object{"text": "one two"})
		live := collect(t, run.Events(t.Context()))
		equal(t, "events after the end", collect(t, run.Events(t.Context())), live)
		if len(live) < 4 {
			t.Errorf("got %v", live)
		}
	}},
	{"Run.Events", "many readers get the same events", func(t *testing.T) {
		run := began(t, runnel.Options{}, object{"text": "one two three", "rate": 200})
		var got [8][]string
		var all sync.WaitGroup
		for i := range got {
			all.Go(func() { got[i] = collect(t, run.Events(t.Context())) })
		}
		all.Wait()
		for i := range got {
			equal(t, fmt.Sprint("reader ", i), got[i], got[0])
		}
	}},
	{"Run.Wait", "it returns once the terminal event is in the log and every started iteration has ended or was abandoned", waitIsGated},
	{"Run.Wait", "it gives the same answer for ever", sameAnswer},
	{"Run.Wait", "the exit code of the agent is data and by itself no error", func(t *testing.T) {
		run := process(t, native{Lines: []string{nativeInit, messageStart("m"), textStart("It"), textWhole("m", "It"), nativeResult}, Exit: true})
		res, err := run.Wait(t.Context())
		if err != nil || res.Status != event.StatusCompleted || res.Exit == nil || res.Exit.Code != 3 {
			t.Errorf("got %+v, exit %+v, %v", res, res.Exit, err)
		}
	}},
	{"Run.Cancel", "it ends the stream with `cancelled`, and a second call changes nothing", func(t *testing.T) {
		run := began(t, runnel.Options{}, object{"text": "one"}, object{"hang": true})
		cancelRun(t, run)
		cancelRun(t, run)
		all := collect(t, run.Events(t.Context()))
		if last := all[len(all)-1]; !strings.Contains(last, `"response_done"`) || !strings.Contains(last, `"cancelled"`) {
			t.Errorf("the last event is %s", last)
		}
	}},
	{"Run.Cancel", "it wins over an error at the same time", func(t *testing.T) {
		run := process(t, native{Lines: []string{nativeInit, messageStart("m"), textStart("half ")}, Stopped: []string{nativeFailed}})
		for ev := range run.Events(t.Context()) {
			if _, ok := ev.Body.(event.ResponseStart); ok {
				break
			}
		}
		cancelRun(t, run)
	}},
	{"Run.Cancel", "it is enforced on an agent that does not stop", func(t *testing.T) {
		run := process(t, native{Lines: []string{nativeInit, messageStart("m"), textStart("half ")}})
		for ev := range run.Events(t.Context()) {
			if _, ok := ev.Body.(event.ResponseStart); ok {
				break
			}
		}
		cancelRun(t, run)
	}},
	{"Run.Detach", "neither `Close` nor the context of `Start` ends the run any more", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			run := beganWith(ctx, t, runnel.Options{EndWithContext: true}, object{"text": "one two three", "rate": 1})
			run.Detach()
			end()
			_ = run.Close()
			res, err := run.Wait(t.Context())
			if err != nil || res.FinalText != "one two three" {
				t.Errorf("got %+v, %v", res, err)
			}
		})
	}},
	{"Session.Close", "it ends a running turn as cancelled", func(t *testing.T) {
		s := conversation(t, runnel.Config{})
		turn := sent(t, s, object{"hang": true})
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		res, err := turn.Wait(t.Context())
		if err != nil || res.Status != event.StatusCancelled {
			t.Errorf("got %+v, %v", res, err)
		}
	}},
	{"Start", "the end of its context ends the agent if that was asked for, and not otherwise", func(t *testing.T) {
		for asked, want := range map[bool]event.TurnStatus{true: event.StatusCancelled, false: event.StatusCompleted} {
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithCancel(t.Context())
				run := beganWith(ctx, t, runnel.Options{EndWithContext: asked}, object{"text": "one two three", "rate": 1})
				end()
				if res, err := run.Wait(t.Context()); err != nil || res.Status != want {
					t.Errorf("asked %v: got %+v, %v", asked, res, err)
				}
			})
		}
	}},
	{"Start", "a timeout ends the run as `TIMEOUT` when it is over, and not before", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			run := began(t, runnel.Options{Timeout: time.Minute}, object{"hang": true})
			_, err := run.Wait(t.Context())
			equal(t, "code and time", []any{runnel.CodeOf(err), time.Since(start)}, []any{runnel.Timeout, time.Minute})
		})
	}},
	{"Start", "a capability that the provider lacks is refused before anything starts", func(t *testing.T) {
		var p opens
		for _, opt := range []runnel.Options{
			{Extensions: runnel.Extensions{"agent_api.session.fork.v1": json.RawMessage(`{"selector":"last"}`)}}, {MaxTurns: 3},
		} {
			_, err := runnel.Start(t.Context(), &p, opt, runnel.Text("text"))
			equal(t, "code and starts", []any{runnel.CodeOf(err), p.n}, []any{runnel.UnsupportedCapability, 0})
		}
	}},
	{"Start", "an empty prompt is refused before anything starts", func(t *testing.T) {
		var p opens
		_, err := runnel.Start(t.Context(), &p, runnel.Options{}, runnel.Text(" \n"))
		equal(t, "code and starts", []any{runnel.CodeOf(err), p.n}, []any{runnel.InvalidRequest, 0})
	}},
	{"Registry.Start", "defaults hold where the request says nothing", defaultsHold},
	{"Session.Send", "one turn runs at a time: another prompt is `TURN_IN_PROGRESS`", func(t *testing.T) {
		s := conversation(t, runnel.Config{})
		turn := sent(t, s, object{"hang": true})
		if _, err := s.Send(t.Context(), runnel.Text("text")); runnel.CodeOf(err) != runnel.TurnInProgress {
			t.Errorf("got %v", err)
		}
		if err := s.Cancel(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := turn.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := sent(t, s, object{"text": "one"}).Wait(t.Context()); err != nil {
			t.Error(err)
		}
	}},
	{"Session.Decide", "the first decision wins, later ones are `APPROVAL_GONE`", func(t *testing.T) {
		s := conversation(t, runnel.Config{})
		turn := sent(t, s, object{"tool": command})
		a := approvalOf(t, turn)
		if err := s.Decide(t.Context(), a.ID, runnel.Decision{Choice: "deny"}); err != nil {
			t.Fatal(err)
		}
		if err := s.Decide(t.Context(), a.ID, runnel.Decision{Choice: "allow", ArgumentsDigest: a.ArgumentsDigest}); runnel.CodeOf(err) != runnel.ApprovalGone {
			t.Errorf("got %v", err)
		}
		if all := strings.Join(collect(t, turn.Events(t.Context())), "\n"); !strings.Contains(all, `"choice":"deny"`) || strings.Contains(all, `"choice":"allow"`) {
			t.Errorf("got %s", all)
		}
	}},
}

// An opens is the provider of the scripted agent. It counts calls of Open and
// keeps the options of the last call.
type opens struct {
	scripted.Provider
	n   int
	opt runnel.Options
}

// Open implements runnel.Provider.
func (p *opens) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	p.n++
	p.opt = opt
	return p.Provider.Open(ctx, opt)
}

// began starts a run that plays the steps. The run is closed when t ends.
func began(t *testing.T, opt runnel.Options, steps ...object) *runnel.Run {
	t.Helper()
	return beganWith(t.Context(), t, opt, steps...)
}

func beganWith(ctx context.Context, t *testing.T, opt runnel.Options, steps ...object) *runnel.Run {
	t.Helper()
	run, err := runnel.Start(ctx, scripted.New(), opt, runnel.Text(script(steps...)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = run.Close() })
	return run
}

// process starts a run of the native agent, which is a process.
func process(t *testing.T, n native) *runnel.Run {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := folder(t)
	program := filepath.Join(dir, "claude")
	symlink(t, self, program)
	opt := runnel.Options{Dir: dir, Path: program, Env: []string{"HOME=" + dir}}
	run, err := runnel.Start(t.Context(), claude.New(), opt, runnel.Text(n.prompt()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = run.Close() })
	return run
}

// conversation opens a session with the scripted agent. The session is closed
// when t ends.
func conversation(t *testing.T, cfg runnel.Config) *runnel.Session {
	t.Helper()
	s, err := runnel.Open(t.Context(), scripted.New(), runnel.Options{}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func sent(t *testing.T, s *runnel.Session, steps ...object) *runnel.Turn {
	t.Helper()
	turn, err := s.Send(t.Context(), runnel.Text(script(steps...)))
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

// approvalOf waits for the first approval of a turn.
func approvalOf(t *testing.T, turn *runnel.Turn) event.Approval {
	t.Helper()
	for ev, err := range turn.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if b, ok := ev.Body.(event.ApprovalRequested); ok {
			return b.Approval
		}
	}
	t.Fatal("no approval")
	return event.Approval{}
}

// collect returns all events, each as JSON.
func collect(t *testing.T, events iter.Seq2[event.Event, error]) (all []string) {
	for ev, err := range events {
		if err != nil {
			t.Error(err)
			break
		}
		data, err := json.Marshal(ev)
		if err != nil {
			t.Error(err)
		}
		all = append(all, string(data))
	}
	return all
}

// cancelRun cancels a run and checks how it ended.
func cancelRun(t *testing.T, run *runnel.Run) {
	t.Helper()
	if err := run.Cancel(t.Context()); err != nil {
		t.Error(err)
	}
	if res, err := run.Wait(t.Context()); err != nil || res.Status != event.StatusCancelled {
		t.Errorf("got %+v, %v", res, err)
	}
}

func waitIsGated(t *testing.T) {
	for _, toTheEnd := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			run := began(t, runnel.Options{}, object{"text": "one"})
			next, stop := iter.Pull2(run.Events(t.Context()))
			defer stop()
			next()
			waited := false
			go func() {
				_, _ = run.Wait(context.Background())
				waited = true
			}()
			synctest.Wait()
			if waited {
				t.Error("Wait returned while an iteration was short of the end")
			}
			if toTheEnd {
				for ok := true; ok; {
					_, _, ok = next()
				}
			} else {
				stop()
			}
			synctest.Wait()
			if !waited {
				t.Error("Wait did not return")
			}
		})
	}
}

func sameAnswer(t *testing.T) {
	run := began(t, runnel.Options{}, object{"fail": object{"code": "AGENT_ERROR", "message": "no"}})
	first, failed := run.Wait(t.Context())
	_ = run.Cancel(t.Context())
	_ = run.Close()
	for range 2 {
		again, err := run.Wait(t.Context())
		if runnel.CodeOf(err) != runnel.AgentError || err.Error() != failed.Error() {
			t.Errorf("got %v, want %v", err, failed)
		}
		equal(t, "result", again, first)
	}
}

func defaultsHold(t *testing.T) {
	p, dir := new(opens), folder(t)
	var r runnel.Registry
	if err := r.Register(p, runnel.Defaults{Model: "small", Dir: dir, Timeout: time.Hour, Env: []string{"A=1", "B=1"}}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ given, want runnel.Options }{
		{runnel.Options{}, runnel.Options{Model: "small", Timeout: time.Hour, Env: []string{"A=1", "B=1"}}},
		{runnel.Options{Model: "large", Timeout: time.Minute, Env: []string{"B=2"}}, runnel.Options{Model: "large", Timeout: time.Minute, Env: []string{"A=1", "B=1", "B=2"}}},
	} {
		run, err := r.Start(t.Context(), "script", tt.given, runnel.Text(script(object{"text": "one"})))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		equal(t, "options", []any{p.opt.Model, p.opt.Dir, p.opt.Timeout, p.opt.Env}, []any{tt.want.Model, dir, tt.want.Timeout, tt.want.Env})
	}
}

// rendered returns a short text for an upsert or a turn event.
func rendered(o upsert.Out) string {
	switch o := o.(type) {
	case upsert.Upsert:
		return fmt.Sprintf("%s %s %s", o.Message.Origin, o.Status, o.Message.Content)
	case upsert.TurnEvent:
		return string(o.Type)
	}
	return o.Frame()
}

// slow is a step whose text takes seconds. In a synctest bubble they pass at
// once.
var slow = object{"text": "one two three", "rate": 1}

// ends returns nil if all is a complete run of slow, and otherwise the frames
// that were expected. It ignores creates and updates of an item, which a newer
// state of the item may replace.
func ends(all []string) []string {
	prompt := "user complete " + script(slow)
	want := []string{prompt, "turn_started", "agent complete one two three", "turn_complete"}
	if kept := slices.DeleteFunc(slices.Clone(all), func(s string) bool {
		return strings.HasPrefix(s, "agent create ") || strings.HasPrefix(s, "agent update ")
	}); !slices.Equal(kept, want) {
		return want
	}
	return nil
}

func handlersSeeTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := began(t, runnel.Options{}, slow)
		var got []string
		r := run.Handle(runnel.Handlers{
			OnUpsert: func(u upsert.Upsert) { got = append(got, rendered(u)) },
			OnTurn:   func(e upsert.TurnEvent) { got = append(got, rendered(e)) },
		})
		beside := len(collect(t, run.Events(t.Context())))
		_, err := run.Wait(t.Context()) // after the last call of a handler
		if want := ends(got); want != nil || err != nil || r.Err() != nil || beside == 0 {
			t.Errorf("got %q, want %q and what precedes an end; %v, %v", got, want, err, r.Err())
		}
	})
}

func destroyClosesItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := began(t, runnel.Options{}, slow)
		var last upsert.Upsert
		first := make(chan struct{})
		r := run.Handle(runnel.Handlers{OnUpsert: func(u upsert.Upsert) {
			if last = u; u.Message.Origin == event.OriginAgent && u.Status == upsert.StatusCreate {
				close(first)
			}
		}})
		<-first
		r.Destroy("the window was closed")
		<-r.Done()
		why, ok := errors.AsType[runnel.Destroyed](r.Err())
		equal(t, "last upsert", []any{last.Status, last.ErrorMessage, ok, why.Reason}, []any{"error", "the window was closed", true, "the window was closed"})
		if res, err := run.Wait(t.Context()); err != nil || res.FinalText != "one two three" {
			t.Errorf("the run gave %+v, %v", res, err)
		}
	})
}

func upsertsAreWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := began(t, runnel.Options{}, slow)
		for range 2 { // live, and after the end
			var got []string
			for o, err := range run.Upserts(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, rendered(o))
			}
			if want := ends(got); want != nil {
				t.Errorf("got %q, want %q and what precedes an end", got, want)
			}
		}
	})
}
