package script_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/provider/script"
)

// played runs a turn of p and returns its events. decide answers the approvals.
func played(t *testing.T, p *script.Provider, opt runnel.Options, prompt string, decide func(event.Approval) runnel.Decision) []event.Event {
	t.Helper()
	log := new(runnel.Memory)
	s, err := runnel.Open(t.Context(), p, opt, runnel.Config{ID: "s", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Send(t.Context(), runnel.Text(prompt)); err != nil {
		t.Fatal(err)
	}
	var out []event.Event
	for ev, err := range runnel.Follow(t.Context(), log, "s", 0) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, ev)
		if r, ok := ev.Body.(event.ApprovalRequested); ok {
			d := decide(r.Approval)
			d.ArgumentsDigest = r.Approval.ArgumentsDigest
			if err := s.Decide(t.Context(), r.Approval.ID, d); err != nil {
				t.Fatal(err)
			}
		}
		if event.Ends(ev.Body) {
			break
		}
	}
	return out
}

func outputs(evs []event.Event) (out []event.FunctionCallOutput) {
	for _, ev := range evs {
		if done, ok := ev.Body.(event.ItemDone); ok {
			if f, ok := done.FinalItem.(event.FunctionCallOutput); ok {
				out = append(out, f)
			}
		}
	}
	return out
}

// The answer to a form or a question becomes the tool's output. The bypass mode
// does not answer forms and questions.
func TestAnswerBecomesTheOutputOfTheTool(t *testing.T) {
	for _, prompt := range []string{"form", "question"} {
		kinds := map[string]event.ApprovalKind{"form": event.ApprovalForm, "question": event.ApprovalQuestion}
		n := 0
		evs := played(t, script.New(), runnel.Options{PermissionMode: runnel.ModeBypass, AllowBypass: true, Config: runnel.Values{"pace": "fast"}}, prompt, func(a event.Approval) runnel.Decision {
			if a.Kind != kinds[prompt] || !a.ArgumentsEditable || !json.Valid(a.Arguments) {
				t.Errorf("%s: %+v", prompt, a)
			}
			n++
			if n == 1 {
				return runnel.Decision{Choice: "allow", UpdatedArguments: json.RawMessage(`{"name":"x"}`), ArgumentsDigest: a.ArgumentsDigest}
			}
			return runnel.Decision{Choice: "deny", Reason: "not now"}
		})
		got := outputs(evs)
		if n != 2 || len(got) != 2 || got[0].Output != `{"name":"x"}` || got[1].Output != "not now" || !got[1].IsError {
			t.Errorf("%s: %d approvals, outputs %+v", prompt, n, got)
		}
	}
}

func TestChosenOptionBecomesTheOutputOfTheTool(t *testing.T) {
	evs := played(t, script.New(), runnel.Options{Config: runnel.Values{"pace": "fast"}}, "question", func(a event.Approval) runnel.Decision {
		if slices.ContainsFunc(a.Choices, func(c event.Choice) bool { return c.ID == "option_2" }) {
			return runnel.Decision{Choice: "option_2"}
		}
		return runnel.Decision{Choice: "allow"}
	})
	if got := outputs(evs); len(got) != 2 || got[0].Output != "PostgreSQL" {
		t.Errorf("%+v", got)
	}
}

func TestOutputGrowsInPieces(t *testing.T) {
	one := 1
	p := &script.Provider{Script: script.Script{Steps: []script.Step{
		{Tool: &script.Tool{Name: "exec_command", Kind: event.KindExecute, Output: "a", Pieces: []string{"\rb", "\x1b[31mc"}, ExitCode: &one}},
	}}}
	var grown []string
	evs := played(t, p, runnel.Options{}, "go", nil)
	for _, ev := range evs {
		if d, ok := ev.Body.(event.ItemDelta); ok && strings.HasSuffix(d.ItemID, ":output") {
			grown = append(grown, d.DeltaContent)
		}
	}
	if !slices.Equal(grown, []string{"a", "\rb", "\x1b[31mc"}) {
		t.Errorf("%q", grown)
	}
	if got := outputs(evs); len(got) != 1 || got[0].Output != "a\rb\x1b[31mc" || *got[0].ExitCode != 1 {
		t.Errorf("%+v", got)
	}
}

// Probe lists the player's settings. They have an effect from the first turn
// on.
func TestPlayerSettingsAreListedAndApplied(t *testing.T) {
	offered := script.New().Probe(t.Context()).Config
	if len(offered) != 2 || offered[1].Value != "true" {
		t.Fatalf("%+v", offered)
	}
	evs := played(t, script.New(), runnel.Options{Config: runnel.Values{"pace": "fast", "thoughts": "false"}}, `{"steps":[{"reasoning":"hm"},{"text":"so"}]}`, nil)
	reported := false
	for _, ev := range evs {
		switch b := ev.Body.(type) {
		case event.SessionUpdated:
			reported = reported || len(b.Config) == 2 && b.Config[0].Value == "fast" && b.Config[1].Value == "false"
		case event.ItemStart:
			if b.ItemType == event.TypeReasoning {
				t.Error("reasoning was emitted")
			}
		}
	}
	if !reported {
		t.Error("the settings were not reported")
	}
	for _, bad := range []runnel.Values{{"unknown": "x"}, {"pace": "slow"}} {
		if _, err := script.New().Open(t.Context(), runnel.Options{Config: bad}); runnel.CodeOf(err) != runnel.InvalidRequest {
			t.Errorf("%v: got %v", bad, err)
		}
	}
}

// The mode acceptEdits requests approvals for everything except edits.
func TestAcceptEditsAsksAboutCommandsOnly(t *testing.T) {
	for prompt, want := range map[string]int{"demo": 0, "approve": 1} {
		asked := 0
		played(t, script.New(), runnel.Options{PermissionMode: runnel.ModeAcceptEdits, Config: runnel.Values{"pace": "fast"}}, prompt, func(event.Approval) runnel.Decision {
			asked++
			return runnel.Decision{Choice: "allow"}
		})
		if asked != want {
			t.Errorf("%s: %d approvals, want %d", prompt, asked, want)
		}
	}
}

// A failed text ends with its error, and the turn continues.
func TestTextEndsWithItsError(t *testing.T) {
	evs := played(t, script.New(), runnel.Options{}, `{"steps":[{"text":"half a","error":{"code":"AGENT_ERROR","message":"cut off"}},{"text":"so"}]}`, nil)
	failed := 0
	for _, ev := range evs {
		if b, ok := ev.Body.(event.ItemError); ok && b.Error.Message == "cut off" {
			failed++
		}
	}
	if last, ok := evs[len(evs)-1].Body.(event.ResponseDone); failed != 1 || !ok || last.Status != event.StatusCompleted {
		t.Errorf("%d texts failed, and the turn ended with %+v", failed, evs[len(evs)-1])
	}
}

func TestProbeListsThePermissionModes(t *testing.T) {
	want := []string{"default", "acceptEdits", "dontAsk", "bypass"}
	if got := script.New().Probe(t.Context()).Modes; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The mode dontAsk denies everything that needs an approval, including
// questions.
func TestDontAskDeniesAllApprovals(t *testing.T) {
	for prompt, want := range map[string]int{"approve": 1, "question": 2, "form": 2} {
		evs := played(t, script.New(), runnel.Options{PermissionMode: runnel.ModeDontAsk, Config: runnel.Values{"pace": "fast"}}, prompt, func(a event.Approval) runnel.Decision {
			t.Errorf("%s: approval %q", prompt, a.Title)
			return runnel.Decision{Choice: "deny"}
		})
		got := outputs(evs)
		if len(got) != want || !got[0].IsError || got[0].Output != "the permission mode dontAsk denies everything that needs an approval" {
			t.Errorf("%s: outputs %+v", prompt, got)
		}
	}
}

func TestTurnEndsWithTheReportedUsage(t *testing.T) {
	want := event.Usage{InputTokens: 1200, OutputTokens: 300, CacheReadInputTokens: 45000}
	prompt := `{"steps":[{"text":"a b c"},{"usage":{"usage":{"inputTokens":1200,"outputTokens":300,"cacheReadInputTokens":45000}}},{"text":"d e"}]}`
	evs := played(t, script.New(), runnel.Options{}, prompt, nil)
	done, ok := evs[len(evs)-1].Body.(event.ResponseDone)
	if !ok || done.Usage == nil || *done.Usage != want {
		t.Errorf("got %+v", evs[len(evs)-1].Body)
	}
}
