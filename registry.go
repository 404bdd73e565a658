package runnel

import "strings"

// An AgentKinder is a Provider whose agent kind is not its name with underscores
// instead of dashes.
type AgentKinder interface{ AgentKind() string }

// AgentKind returns the name of p's agent in the universal API, such as
// claude_code for a provider named claude-code.
func AgentKind(p Provider) string {
	if k, ok := p.(AgentKinder); ok {
		return k.AgentKind()
	}
	return strings.ReplaceAll(p.Name(), "-", "_")
}
