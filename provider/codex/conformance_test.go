package codex

import (
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/provider/providertest"
)

func TestConformance(t *testing.T) {
	said := fakemodel.Step{Text: "Done."}
	prompt := func(steps ...fakemodel.Step) string { return fakemodel.Scenario{Steps: steps}.Prompt("go") }
	call := func(blocks ...fakemodel.Block) fakemodel.Step { return fakemodel.Step{Blocks: blocks} }
	var model *fakemodel.Server
	providertest.Run(t, providertest.Subject{
		Version: realagents.Codex(t).Version,
		New: func(t *testing.T) (runnel.Provider, runnel.Options) {
			r := newRig(t)
			model = r.model
			return r.provider(), r.opt
		},
		Prompts: map[providertest.Scenario]string{
			providertest.Text:      prompt(said),
			providertest.Reasoning: prompt(fakemodel.Step{Blocks: []fakemodel.Block{{Type: "thinking", Text: "Let me see."}, {Type: "text", Text: "Done."}}}),
			providertest.Tool:      prompt(call(shell("echo hi")), said),
			providertest.Parallel:  prompt(call(shell("sleep 0.5; echo one"), shell("sleep 0.5; echo two")), said),
			providertest.Edit:      prompt(call(patch("*** Begin Patch\n*** Add File: made.txt\n+made\n*** End Patch\n")), said),
			providertest.Image:     prompt(said),
			providertest.Approval:  prompt(call(escalated("touch asked; echo asked")), said),
			providertest.LongText:  prompt(fakemodel.Step{Pace: 20, Blocks: []fakemodel.Block{{Type: "text", Text: "on and on ", Repeat: 10000}}}),
			providertest.LongTool:  prompt(call(shell("touch running; sleep 600")), said),
			providertest.Failure:   prompt(fakemodel.Step{Fail: &fakemodel.Failure{Status: 400}}),
			providertest.Recover:   prompt(said),
		},
		Cannot: map[providertest.Scenario]string{
			providertest.Plan:     "0.169.0 offers no update_plan tool to the models of its catalog",
			providertest.Question: "TODO",
			providertest.Subagent: "TODO",
			providertest.Behind:   "0.169.0: what goes on behind a turn is a command; it neither asks nor speaks",
		},
		SawImage: func(t *testing.T) bool {
			for _, r := range model.Requests() {
				if strings.Contains(string(r.Body), "data:image/png;base64,") {
					return true
				}
			}
			return false
		},
		Said:        "Done.",
		Processes:   true,
		Differences: map[string]func(event.Item) bool{},
	})
}
