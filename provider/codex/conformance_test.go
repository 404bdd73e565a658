package codex

import (
	"strings"
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
	said := fakemodel.Step{Text: "Done."}
	prompt := func(steps ...fakemodel.Step) string { return fakemodel.Scenario{Steps: steps}.Prompt("go") }
	call := func(blocks ...fakemodel.Block) fakemodel.Step { return fakemodel.Step{Blocks: blocks} }
	models := make(map[string]*fakemodel.Server) // by the project directory of the agent
	inner := fakemodel.Scenario{Steps: []fakemodel.Step{call(code(`text(await tools.exec_command({cmd: "echo found"}))`)), {Text: "Found."}}}
	later := fakemodel.Scenario{Steps: []fakemodel.Step{
		call(code(`text(await tools.exec_command({cmd: "until [ -e go ]; do sleep 0.05; done; touch behind", sandbox_permissions: "require_escalated", justification: "May I?"}))`)), said,
	}}
	newer := func(opt *runnel.Options) { opt.Model = "gpt-6.1-sol" } // other models have no tool for subagents
	s := providertest.Subject{
		Version: realagents.Codex(t).Version,
		Sandbox: box,
		New: func(t *testing.T) (runnel.Provider, runnel.Options) {
			r := newRig(t)
			models[r.Opt.Dir] = r.Model
			r.Enclose(box)
			r.append("[tools.update_plan]\nenabled = true\n") // 0.169.0 does not offer the tool by default
			return r.provider(), r.Opt
		},
		Needs: map[providertest.Scenario]func(*runnel.Options){
			providertest.Subagent:   newer,
			providertest.Background: newer,
			providertest.Question:   func(opt *runnel.Options) { opt.PermissionMode = runnel.ModePlan },
		},
		Prompts: map[providertest.Scenario]string{
			providertest.Text:      prompt(said),
			providertest.Reasoning: prompt(fakemodel.Step{Blocks: []fakemodel.Block{{Type: "thinking", Text: "Let me see."}, {Type: "text", Text: "Done."}}}),
			providertest.Tool:      prompt(call(shell("echo hi")), said),
			providertest.Parallel:  prompt(call(shell("until [ -e both ]; do sleep 0.05; done; echo one"), shell("until [ -e both ]; do sleep 0.05; done; echo two")), said),
			providertest.Edit:      prompt(call(patch("*** Begin Patch\n*** Add File: made.txt\n+made\n*** End Patch\n")), said),
			providertest.Image:     prompt(said),
			providertest.Approval:  prompt(call(escalated("touch asked; echo asked")), said),
			providertest.LongText:  prompt(fakemodel.Step{Text: "on and on and on", Chunk: 4, Faults: []fakemodel.Fault{{Kind: fakemodel.Stall, After: 3}}}),
			providertest.LongTool:  prompt(call(shell("touch running; sleep 600")), said),
			providertest.Failure:   prompt(fakemodel.Step{Fail: &fakemodel.Failure{Status: 400}}),
			providertest.Subagent: prompt(
				call(fakemodel.Call("spawn_agent", args{"task_name": "look", "message": inner.Prompt("look"), "fork_turns": "none"})),
				call(fakemodel.Call("wait_agent", args{"timeout_ms": 60000})), said),
			providertest.Plan:       prompt(call(fakemodel.Call("update_plan", args{"plan": []args{{"step": "Look", "status": "in_progress"}, {"step": "Leap", "status": "pending"}}})), said),
			providertest.Background: prompt(call(fakemodel.Call("spawn_agent", args{"task_name": "later", "message": later.Prompt("later"), "fork_turns": "none"})), fakemodel.Step{Text: "It runs."}),
			providertest.Question: prompt(call(fakemodel.Call("request_user_input", args{"questions": []args{{
				"id": "one", "header": "Pick", "question": "Which one?",
				"options": []args{{"label": "Red", "description": "r"}, {"label": "Blue", "description": "b"}},
			}}})), said),
			providertest.Recover: prompt(said),
		},
		TiedCalls: true, // 0.169.0 stores the starts of items in milliseconds, and the items in the order of their ends
		Cannot: map[providertest.Scenario]string{
			providertest.Plan:       "0.169.0 offers no update_plan tool to the models in its catalogue",
			providertest.Background: "0.169.0: only commands continue after a turn; they request no approval and write no message",
		},
		SawImage: func(opt runnel.Options) bool {
			for _, r := range models[opt.Dir].Requests() {
				if strings.Contains(string(r.Body), "data:image/png;base64,") {
					return true
				}
			}
			return false
		},
		ModelReceived: func(opt runnel.Options, what string) bool { return models[opt.Dir].Received(what) },
		MessageEnd:    "Done.",
		Processes:     true,
		Differences: map[string]func(event.Item) bool{
			"0.169.0 does not keep plans": func(it event.Item) bool { return it.Type == event.TypePlan },
		},
	}
	if box.IsOn() {
		s.Needs[providertest.Approval] = func(opt *runnel.Options) { opt.Config = runnel.Values{optionApproval: untrusted} }
		s.Notes = append(s.Notes, "In its modes `default` and `acceptEdits`, the agent asks only before it leaves its own sandbox, so in a sandbox of Runnel it asks before nothing. It asks before commands that it does not know to only read in plan mode, and with `config: {approval_policy: untrusted}` (0.169.0).")
	}
	providertest.Run(t, s)
}
