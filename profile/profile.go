// Package profile says how an agent is to run: options and which source each is
// from, profiles, which are files, what they enforce, and which subagents an
// agent may start.
package profile

import (
	"cmp"

	"github.com/runnel-dev/runnel"
)

// A Profile is a named way to run an agent. It is a Markdown file: settings in
// its front matter, then the text that is added to the agent's system prompt.
type Profile struct {
	Name             string   // of the file, without .md
	Description      string   // one line for people
	Model            string   // Default: of the next source
	Tools            []string // Default: of the next source
	MaxTurns         int      // Default: of the next source
	Subagents        []string // profiles to which a governed session may delegate
	DisallowedTools  []string // tools that are never allowed
	AutoApproveTools []string // tools that are allowed without asking
	AgentType        string   // AGENT_TYPE: TypeDelegate permits delegation to this profile
	AgentClass       string   // AGENT_CLASS
	Text             string   // added to the agent's system prompt

	Path    string // of the file
	Project bool   // the file lies in the project, not beside the configuration

	lines map[string]int // of the file, by key; textKey is the first line of Text
}

// Subagent returns the definition of the subagent that p is, for agents that
// take such definitions.
func (p Profile) Subagent() runnel.Subagent {
	return runnel.Subagent{Name: p.Name, Description: cmp.Or(p.Description, "The profile "+p.Name), Prompt: p.Text, Tools: p.Tools, Model: p.Model}
}

// What a profile declares that others may delegate to.
const (
	TypeDelegate = "2"    // its AgentType
	ClassTask    = "TASK" // its AgentClass
)
