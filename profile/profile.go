// Package profile decides how an agent runs. It resolves options and records
// the source of each. It reads profiles, which are files, and enforces what
// they say about tools. And it decides which subagents an agent may start.
package profile

import (
	"cmp"

	"github.com/runnel-dev/runnel"
)

// A Profile is a named way to run an agent. It is a Markdown file with settings
// in its front matter, followed by text that is added to the agent's system
// prompt.
type Profile struct {
	Name             string         // name of the file, without .md
	Description      string         // one line for people
	Model            string         // Default: the value of the next source
	Tools            []string       // Default: the value of the next source
	MaxTurns         int            // Default: the value of the next source
	Sandbox          runnel.Sandbox // Default: the value of the next source. It cannot switch off what another source asks for
	Subagents        []string       // profiles to which a governed session may delegate
	DisallowedTools  []string       // tools that are never allowed
	AutoApproveTools []string       // tools that are allowed without asking
	AgentType        string         // AGENT_TYPE: TypeDelegate permits delegation to this profile
	AgentClass       string         // AGENT_CLASS
	Text             string         // added to the agent's system prompt

	Path    string // path of the file
	Project bool   // the file lies in the project, not beside the configuration

	lines map[string]int // line numbers in the file, by key; textKey has the first line of Text
}

// Subagent returns p as the definition of a subagent, for agents that accept
// such definitions.
func (p Profile) Subagent() runnel.Subagent {
	return runnel.Subagent{Name: p.Name, Description: cmp.Or(p.Description, "The profile "+p.Name), Prompt: p.Text, Tools: p.Tools, Model: p.Model}
}

// Values with which a profile declares that others may delegate to it.
const (
	TypeDelegate = "2"    // its AgentType
	ClassTask    = "TASK" // its AgentClass
)
