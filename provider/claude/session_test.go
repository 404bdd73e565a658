package claude

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/testload"
)

func TestRateLimitsFallbacksAndRetriesAreReported(t *testing.T) {
	tests := []struct {
		line string
		want []event.Body
	}{
		{`{"type":"rate_limit_event","rate_limit_info":{"status":"allowed","resetsAt":1795300000,"rateLimitType":"seven_day","utilization":0.5}}`,
			[]event.Body{event.UsageUpdated{RateLimit: &event.RateLimit{Status: "allowed", Kind: "seven_day", Utilization: 0.5, ResetsAt: 1795300000}}}},
		{`{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1795300000,"rateLimitType":"five_hour"}}`, []event.Body{
			event.UsageUpdated{RateLimit: &event.RateLimit{Status: "rejected", Kind: "five_hour", ResetsAt: 1795300000}},
			event.Notice{Level: event.LevelWarning, Code: "RATE_LIMITED", Message: "The account's limit is used up until 2026-11-21 22:26 UTC."},
		}},
		{`{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":-1}}`, []event.Body{
			event.UsageUpdated{RateLimit: &event.RateLimit{Status: "rejected", ResetsAt: -1}},
			event.Notice{Level: event.LevelWarning, Code: "RATE_LIMITED", Message: "The account's limit is used up."},
		}},
		{`{"type":"system","subtype":"model_fallback","trigger":"overloaded","original_model":"big","fallback_model":"small"}`, []event.Body{
			event.Notice{Level: event.LevelWarning, Code: "MODEL_FALLBACK", Message: "The model is overloaded; the agent continues with small."},
		}},
		{`{"type":"system","subtype":"api_retry","attempt":2,"max_retries":10,"retry_delay_ms":625.5,"error_status":null,"error":"network"}`, []event.Body{
			event.Notice{Level: event.LevelWarning, Code: "RETRYING", Message: "The model API could not be reached. Retrying in 0.6 s (2 of 10)."},
		}},
	}
	for _, tt := range tests {
		evs, _ := begun().Printed([]byte(tt.line), fixtureStart)
		var got []event.Body
		for _, ev := range evs {
			got = append(got, ev.Body)
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s: %s", tt.line, d)
		}
	}
}

// session opens a runnel.Session with the agent.
func (r *rig) session(cfg runnel.Config) *runnel.Session {
	r.T.Helper()
	cfg.ID = "s"
	s, err := runnel.Open(r.T.Context(), New(), r.Opt, cfg)
	if err != nil {
		r.T.Fatal(err)
	}
	r.T.Cleanup(func() { s.Close() })
	return s
}

// turnIn runs a turn in a session and waits for its end.
func turnIn(t *testing.T, s *runnel.Session, steps ...fakemodel.Step) (runnel.Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	turn, err := s.Send(ctx, runnel.Text(scenario(steps...)))
	if err != nil {
		t.Fatal(err)
	}
	return turn.Wait(ctx)
}

// The agent sends no events while it starts. So the stall timeout depends on
// the load of the machine.
func TestStalledModelEndsTheTurn(t *testing.T) {
	eachAgent(t, func(t *testing.T, r *rig) {
		log := new(runnel.Memory)
		s := r.session(runnel.Config{Log: log, StallTimeout: min(testload.Room(10*time.Second), 40*time.Second)})
		if _, err := turnIn(t, s, says("Before.")); err != nil {
			t.Fatal(err)
		}
		before := s.Status().AgentSessionID
		_, err := turnIn(t, s, fakemodel.Step{Text: "one two three four", Faults: []fakemodel.Fault{{Kind: fakemodel.Stall, After: 1}}})
		if runnel.CodeOf(err) != runnel.AgentStalled {
			t.Fatalf("got %v", err)
		}
		res, err := turnIn(t, s, says("After."))
		if err != nil || res.FinalText != "After." {
			t.Fatalf("the next turn: %+v, %v", res, err)
		}
		if after := s.Status().AgentSessionID; after != before {
			t.Errorf("the conversation changed from %s to %s", before, after)
		}
		last := r.Model.Requests()[len(r.Model.Requests())-1]
		if !strings.Contains(string(last.Body), "Before.") {
			t.Error("the conversation lacks the first turn")
		}
	})
}

func TestClearBeginsAnotherConversation(t *testing.T) {
	eachAgent(t, func(t *testing.T, r *rig) {
		s := r.session(runnel.Config{})
		if _, err := turnIn(t, s, says("Before.")); err != nil {
			t.Fatal(err)
		}
		first := s.Status().AgentSessionID
		turn, err := s.Send(t.Context(), runnel.Text("/clear"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := turn.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := turnIn(t, s, says("Between.")); err != nil {
			t.Fatal(err)
		}
		second := s.Status().AgentSessionID
		if second == first || second == "" {
			t.Fatalf("conversation %s, then %s", first, second)
		}
		if err := s.Release(t.Context()); err != nil { // the next prompt starts the agent again
			t.Fatal(err)
		}
		if _, err := turnIn(t, s, says("After.")); err != nil {
			t.Fatal(err)
		}
		if now := s.Status().AgentSessionID; now != second {
			t.Errorf("resumed %s, not %s", now, second)
		}
		last := string(r.Model.Requests()[len(r.Model.Requests())-1].Body)
		if strings.Contains(last, "Before.") || !strings.Contains(last, "Between.") {
			t.Error("the agent resumed the wrong conversation")
		}
	})
}

// The agent copies entries to a fork under the same native ids. The prompt's
// turn has the same id in both conversations. Ids of other turns are derived
// from the session and differ.
func TestForkHasTheSameIDsOnlyForPrompts(t *testing.T) {
	eachAgent(t, func(t *testing.T, r *rig) {
		r.Play(costing(calls(agent("Behind", true, calls(bash("echo x", "Say")), says("Behind."))), says("Runs."), says("Over."))...)
		r.Finish(allowOnce)
		r.Until(func(ev event.Event) bool {
			m, ok := ev.Body.(event.ItemDone)
			f, is := m.FinalItem.(event.Message)
			return ok && is && f.Content == "Over."
		})
		r.Until(func(ev event.Event) bool { return event.Ends(ev.Body) })
		origin := r.agentSession()
		r.Conn.Close()
		r.Opt.Resume = origin
		c, err := New().Fork(t.Context(), r.Opt)
		if err != nil {
			t.Fatal(err)
		}
		r.Conn = c
		defer c.Close()
		r.stillWorks()
		copied := r.agentSession()
		turns := func(session string) (ids []string) {
			files, err := filepath.Glob(filepath.Join(r.Home.Config, "projects", "*", session+".jsonl"))
			if err != nil || len(files) != 1 {
				t.Fatalf("%q, %v", files, err)
			}
			for _, it := range items(history(t, runnel.Conversation{AgentSessionID: session, File: files[0], Anywhere: true})) {
				if !slices.Contains(ids, it.Turn) {
					ids = append(ids, it.Turn)
				}
			}
			return ids
		}
		was, is := turns(origin), turns(copied)
		if len(is) < 3 || was[0] != is[0] {
			t.Errorf("the prompt's turn is %v in the origin, %v in the copy", was, is)
		}
		for _, id := range was[1:] { // derived from the session's id and a native id
			if slices.Contains(is, id) {
				t.Errorf("turn %s is in both", id)
			}
		}
	})
}
