package runnel_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/provider/script"
)

func start(t *testing.T, opt runnel.Options, steps ...script.Step) *runnel.Run {
	t.Helper()
	run, err := runnel.Start(t.Context(), &script.Provider{Script: script.Script{Steps: steps}}, opt, runnel.Text("hi"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = run.Close() })
	return run
}

func TestRunGivesTheSameAnswerForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := start(t, runnel.Options{}, say)
		for range 3 {
			res, err := run.Wait(t.Context())
			if err != nil || res.FinalText != "hello you" {
				t.Fatal(res, err)
			}
		}
	})
}

func TestRunDeniesWithoutAnApprover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := start(t, runnel.Options{}, ask)
		var got []string
		for ev, err := range run.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if b, ok := ev.Body.(event.ApprovalResolved); ok {
				reason, _, _ := strings.Cut(b.Reason, ":")
				got = append(got, b.Choice+" "+string(b.By)+" "+reason)
			}
		}
		if strings.Join(got, ",") != "deny policy approval required" {
			t.Fatal(got)
		}
	})
}

func TestJudgeOfARunDecidesBeforeItsApprover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		judge := func(_ context.Context, a event.Approval) (runnel.Decision, bool) {
			return runnel.Decision{Choice: "allow", Reason: "known"}, a.ID != ""
		}
		run := start(t, runnel.Options{Judge: judge, Approve: func(_ context.Context, a event.Approval) runnel.Decision {
			t.Error("the approver was asked")
			return runnel.Decision{Choice: "deny"}
		}}, ask)
		for ev, err := range run.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if b, ok := ev.Body.(event.ApprovalResolved); ok && (b.Choice != "allow" || b.By != event.ByPolicy || b.Reason != "known") {
				t.Errorf("got %+v", b)
			}
		}
	})
}

func TestRunAsksItsApprover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := start(t, runnel.Options{Approve: func(_ context.Context, a event.Approval) runnel.Decision {
			return runnel.Decision{Choice: a.Choices[0].ID, By: event.ByUser}
		}}, ask)
		for ev := range run.Events(t.Context()) {
			if b, ok := ev.Body.(event.ApprovalResolved); ok && (b.Choice != "allow" || b.By != event.ByUser) {
				t.Fatalf("%+v", b)
			}
		}
		if _, err := run.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestRunTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		run := start(t, runnel.Options{Timeout: time.Minute}, say, hang)
		if _, err := run.Wait(t.Context()); runnel.CodeOf(err) != runnel.Timeout {
			t.Fatal(err)
		}
		if took := time.Since(begin); took != time.Minute {
			t.Fatal(took)
		}
	})
}

// A timeout that expires before the prompt is sent is reported as a timeout,
// too.
func TestRunTimeoutBeforeItsPrompt(t *testing.T) {
	for range 200 {
		p := &script.Provider{Script: script.Script{Steps: []script.Step{hang}}}
		run, err := runnel.Start(t.Context(), p, runnel.Options{Timeout: 1}, runnel.Text("x"))
		if err == nil {
			_, err = run.Wait(t.Context())
		}
		if runnel.CodeOf(err) != runnel.Timeout {
			t.Fatal(err)
		}
	}
}

func TestRunCancelWinsOverAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agent := newStubborn(0)
		run, err := runnel.Start(t.Context(), agent, runnel.Options{}, runnel.Text("x"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := run.Cancel(t.Context()); err != nil {
			t.Fatal(err)
		}
		agent.events <- event.Event{Turn: run.ID(), Body: event.ResponseError{Error: event.Fault{Code: "AGENT_ERROR", Message: "x"}}}
		if res, err := run.Wait(t.Context()); err != nil || res.Status != event.StatusCancelled {
			t.Fatal(res, err)
		}
		if err := run.Cancel(t.Context()); err != nil {
			t.Fatal("a second Cancel:", err)
		}
	})
}

func TestRunEndsWithItsContextOnlyIfAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, with := range []bool{true, false} {
			ctx, cancel := context.WithCancel(t.Context())
			p := &script.Provider{Script: script.Script{Steps: []script.Step{hang}}}
			run, err := runnel.Start(ctx, p, runnel.Options{EndWithContext: with}, runnel.Text("x"))
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			cancel()
			synctest.Wait()
			select {
			case <-func() chan struct{} {
				c := make(chan struct{})
				go func() { defer close(c); _, _ = run.Wait(context.Background()) }()
				synctest.Wait()
				return c
			}():
				if !with {
					t.Fatal("the run ended with its context")
				}
			default:
				if with {
					t.Fatal("the run did not end with its context")
				}
			}
			_ = run.Close()
		}
	})
}

func TestRunDetach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := start(t, runnel.Options{}, script.Step{Text: "slowly done", Rate: 1})
		run.Detach()
		_ = run.Close() // has no effect after Detach
		if res, err := run.Wait(t.Context()); err != nil || res.Status != event.StatusCompleted {
			t.Fatal(res, err)
		}
	})
}

func TestCapabilityIsCheckedFirst(t *testing.T) {
	if err := runnel.Require(script.New(), runnel.CapRun, runnel.CapConfigModel); err != nil {
		t.Fatal(err)
	}
	if err := runnel.Require(script.New(), runnel.CapSessionFork); runnel.CodeOf(err) != runnel.UnsupportedCapability {
		t.Fatal(err)
	}
}

func TestBypassWarns(t *testing.T) {
	p := script.New()
	opt := runnel.Options{PermissionMode: runnel.ModeBypass}
	if _, err := runnel.Start(t.Context(), p, opt, runnel.Text("text")); runnel.CodeOf(err) != runnel.InvalidRequest {
		t.Fatal(err)
	}
	var warned []string
	opt.AllowBypass, opt.Warn = true, func(code, _ string) { warned = append(warned, code) }
	run, err := runnel.Start(t.Context(), p, opt, runnel.Text("text"))
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	if len(warned) != 1 {
		t.Fatal(warned)
	}
}

func TestResultHasTheIDsOfSessionAndConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := script.Step{Session: &event.SessionUpdated{AgentSessionID: "conversation-1"}}
		run := start(t, runnel.Options{}, known, say)
		session := ""
		for ev := range run.Events(t.Context()) {
			session = ev.Session
		}
		res, err := run.Wait(t.Context())
		if err != nil || res.SessionID != session || session == "" || res.AgentSessionID != "conversation-1" {
			t.Errorf("session %q: %+v, %v", session, res, err)
		}
		done, err := run.Completion(t.Context())
		want := `{"schema":"agent_api.session.handle.v1","session":{"id":"conversation-1"}}`
		if err != nil || done.AgentKind != "script" || done.Status != "completed" || done.FinalText != "hello you" || string(done.Data) != want {
			t.Errorf("%+v, data %s, %v", done, done.Data, err)
		}
	})
}

// exiting is a provider of scripted agents whose processes exit with the status
// in code.
type exiting struct {
	script.Provider
	code int
}

type exited struct {
	runnel.Conn
	code int
}

func (e *exiting) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	c, err := e.Provider.Open(ctx, opt)
	return exited{c, e.code}, err
}

func (e exited) ExitStatus() (runnel.ExitStatus, bool) {
	return runnel.ExitStatus{Code: e.code}, true
}

func TestExitCodeIsDataAndNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run, err := runnel.Start(t.Context(), &exiting{code: 3}, runnel.Options{}, runnel.Text("text"))
		if err != nil {
			t.Fatal(err)
		}
		res, err := run.Wait(t.Context())
		if err != nil || res.Status != event.StatusCompleted || res.Exit == nil || res.Exit.Code != 3 {
			t.Errorf("%+v, %v", res, err)
		}
		if done, err := run.Completion(t.Context()); err != nil || done.ExitCode == nil || *done.ExitCode != 3 {
			t.Errorf("%+v, %v", done, err)
		}
	})
}

func TestEventsComeWhileTheAgentRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := start(t, runnel.Options{}, say, hang)
		said := false
		for ev, err := range run.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if _, said = ev.Body.(event.ItemDelta); said {
				break // the agent hangs, so Events did not wait for the end of the turn
			}
		}
		if !said {
			t.Error("nothing came before the end")
		}
	})
}
