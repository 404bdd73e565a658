package runnel_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/provider/script"
)

// netted is a provider whose agents have a network that asks.
type netted struct {
	runnel.Provider
	detach func() // called before an agent is detached. Default: none

	mu    sync.Mutex
	reach func(ctx context.Context, host string, port int) runnel.EgressAnswer
}

type nettedConn struct {
	runnel.Conn
	p *netted
}

func (p *netted) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	c, err := p.Provider.Open(ctx, opt)
	return nettedConn{c, p}, err
}

func (p *netted) Adopt(ctx context.Context, opt runnel.Options) (runnel.Conn, runnel.Backlog, error) {
	c, back, err := p.Provider.(runnel.Adopter).Adopt(ctx, opt)
	return nettedConn{c, p}, back, err
}

func (c nettedConn) OnEgress(f func(ctx context.Context, host string, port int) runnel.EgressAnswer) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.p.reach = f
}

func (c nettedConn) Detach() bool {
	if c.p.detach != nil {
		c.p.detach()
	}
	return c.Conn.(runnel.Detacher).Detach()
}

// connect begins to reach for a host. The answer arrives on the channel.
func (p *netted) connect(ctx context.Context, host string) <-chan runnel.EgressAnswer {
	p.mu.Lock()
	f := p.reach
	p.mu.Unlock()
	answer := make(chan runnel.EgressAnswer, 1)
	go func() { answer <- f(ctx, host, 443) }()
	return answer
}

// openNetted opens a session whose agent hangs in its turn, and begins a turn.
func openNetted(t *testing.T, cfg runnel.Config, opt runnel.Options) (*netted, *runnel.Session, *runnel.Memory) {
	t.Helper()
	log := new(runnel.Memory)
	cfg.ID, cfg.Log, opt.Resume = "s", log, "agent-1"
	p := &netted{Provider: &script.Provider{Script: script.Script{Steps: []script.Step{{Text: "wait"}, hang}}}}
	s, err := runnel.Open(t.Context(), p, opt, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	send(t, s)
	synctest.Wait()
	return p, s, log
}

// pendingOf returns the pending approvals, once nothing moves any more.
func pendingOf(s *runnel.Session) []event.Approval {
	synctest.Wait()
	return s.Status().Pending
}

func answerWith(t *testing.T, s *runnel.Session, a event.Approval, choice string) {
	t.Helper()
	if err := s.Decide(t.Context(), a.ID, runnel.Decision{Choice: choice, ArgumentsDigest: a.ArgumentsDigest, Reason: "because"}); err != nil {
		t.Fatal(err)
	}
}

// waits fails if an answer has arrived.
func waits(t *testing.T, answer <-chan runnel.EgressAnswer) {
	t.Helper()
	synctest.Wait()
	select {
	case a := <-answer:
		t.Fatalf("answered early: %+v", a)
	default:
	}
}

func resolutions(t *testing.T, log runnel.Log) (out []string) {
	t.Helper()
	for ev, err := range log.Read(t.Context(), "s", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if b, ok := ev.Body.(event.ApprovalResolved); ok {
			out = append(out, fmt.Sprintf("%s %s %s", b.Choice, b.By, b.Reason))
		}
	}
	return out
}

func TestEgressQuestionIsAnApproval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var decided []runnel.Decided
		p, s, log := openNetted(t, runnel.Config{Decided: func(d runnel.Decided) { decided = append(decided, d) }}, runnel.Options{})
		first, second := p.connect(t.Context(), "API.example.com"), p.connect(t.Context(), "api.example.com")
		pending := pendingOf(s)
		if len(pending) != 1 { // both connections wait for one answer
			t.Fatalf("%d questions: %+v", len(pending), pending)
		}
		a := pending[0]
		if a.Title != "Reach api.example.com:443" || a.ToolName != "connect" || a.Kind != event.ApprovalTool || string(a.Arguments) != `{"host":"api.example.com","port":443}` || a.ArgumentsEditable {
			t.Errorf("asked %+v", a)
		}
		if err := s.Decide(t.Context(), a.ID, runnel.Decision{Choice: "allow_once"}); runnel.CodeOf(err) != runnel.InvalidRequest {
			t.Errorf("approved unseen: %v", err)
		}
		waits(t, first)
		answerWith(t, s, a, "allow_once")
		for _, answer := range []<-chan runnel.EgressAnswer{first, second} {
			if got := <-answer; got != (runnel.EgressAnswer{By: "allowed once"}) {
				t.Errorf("answered %+v", got)
			}
		}
		if err := s.Decide(t.Context(), a.ID, runnel.Decision{Choice: "deny"}); runnel.CodeOf(err) != runnel.ApprovalGone {
			t.Errorf("a second decision: %v", err)
		}
		third := p.connect(t.Context(), "api.example.com") // once is not twice
		waits(t, third)
		answerWith(t, s, pendingOf(s)[0], "deny")
		if got := <-third; got != (runnel.EgressAnswer{Why: "denied: because"}) {
			t.Errorf("answered %+v", got)
		}
		if got := <-p.connect(t.Context(), "api.example.com"); got.Why != "denied: because" { // no second question in this turn
			t.Errorf("answered %+v", got)
		}
		if diff := cmp.Diff([]string{"allow_once user because", "deny user because"}, resolutions(t, log)); diff != "" {
			t.Error(diff)
		}
		if len(decided) != 2 || decided[0].Approval.Title != a.Title || decided[0].Turn == "" {
			t.Errorf("recorded %+v", decided)
		}
		if st := s.Status(); st.Turn == "" {
			t.Error("the denial ended the turn")
		}
	})
}

// A host that is allowed for the session stays allowed in later turns and for
// the session's next agent.
func TestEgressAllowedForTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s, _ := openNetted(t, runnel.Config{}, runnel.Options{})
		answer := p.connect(t.Context(), "api.example.com")
		answerWith(t, s, pendingOf(s)[0], "allow_session")
		want := runnel.EgressAnswer{By: "allowed for the session"}
		if got := <-answer; got != want {
			t.Errorf("answered %+v", got)
		}
		if err := s.Cancel(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := <-p.connect(t.Context(), "api.example.com"); got != want { // between turns
			t.Errorf("answered %+v", got)
		}
		if err := s.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		send(t, s)
		if got := <-p.connect(t.Context(), "api.example.com"); got.By == "" {
			synctest.Wait()
			if got = <-p.connect(t.Context(), "api.example.com"); got != want {
				t.Errorf("answered %+v", got)
			}
		}
		other := p.connect(t.Context(), "other.example.com")
		waits(t, other)
		if n := len(pendingOf(s)); n != 1 {
			t.Errorf("%d questions", n)
		}
	})
}

func TestEgressIsRefusedWithoutAnybodyToAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(runnel.Memory)
		p := &netted{Provider: &script.Provider{Script: script.Script{Steps: []script.Step{say}}}}
		s, err := runnel.Open(t.Context(), p, runnel.Options{Resume: "agent-1"}, runnel.Config{ID: "s", Log: log})
		if err != nil {
			t.Fatal(err)
		}
		if got := <-p.connect(t.Context(), "api.example.com"); got.Why != "denied: no turn" {
			t.Errorf("before the first turn: %+v", got)
		}
		if _, err := send(t, s).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := <-p.connect(t.Context(), "api.example.com"); got.Why != "denied: no turn" {
			t.Errorf("after the turn: %+v", got)
		}
		_ = s.Close()
		if got := <-p.connect(t.Context(), "api.example.com"); got.Why != "denied: the agent has ended" {
			t.Errorf("after the session: %+v", got)
		}
	})
	for _, tc := range []struct {
		name string
		cfg  runnel.Config
		opt  runnel.Options
		want string
	}{
		{"a run that nobody watches", runnel.Config{ApprovalTimeout: -1}, runnel.Options{}, "denied: approval required"},
		{"no answer within the approval timeout", runnel.Config{ApprovalTimeout: time.Minute}, runnel.Options{}, "denied: no answer arrived in time"},
		{"no answer within the question's own timeout", runnel.Config{}, runnel.Options{}, "denied: no answer arrived in time"},
		{"dontAsk", runnel.Config{}, runnel.Options{PermissionMode: runnel.ModeDontAsk}, "denied: the permission mode"},
		{"an approver that denies", runnel.Config{}, runnel.Options{Approve: func(context.Context, event.Approval) runnel.Decision { return runnel.Decision{Choice: "deny"} }}, "denied"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, _, _ := openNetted(t, tc.cfg, tc.opt)
				if got := <-p.connect(t.Context(), "api.example.com"); got.By != "" || !strings.HasPrefix(got.Why, tc.want) {
					t.Errorf("answered %+v, want %q", got, tc.want)
				}
			})
		})
	}
}

func TestEgressQuestionEndsWithItsTurn(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(*runnel.Session)
		want string
	}{
		{"cancel", func(s *runnel.Session) { _ = s.Cancel(context.Background()) }, "denied: the turn was cancelled"},
		{"close", func(s *runnel.Session) { go s.Close() }, "denied: the turn was cancelled"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, s, log := openNetted(t, runnel.Config{}, runnel.Options{})
				answer := p.connect(t.Context(), "api.example.com")
				waits(t, answer)
				tc.end(s)
				if got := <-answer; got.Why != tc.want {
					t.Errorf("answered %+v", got)
				}
				synctest.Wait()
				if got := resolutions(t, log); len(got) != 1 || !strings.HasPrefix(got[0], "withdrawn policy") {
					t.Errorf("resolved %q", got)
				}
			})
		})
	}
	t.Run("the agent crashes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			log := new(runnel.Memory)
			p := &netted{Provider: &script.Provider{Script: script.Script{Steps: []script.Step{say, {Crash: true, PauseMS: 1000}}}}}
			s, err := runnel.Open(t.Context(), p, runnel.Options{Resume: "agent-1"}, runnel.Config{ID: "s", Log: log})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			send(t, s)
			synctest.Wait()
			answer := p.connect(t.Context(), "api.example.com")
			if got := <-answer; got.Why != "denied: the turn is over" {
				t.Errorf("answered %+v", got)
			}
			if got := resolutions(t, log); len(got) != 1 || !strings.HasPrefix(got[0], "withdrawn policy") {
				t.Errorf("resolved %q", got)
			}
		})
	})
	t.Run("the log fails", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			log := &mortal{Memory: new(runnel.Memory), left: 1 << 20, die: func() {}}
			p := &netted{Provider: &script.Provider{Script: script.Script{Steps: []script.Step{say, hang}}}}
			s, err := runnel.Open(t.Context(), p, runnel.Options{Resume: "agent-1"}, runnel.Config{ID: "s", Log: log})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			send(t, s)
			synctest.Wait()
			answer := p.connect(t.Context(), "api.example.com")
			a := pendingOf(s)[0]
			log.left = 0
			if err := s.Decide(t.Context(), a.ID, runnel.Decision{Choice: "allow_session", ArgumentsDigest: a.ArgumentsDigest}); err == nil {
				t.Error("decided without a log")
			}
			if got := <-answer; got.By != "" { // an answer that is not in the log does not count
				t.Errorf("answered %+v", got)
			}
		})
	})
}

// A restarted server withdraws the questions of the earlier one, whose
// connections have ended, and asks again for new connections of the same turn.
func TestEgressQuestionEndsWithTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(runnel.Memory)
		k := &keeper{Provider: script.Provider{Script: script.Script{Steps: []script.Step{say, hang}}}}
		p := &netted{Provider: k}
		s, err := runnel.Open(t.Context(), p, runnel.Options{Resume: "agent-1"}, runnel.Config{ID: "s", Log: log})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Send(t.Context(), runnel.Input{Text: "go", Turn: adoptedTurn}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		answer := p.connect(t.Context(), "api.example.com")
		asked := pendingOf(s)
		if len(asked) != 1 || !s.Detach(t.Context()) {
			t.Fatalf("not detached, or not one question: %+v", asked)
		}
		if got := <-answer; got.By != "" {
			t.Errorf("answered %+v", got)
		}
		s, err = runnel.Open(t.Context(), p, runnel.Options{Resume: "agent-1"}, runnel.Config{ID: "s", Log: log, Dormant: true, Adopt: true})
		if err != nil || s.NotAdopted() != nil {
			t.Fatal(err, s.NotAdopted())
		}
		defer s.Close()
		if pending := pendingOf(s); len(pending) > 0 || s.Status().Turn != adoptedTurn {
			t.Errorf("pending %+v", pending)
		}
		if diff := cmp.Diff([]string{"withdrawn policy the server was restarted"}, resolutions(t, log)); diff != "" {
			t.Error(diff)
		}
		if err := s.Decide(t.Context(), asked[0].ID, runnel.Decision{Choice: "allow_once", ArgumentsDigest: asked[0].ArgumentsDigest}); runnel.CodeOf(err) != runnel.ApprovalGone {
			t.Errorf("decided: %v", err)
		}
		answer = p.connect(t.Context(), "api.example.com")
		again := pendingOf(s)
		if len(again) != 1 || again[0].ID == asked[0].ID {
			t.Fatalf("pending %+v", again)
		}
		answerWith(t, s, again[0], "allow_once")
		if got := <-answer; got.By != "allowed once" {
			t.Errorf("answered %+v", got)
		}
	})
}

func TestRulesDecideEgressWithoutAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var decided []string
		judge := func(_ context.Context, a event.Approval) (runnel.Decision, bool) {
			d := runnel.Decision{Choice: "allow_once", Maker: runnel.Maker{Name: "rules", Rule: 3}}
			if strings.Contains(a.Title, "evil") {
				d.Choice, d.Reason, d.Maker.Rule = "deny", "denied by rule 4, made on 2026-01-01", 4
			}
			return d, !strings.Contains(a.Title, "unknown")
		}
		p, s, log := openNetted(t, runnel.Config{Judge: judge, Decided: func(d runnel.Decided) {
			decided = append(decided, fmt.Sprint(d.Approval.Title, " ", d.Resolved.Choice, " ", d.Maker.Rule))
		}}, runnel.Options{})
		for range 3 {
			if got := <-p.connect(t.Context(), "good.example.com"); got != (runnel.EgressAnswer{By: "rule 3"}) {
				t.Errorf("answered %+v", got)
			}
			if got := <-p.connect(t.Context(), "evil.example.com"); got != (runnel.EgressAnswer{Why: "denied by rule 4, made on 2026-01-01"}) {
				t.Errorf("answered %+v", got)
			}
		}
		unknown := p.connect(t.Context(), "unknown.example.com")
		waits(t, unknown)
		answerWith(t, s, pendingOf(s)[0], "deny")
		<-unknown
		if got := resolutions(t, log); len(got) != 1 { // rules add no events
			t.Errorf("resolved %q", got)
		}
		if diff := cmp.Diff([]string{"Reach good.example.com:443 allow_once 3", "Reach evil.example.com:443 deny 4", "Reach unknown.example.com:443 deny 0"}, decided); diff != "" {
			t.Error(diff)
		}
		_ = s.Cancel(t.Context())
		synctest.Wait()
		if got := <-p.connect(t.Context(), "good.example.com"); got.By != "rule 3" { // also between turns
			t.Errorf("answered %+v", got)
		}
	})
}

// A Judge that blocks neither allows nor blocks for ever.
func TestEgressDoesNotWaitForASlowJudge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		judge, decide := slowJudge(verdict("allow_once", ""))
		defer close(decide)
		p, s, _ := openNetted(t, runnel.Config{Judge: judge}, runnel.Options{})
		answer := p.connect(t.Context(), "api.example.com")
		time.Sleep(4 * time.Second)
		if n := len(pendingOf(s)); n != 1 {
			t.Fatalf("%d questions", n)
		}
		waits(t, answer)
		_ = s.Cancel(t.Context())
		<-answer
	})
}

func TestEgressQuestionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s, _ := openNetted(t, runnel.Config{}, runnel.Options{})
		ctx, leave := context.WithCancel(t.Context())
		var answers []<-chan runnel.EgressAnswer
		for i := range 8 {
			answers = append(answers, p.connect(ctx, fmt.Sprintf("h%d.example.com", i)))
		}
		if n := len(pendingOf(s)); n != 8 {
			t.Fatalf("%d questions", n)
		}
		if got := <-p.connect(ctx, "h9.example.com"); !strings.Contains(got.Why, "too many hosts") {
			t.Errorf("a ninth open question: %+v", got)
		}
		for range 64 - 8 {
			answers = append(answers, p.connect(ctx, "h1.example.com"))
		}
		synctest.Wait()
		if got := <-p.connect(ctx, "h1.example.com"); !strings.Contains(got.Why, "too many connections") {
			t.Errorf("a connection too many: %+v", got)
		}
		leave()
		for _, a := range answers {
			if got := <-a; got.By != "" {
				t.Errorf("answered %+v", got)
			}
		}
		for _, a := range pendingOf(s) { // the questions stay, for programs that try again
			answerWith(t, s, a, "deny")
		}
		for i := 10; ; i++ {
			answer := p.connect(t.Context(), fmt.Sprintf("h%d.example.com", i))
			pending := pendingOf(s)
			if len(pending) == 0 {
				if got := <-answer; i < 40 || !strings.Contains(got.Why, "too many hosts") {
					t.Errorf("question %d: %+v", i, got)
				}
				return
			}
			answerWith(t, s, pending[0], "deny")
			<-answer
		}
	})
}

// A program that gave up before a late answer may connect once.
func TestLateEgressAnswerCountsForTheNextConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s, _ := openNetted(t, runnel.Config{}, runnel.Options{})
		ctx, leave := context.WithCancel(t.Context())
		first := p.connect(ctx, "api.example.com")
		a := pendingOf(s)[0]
		leave()
		if got := <-first; got.Why != "the connection ended before an answer" {
			t.Errorf("answered %+v", got)
		}
		answerWith(t, s, a, "allow_once")
		if got := <-p.connect(t.Context(), "api.example.com"); got.By != "allowed once" {
			t.Errorf("answered %+v", got)
		}
		last := p.connect(t.Context(), "api.example.com")
		waits(t, last)
	})
}

// hiding is a Filter that knows two secrets.
type hiding struct{}

func (hiding) Event(ev event.Event) []event.Event { return []event.Event{ev} }
func (hiding) End() []event.Event                 { return nil }
func (hiding) Text(s string) string {
	return strings.NewReplacer("s3cret", "[hidden]", "T0KEN", "[hidden]").Replace(s)
}

func TestEgressHostWithASecretIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s, _ := openNetted(t, runnel.Config{}, runnel.Options{Filter: func(runnel.Options) runnel.Filter { return hiding{} }})
		for _, host := range []string{"s3cret.example.com", "S3CRET.example.com", "T0KEN.example.com"} { // names are logged in lower case
			if got := <-p.connect(t.Context(), host); !strings.Contains(got.Why, "contains a secret") {
				t.Fatalf("%s: answered %+v", host, got)
			}
		}
		if n := len(pendingOf(s)); n != 0 {
			t.Errorf("%d questions", n)
		}
	})
}

// An agent that was started ahead of its session asks in the session.
func TestEgressOfAPrewarmedAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &netted{Provider: &script.Provider{Script: script.Script{Steps: []script.Step{say, hang}}}}
		conn, err := p.Open(t.Context(), runnel.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := runnel.Open(t.Context(), p, runnel.Options{}, runnel.Config{ID: "s", Log: new(runnel.Memory), Conn: conn})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		send(t, s)
		synctest.Wait()
		answer := p.connect(t.Context(), "api.example.com")
		answerWith(t, s, pendingOf(s)[0], "allow_once")
		if got := <-answer; got.By != "allowed once" {
			t.Errorf("answered %+v", got)
		}
	})
}

// The proxy closes while the session detaches its agent, and waits for its
// connections. One that a rule has just decided must not wait for the session.
func TestDetachDoesNotWaitForARuleAboutAHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		judge, decide := slowJudge(verdict("allow_once", ""))
		p := &netted{Provider: &keeper{Provider: script.Provider{Script: script.Script{Steps: []script.Step{say, hang}}}}}
		s, err := runnel.Open(t.Context(), p, runnel.Options{Resume: "agent-1"}, runnel.Config{ID: "s", Log: new(runnel.Memory), Judge: judge})
		if err != nil {
			t.Fatal(err)
		}
		send(t, s)
		synctest.Wait()
		ctx, end := context.WithCancel(t.Context())
		answer := p.connect(ctx, "api.example.com")
		synctest.Wait() // the rule decides now
		p.detach = func() {
			close(decide)
			synctest.Wait() // the connection now needs the session
			end()
			if got := <-answer; got.By != "policy" && got.By != "allowed once" {
				t.Errorf("answered %+v", got)
			}
		}
		if !s.Detach(t.Context()) {
			t.Error("not detached")
		}
		_ = p.Provider.(*keeper).agent.Close()
	})
}
