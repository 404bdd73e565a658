package claude

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/event"
)

// A modelRequest is the part of a request to the model that options change.
type modelRequest struct {
	Tools    []struct{ Name string }
	Thinking struct {
		BudgetTokens int `json:"budget_tokens"`
	}
	OutputConfig struct{ Effort string } `json:"output_config"`
	System       content
}

// lastRequest returns the last request of the conversation to the model.
func (r *rig) lastRequest() (q modelRequest) {
	r.T.Helper()
	for _, req := range slices.Backward(r.Model.Requests()) {
		if req.Method == "POST" && strings.HasPrefix(req.Path, "/v1/messages?") {
			if err := json.Unmarshal(req.Body, &q); err != nil {
				r.T.Fatal(err)
			}
			return q
		}
	}
	r.T.Fatal("the model received no request")
	return q
}

// The agent obeys the options that it takes only at its start.
func TestOptionsOfAStartReachTheModel(t *testing.T) {
	eachAgent(t, func(t *testing.T, r *rig) {
		r.Opt.Tools, r.Opt.ReasoningEffort, r.Opt.MaxTurns = []string{"Read", "Bash"}, "low", 1
		r.Opt.SystemPromptAppend = `--settings={"hooks":{}} be "brief"`
		r.Play(calls(bash("echo done", "Say")), says("ok"))
		evs := r.Finish(allowOnce)
		q := r.lastRequest()
		var names []string
		for _, tool := range q.Tools {
			if tool.Name != "DeferredToolPlaceholder" { // 2.1.330 adds it, and it does nothing
				names = append(names, tool.Name)
			}
		}
		slices.Sort(names)
		if !slices.Equal(names, []string{"Bash", "Read"}) {
			t.Errorf("tools: the model can call %q", names)
		}
		if q.OutputConfig.Effort != "low" {
			t.Errorf("reasoningEffort: the model has the effort %q", q.OutputConfig.Effort)
		}
		if !strings.Contains(q.System.text(), r.Opt.SystemPromptAppend) {
			t.Error("systemPromptAppend: the model did not receive the text")
		}
		last, ok := evs[len(evs)-1].Body.(event.ResponseError)
		if !ok || !strings.Contains(last.Error.Message, "maxTurns") {
			t.Errorf("maxTurns: the turn ended with %+v", evs[len(evs)-1].Body)
		}
	})
}

// A model with adaptive thinking, such as the agent's default model, has no
// budget. The agent then ignores the option.
func TestThinkingBudgetReachesTheModel(t *testing.T) {
	eachAgent(t, func(t *testing.T, r *rig) {
		r.Opt.Model, r.Opt.MaxThinkingTokens = "claude-haiku-4-5", 4321
		r.Send("hi")
		r.Finish("")
		if got := r.lastRequest().Thinking.BudgetTokens; got != 4321 {
			t.Errorf("the budget is %d", got)
		}
	})
}
