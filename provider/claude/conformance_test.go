package claude

import (
	"bytes"
	"slices"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/provider/providertest"
)

func TestConformance(t *testing.T) { conformance(t, "") }

func TestConformanceInSandbox(t *testing.T) {
	agentrig.NeedLong(t)
	agentrig.NeedSandbox(t)
	conformance(t, runnel.SandboxProject)
}

func conformance(t *testing.T, box runnel.Sandbox) {
	shared.stop() // the suite kills and counts the processes that this one has started
	done := fakemodel.Step{Text: "Done."}
	call := func(name string, in ...args) fakemodel.Step {
		var st fakemodel.Step
		for _, a := range in {
			st.Blocks = append(st.Blocks, use(name, a))
		}
		return st
	}
	prompt := func(steps ...fakemodel.Step) string { return fakemodel.Scenario{Steps: steps}.Prompt("go") }
	for _, b := range realagents.UsualClaude(t) {
		t.Run(b.Version, func(t *testing.T) {
			models := make(map[string]*fakemodel.Server) // by the directory of the agent
			providertest.Run(t, providertest.Subject{
				New: func(t *testing.T) (runnel.Provider, runnel.Options) {
					r := newRig(t, b)
					models[r.Opt.Dir] = r.Model
					r.Enclose(box)
					r.Opt.Env = append(r.Opt.Env, "CLAUDE_CODE_ENABLE_TASKS=0", "CLAUDE_CODE_ENABLE_TODO_TOOLS=1")
					return New().WithProgram([]string{b.Path}, r.Opt.Env), r.Opt
				},
				Prompts: map[providertest.Scenario]string{
					providertest.Text: prompt(done),
					providertest.Reasoning: prompt(fakemodel.Step{Blocks: []fakemodel.Block{
						{Type: "thinking", Text: "Let me see."}, {Type: "text", Text: "Done."},
					}}),
					providertest.Tool: prompt(call("Bash", args{"command": "echo hi", "description": "Say hi"}), done),
					providertest.Parallel: prompt(call("Bash",
						args{"command": "until [ -e both ]; do sleep 0.05; done; echo one", "description": "One"}, args{"command": "until [ -e both ]; do sleep 0.05; done; echo two", "description": "Two"}), done),
					providertest.Edit:     prompt(call("Write", args{"file_path": "made.txt", "content": "made\n"}), done),
					providertest.Approval: prompt(call("Bash", args{"command": "touch asked", "description": "Ask"}), done),
					providertest.LongText: prompt(fakemodel.Step{Text: "a text that does not end", Chunk: 4, Faults: []fakemodel.Fault{{Kind: fakemodel.Stall, After: 3}}}),
					providertest.LongTool: prompt(call("Bash", args{"command": "touch running; sleep 600", "description": "Wait"}), done),
					providertest.Failure:  prompt(fakemodel.Step{Fail: &fakemodel.Failure{Status: 400}}),
					providertest.Subagent: prompt(calls(agent("Look", false, calls(bash("echo found", "Look")), says("Found."))), done),
					providertest.Plan:     prompt(calls(use("TodoWrite", args{"todos": []args{{"content": "Look", "status": "in_progress", "activeForm": "Looking"}}})), done),
					providertest.Question: prompt(calls(use("AskUserQuestion", args{"questions": []args{{
						"question": "Which one?", "header": "Pick", "multiSelect": false,
						"options": []args{{"label": "Red", "description": "r"}, {"label": "Blue", "description": "b"}},
					}}})), done),
					providertest.Background: prompt(calls(agent("Later", true, calls(bash("until [ -e go ]; do sleep 0.05; done; touch behind", "Ask")), says("Later."))), says("It runs."), done),
					providertest.Recover:    prompt(done),
					providertest.Image:      prompt(done),
				},
				SawImage: func(opt runnel.Options) bool {
					return slices.ContainsFunc(models[opt.Dir].Requests(), func(r fakemodel.Request) bool {
						return bytes.Contains(r.Body, []byte(`"media_type":"image/png"`))
					})
				},
				ModelReceived: func(opt runnel.Options, what string) bool { return models[opt.Dir].Received(what) },
				Version:       b.Version,
				Sandbox:       box,
				MessageEnd:    "Done.",
				Processes:     true,
				Differences:   map[string]func(event.Item) bool{},
			})
		})
	}
}
