package runnel_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/provider/script"
)

func pass(context.Context, event.Approval) (runnel.Decision, bool) { return runnel.Decision{}, false }

func verdict(choice, reason string) runnel.Judge {
	return func(context.Context, event.Approval) (runnel.Decision, bool) {
		return runnel.Decision{Choice: choice, Reason: reason}, true
	}
}

// slowJudge returns a Judge that decides once the test closes the channel.
func slowJudge(j runnel.Judge) (runnel.Judge, chan struct{}) {
	decide := make(chan struct{})
	return func(ctx context.Context, a event.Approval) (runnel.Decision, bool) {
		<-decide
		return j(ctx, a)
	}, decide
}

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
	t.Fatal("the agent asked nothing")
	return event.Approval{}
}

func TestJudgeDecidesBeforeEverybodyElse(t *testing.T) {
	for _, tc := range []struct {
		name  string
		judge runnel.Judge
		cfg   runnel.Config
		want  string
	}{
		{"allow", verdict("allow", "allowed by rule 1"), runnel.Config{}, `"choice":"allow","by":"policy","reason":"allowed by rule 1"`},
		{"deny", verdict("deny", "denied by rule 2"), runnel.Config{}, `"choice":"deny","by":"policy","reason":"denied by rule 2"`},
		{"allow where nobody is there", verdict("allow", "rule"), runnel.Config{ApprovalTimeout: -1}, `"choice":"allow","by":"policy","reason":"rule"`},
		{"pass where nobody is there", pass, runnel.Config{ApprovalTimeout: -1}, `"choice":"deny","by":"policy","reason":"approval required`},
		{"pass until the timeout", pass, runnel.Config{ApprovalTimeout: time.Second}, `"choice":"deny","by":"timeout"`},
		{"unfit", verdict("maybe", ""), runnel.Config{}, `"choice":"deny","by":"policy","reason":"the rule's decision was invalid`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tc.cfg.Judge = tc.judge
				s, log := open(t, tc.cfg, ask)
				if _, err := send(t, s).Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := trace(t, log, "s"); !strings.Contains(got, tc.want) || strings.Count(got, "approval_resolved") != 1 {
					t.Fatalf("want %s in\n%s", tc.want, got)
				}
			})
		})
	}
}

func TestJudgeDecidesBeforeTheApprover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct {
			judge runnel.Judge
			asked int
			want  string
		}{
			{verdict("deny", "rule 1"), 0, `"choice":"deny","by":"policy","reason":"rule 1"`},
			{pass, 1, `"choice":"allow","by":"policy"`},
		} {
			asked := 0
			s, log := withApprover(t, func(context.Context, event.Approval) runnel.Decision {
				asked++
				return runnel.Decision{Choice: "allow"}
			}, runnel.Config{Judge: tc.judge}, ask)
			if _, err := send(t, s).Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := trace(t, log, "s"); asked != tc.asked || !strings.Contains(got, tc.want) {
				t.Errorf("the approver was asked %d times, want %d and %s in\n%s", asked, tc.asked, tc.want, got)
			}
			_ = s.Close()
		}
	})
}

// A client that allows every approval at once must not decide before a rule
// that denies.
func TestAnswersWaitUntilTheJudgeHasPassed(t *testing.T) {
	for _, tc := range []struct {
		name  string
		judge runnel.Judge
		code  runnel.Code
		want  string
	}{
		{"denies", verdict("deny", "rule 1"), runnel.ApprovalGone, `"choice":"deny","by":"policy"`},
		{"passes", pass, "", `"choice":"allow","by":"user"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				judge, decide := slowJudge(tc.judge)
				s, log := open(t, runnel.Config{Judge: judge}, ask)
				turn := send(t, s)
				a := approvalOf(t, turn)
				answered := make(chan error, 1)
				go func() {
					answered <- s.Decide(t.Context(), a.ID, runnel.Decision{Choice: "allow", ArgumentsDigest: a.ArgumentsDigest})
				}()
				synctest.Wait()
				if st := s.Status(); len(st.Pending) != 0 || st.Activity != event.ActivityWorking {
					t.Errorf("nobody can answer yet, but the session says %+v", st)
				}
				select {
				case err := <-answered:
					t.Fatalf("answered before the judge: %v", err)
				default:
				}
				close(decide)
				if err := <-answered; tc.code == "" && err != nil || tc.code != "" && runnel.CodeOf(err) != tc.code {
					t.Errorf("answer: %v, want %q", err, tc.code)
				}
				if _, err := turn.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := trace(t, log, "s"); !strings.Contains(got, tc.want) || strings.Count(got, "approval_resolved") != 1 {
					t.Errorf("want %s in\n%s", tc.want, got)
				}
			})
		})
	}
}

func TestSlowJudgeLeavesTheDecisionToPeople(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		judge, decide := slowJudge(verdict("deny", "too late"))
		s, log := open(t, runnel.Config{Judge: judge}, ask)
		turn := send(t, s)
		a, asked := approvalOf(t, turn), time.Now()
		if err := s.Decide(t.Context(), a.ID, runnel.Decision{Choice: "allow", ArgumentsDigest: a.ArgumentsDigest}); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(asked); d != 3*time.Second {
			t.Errorf("people were asked after %v, want 3s", d)
		}
		close(decide)
		if _, err := turn.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := trace(t, log, "s"); !strings.Contains(got, `"choice":"allow","by":"user"`) || strings.Count(got, "approval_resolved") != 1 {
			t.Fatal(got)
		}
	})
}

func TestCancelReleasesAnswersThatWaitForTheJudge(t *testing.T) {
	for name, end := range map[string]func(*runnel.Session){
		"cancel": func(s *runnel.Session) { _ = s.Cancel(context.Background()) },
		"close":  func(s *runnel.Session) { _ = s.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				told := make(chan error, 1)
				s, _ := open(t, runnel.Config{Judge: func(ctx context.Context, a event.Approval) (runnel.Decision, bool) {
					<-ctx.Done()
					told <- ctx.Err()
					return runnel.Decision{Choice: "allow"}, true
				}}, ask)
				a := approvalOf(t, send(t, s))
				answered := make(chan error, 1)
				go func() { answered <- s.Decide(t.Context(), a.ID, runnel.Decision{Choice: "deny"}) }()
				synctest.Wait()
				end(s)
				if err := <-answered; runnel.CodeOf(err) != runnel.ApprovalGone {
					t.Errorf("the answer that waited: %v", err)
				}
				if err := <-told; !errors.Is(err, context.Canceled) {
					t.Errorf("the judge was told %v", err)
				}
			})
		})
	}
}

// A server stops while its judge decides. The next server asks the judge again,
// and the log has only one decision.
func TestJudgeDecidesApprovalsOfATakenOverSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{Provider: script.Provider{Script: script.Script{Steps: []script.Step{ask}}}}
		judge, decide := slowJudge(verdict("deny", "rule of the first server"))
		log := new(runnel.Memory)
		s, err := runnel.Open(t.Context(), k, runnel.Options{Resume: "agent-1"}, runnel.Config{ID: "s", Log: log, Judge: judge})
		if err != nil {
			t.Fatal(err)
		}
		a := approvalOf(t, send(t, s))
		answered := make(chan error, 1)
		go func() { answered <- s.Decide(t.Context(), a.ID, runnel.Decision{Choice: "deny"}) }()
		synctest.Wait()
		if !s.Detach(t.Context()) {
			t.Fatal("not detached")
		}
		if err := <-answered; runnel.CodeOf(err) != runnel.StoreUnavailable {
			t.Errorf("the answer that waited: %v", err)
		}
		close(decide)
		s, err = runnel.Open(t.Context(), k, runnel.Options{Resume: "agent-1"}, runnel.Config{
			ID: "s", Log: log, Judge: verdict("allow", "rule of the second server"), Dormant: true, Adopt: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		synctest.Wait()
		got := trace(t, log, "s")
		if strings.Count(got, "approval_resolved") != 1 || !strings.Contains(got, "rule of the second server") || !strings.Contains(got, "response_done") {
			t.Fatal(got)
		}
	})
}

func TestEveryResolvedApprovalIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []runnel.Decided
		record := func(d runnel.Decided) { got = append(got, d) }
		judge := func(context.Context, event.Approval) (runnel.Decision, bool) {
			return runnel.Decision{Choice: "deny", Reason: "rule 7", Maker: runnel.Maker{Name: "rules", Rule: 7}}, true
		}
		person := func(s *runnel.Session, a event.Approval) {
			_ = s.Decide(t.Context(), a.ID, runnel.Decision{Choice: "allow", ArgumentsDigest: a.ArgumentsDigest, Maker: runnel.Maker{Name: "laptop"}})
			_ = s.Decide(t.Context(), a.ID, runnel.Decision{Choice: "deny", Maker: runnel.Maker{Name: "phone"}}) // too late, so it has no effect
		}
		for _, tc := range []struct {
			cfg    runnel.Config
			answer func(*runnel.Session, event.Approval)
			want   runnel.Decided
		}{
			{runnel.Config{}, person, runnel.Decided{Maker: runnel.Maker{Name: "laptop"}, Resolved: event.ApprovalResolved{Choice: "allow", By: event.ByUser}}},
			{runnel.Config{Judge: judge}, nil, runnel.Decided{Maker: runnel.Maker{Name: "rules", Rule: 7}, Resolved: event.ApprovalResolved{Choice: "deny", By: event.ByPolicy, Reason: "rule 7", Rule: 7}}},
			{runnel.Config{ApprovalTimeout: time.Second}, nil, runnel.Decided{Resolved: event.ApprovalResolved{Choice: "deny", By: event.ByTimeout, Reason: "no answer arrived in time"}}},
			{runnel.Config{}, func(s *runnel.Session, _ event.Approval) { _ = s.Cancel(t.Context()) },
				runnel.Decided{Resolved: event.ApprovalResolved{Choice: event.ChoiceWithdrawn, By: event.ByPolicy, Reason: "the turn was cancelled"}}},
		} {
			got = nil
			tc.cfg.Decided = record
			s, _ := open(t, tc.cfg, ask)
			turn := send(t, s)
			a := approvalOf(t, turn)
			if tc.answer != nil {
				tc.answer(s, a)
			}
			if _, err := turn.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			tc.want.Turn, tc.want.Approval, tc.want.Resolved.ApprovalID = turn.ID, a, a.ID
			if len(got) != 1 || got[0].At.IsZero() {
				t.Fatalf("reported %+v", got)
			}
			got[0].At = time.Time{}
			if diff := cmp.Diff(tc.want, got[0]); diff != "" {
				t.Error(diff)
			}
		}
	})
}
