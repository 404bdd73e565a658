package script_test

import (
	"encoding/json"
	"testing"

	"go.uber.org/goleak"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/provider/providertest"
	"github.com/runnel-dev/runnel/provider/script"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	providertest.Run(t, providertest.Subject{
		New: func(t *testing.T) (runnel.Provider, runnel.Options) {
			return script.New(), runnel.Options{Dir: t.TempDir()}
		},
		Needs: map[providertest.Scenario]func(*runnel.Options){ // a prompt without text plays the demo, which has pauses
			providertest.Image: func(opt *runnel.Options) { opt.Config = runnel.Values{"pace": "fast"} },
		},
		Prompts: map[providertest.Scenario]string{
			providertest.Text:      "text",
			providertest.Reasoning: `{"steps":[{"reasoning":"hm"},{"text":"so"}]}`,
			providertest.Tool:      `{"steps":[{"tool":{"name":"Bash","kind":"execute","output":"hi"}},{"text":"so"}]}`,
			providertest.Parallel:  "tools",
			providertest.Edit:      `{"steps":[{"tool":{"name":"Write","kind":"edit","changes":[{"path":"a","kind":"create","newText":"x","hunks":[]}],"ask":{}}}]}`,
			providertest.Approval:  "approve",
			providertest.LongText:  `{"steps":[{"text":"word ","repeat":100000,"rate":100}]}`,
			providertest.LongTool:  `{"steps":[{"tool":{"name":"Bash","takesMs":600000}}]}`,
			providertest.Failure:   "fail",
			providertest.Plan:      `{"steps":[{"plan":[{"content":"Look","status":"in_progress"}]},{"text":"so"}]}`,
			providertest.Recover:   "text",
			providertest.Image:     "text",
			providertest.Question:  `{"steps":[{"tool":{"name":"ask_user","arguments":{"questions":[]},"ask":{"kind":"question"}}}]}`,
		},
		Cannot: map[providertest.Scenario]string{
			providertest.Subagent:   "scripts have no subagents",
			providertest.Background: "a script has no background tasks",
			providertest.History:    "a script stores no conversation",
		},
		MessageEnd: "scripted agent.",
	})
}

func TestEveryBuiltInScriptPlays(t *testing.T) {
	if len(script.Names()) < 8 {
		t.Fatal(script.Names())
	}
	for _, name := range script.Names() {
		s, err := script.Find(name + " and more words")
		if err != nil || len(s.Steps) == 0 {
			t.Errorf("%s: %v", name, err)
		}
		again, _ := json.Marshal(s)
		if _, err := script.Find(string(again)); err != nil {
			t.Errorf("%s as a prompt: %v", name, err)
		}
	}
	if _, err := script.Find(`{"stepps":[]}`); runnel.CodeOf(err) != runnel.InvalidRequest {
		t.Error(err)
	}
}

// A client sets an agent's setting by its id. The agent reports the change. An
// unknown setting or value is rejected.
func TestClientCanSetOnlyOfferedSettings(t *testing.T) {
	option := event.ConfigOption{
		ID: "speed", Name: "Speed", Type: event.ConfigSelect, Value: "slow",
		Choices: []event.ConfigChoice{{Value: "slow", Name: "Slow"}, {Value: "fast", Name: "Fast"}},
	}
	p := &script.Provider{Script: script.Script{Steps: []script.Step{
		{Session: &event.SessionUpdated{Config: []event.ConfigOption{option}}}, {Text: "so"},
	}}}
	log := new(runnel.Memory)
	s, err := runnel.Open(t.Context(), p, runnel.Options{}, runnel.Config{ID: "s", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	turn, err := s.Send(t.Context(), runnel.Text("go"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := turn.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []runnel.Values{{"speed": "warp"}, {"sped": "fast"}, {"": "fast"}} {
		if err := s.Set(t.Context(), runnel.Settings{Config: bad}); runnel.CodeOf(err) != runnel.InvalidRequest {
			t.Errorf("%v: %v", bad, err)
		}
	}
	if err := s.Set(t.Context(), runnel.Settings{Config: runnel.Values{"speed": "fast"}, ReasoningEffort: "high"}); err != nil {
		t.Fatal(err)
	}
	for ev, err := range runnel.Follow(t.Context(), log, "s", 0) {
		if err != nil {
			t.Fatal(err)
		}
		b, ok := ev.Body.(event.SessionUpdated)
		if ok && len(b.Config) == 1 && b.Config[0].Value == "fast" {
			break
		}
	}
	if st := s.Status(); len(st.Config) != 1 || st.Config[0].Value != "fast" {
		t.Errorf("%+v", st.Config)
	}
}
