package agentconn

import (
	"slices"

	"github.com/runnel-dev/runnel"
)

// AskTools returns the names of the tools about which an agent must be told to ask.
// scheduling are those by which the model makes it begin turns later, which it has
// in a trusted folder only; moving are those by which the model makes it work in another
// folder, which a repository may name; subagents are those for subagents.
func AskTools(opt runnel.Options, scheduling, moving, subagents []string) (tools []string) {
	if opt.Trusted {
		tools = slices.Clone(scheduling)
	}
	if opt.PermissionMode != runnel.ModeBypass && !opt.Sandbox.IsOn() {
		tools = append(tools, moving...)
	}
	if opt.Delegation == runnel.DelegateAsking {
		tools = append(tools, subagents...)
	}
	return tools
}
