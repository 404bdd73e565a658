package script_test

import (
	"encoding/json"
	"testing"

	"go.uber.org/goleak"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/provider/providertest"
	"github.com/runnel-dev/runnel/provider/script"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	providertest.Run(t, providertest.Subject{
		New: func(t *testing.T) (runnel.Provider, runnel.Options) {
			return script.New(), runnel.Options{Dir: t.TempDir()}
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
		},
		Cannot: map[providertest.Scenario]string{
			providertest.Subagent: "scripts have no subagents",
			providertest.Question: "scripts ask only about tools",
			providertest.Behind:   "a script ends with its turn",
		},
		Said: "scripted agent.",
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
