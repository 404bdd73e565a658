package acp

import (
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
)

// delegates lists, by agent, tool calls that start each kind of its own subagents.
func (r *rig) delegates(prompt string) []fakemodel.Block {
	switch r.Agent.Name {
	case "gemini":
		return []fakemodel.Block{
			fakemodel.Call("invoke_agent", args{"agent_name": "codebase_investigator", "prompt": prompt}),
			fakemodel.Call("invoke_agent", args{"agent_name": "cli_help", "prompt": prompt}),
			fakemodel.Call("invoke_agent", args{"agent_name": "generalist", "prompt": prompt}),
		}
	case "copilot":
		return []fakemodel.Block{
			fakemodel.Call("task", args{"name": "x", "description": "Look", "prompt": prompt, "agent_type": "explore", "mode": "sync"}),
			fakemodel.Call("task", args{"name": "y", "description": "Look", "prompt": prompt, "agent_type": "general-purpose", "mode": "sync"}),
		}
	case "qwen":
		return []fakemodel.Block{
			fakemodel.Call("agent", args{"description": "Look", "prompt": prompt, "subagent_type": "Explore"}),
			fakemodel.Call("agent", args{"description": "Look", "prompt": prompt, "subagent_type": "general-purpose"}),
		}
	}
	return []fakemodel.Block{
		fakemodel.Call("task", args{"description": "Look", "prompt": prompt, "subagent_type": "explore"}),
		fakemodel.Call("task", args{"description": "Look", "prompt": prompt, "subagent_type": "general"}),
	}
}

// Subagents of a session that may not delegate would work without any gate.
func TestAgentsThatMayNotDelegateStartNoSubagent(t *testing.T) {
	eachOf(t, []string{"gemini", "copilot", "qwen", "opencode"}, func(t *testing.T, r *rig) {
		r.Opt.Delegation = runnel.DelegateNever
		if r.Agent.Name != "copilot" { // which has no such mode
			r.Opt.PermissionMode = runnel.ModeAcceptEdits
		}
		r.startsNoSubagent()
	})
}

func TestAgentsInSandboxThatMayNotDelegateStartNoSubagent(t *testing.T) {
	agentrig.NeedSandbox(t)
	eachOf(t, []string{"gemini", "qwen"}, func(t *testing.T, r *rig) {
		r.Opt.Delegation, r.Opt.PermissionMode = runnel.DelegateNever, runnel.ModeAcceptEdits
		r.Enclose(runnel.SandboxProject)
		r.startsNoSubagent()
	})
}

func (r *rig) startsNoSubagent() {
	const secret = "what-only-a-subagent-reads"
	r.T.Helper()
	r.Write("seen.txt", secret)
	for _, call := range r.delegates(scenario(calls(realagents.ToolsetOf(r.Agent.Name).Read(r.File("seen.txt"))), said)) {
		r.Play(calls(call), said)
		if _, asked := r.DenyAll(); asked != 0 {
			r.T.Errorf("%s: the agent asks, and would delegate", call.Input)
		}
		if r.ModelReceived(secret) {
			r.T.Fatalf("%s: a subagent worked", call.Input)
		}
	}
}
