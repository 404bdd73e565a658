package profile

import (
	"slices"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel/event"
)

// Enforced decides by profiles which tools of a session are forbidden and which
// need no approval. The zero value forbids and approves nothing.
type Enforced struct {
	Session *Profile // of the session. Default: none
	Turn    *Profile // of the running turn, if it has one of its own. Default: the session's
}

// Forbids reports whether a tool is never allowed, and why. Both profiles
// count, so the turn's own profile can forbid more tools but not allow one that
// the session's forbids. Upper and lower case count as equal, because an agent
// may spell a tool in another case.
func (e Enforced) Forbids(tool string) (reason string, ok bool) {
	for _, p := range []*Profile{e.Session, e.Turn} {
		if p == nil || tool == "" {
			continue
		}
		same := func(entry string) bool {
			entry = strings.ToLower(entry)
			return covers(entry, strings.ToLower(tool)) || entry == event.ToolConnect && tool == event.ToolAgentConnect
		}
		if slices.ContainsFunc(p.DisallowedTools, same) {
			return "the profile " + strconv.Quote(p.Name) + " does not allow " + tool, true
		}
	}
	return "", false
}

// Approves reports whether a tool is allowed without asking, and why. If the
// turn has a profile of its own, only that one can approve. A tool that either
// profile forbids is never approved.
func (e Enforced) Approves(tool string) (reason string, ok bool) {
	p := e.Session
	if e.Turn != nil {
		p = e.Turn
	}
	if p == nil || tool == "" || !slices.ContainsFunc(p.AutoApproveTools, func(entry string) bool { return covers(entry, tool) }) {
		return "", false
	}
	if _, forbidden := e.Forbids(tool); forbidden || e.mayForbid(tool) {
		return "", false
	}
	return "the profile " + strconv.Quote(p.Name) + " approves " + tool, true
}

// mayForbid reports whether tool is the name of an MCP server and a profile
// forbids a tool of that server. Some agents name only the server when they
// ask.
func (e Enforced) mayForbid(tool string) bool {
	for _, p := range []*Profile{e.Session, e.Turn} {
		if p != nil && slices.ContainsFunc(p.DisallowedTools, func(entry string) bool { return covers(strings.ToLower(tool), strings.ToLower(entry)) }) {
			return true
		}
	}
	return false
}

// DisallowedTools returns the tools that the profiles forbid, each once.
func (e Enforced) DisallowedTools() (out []string) {
	for _, p := range []*Profile{e.Session, e.Turn} {
		if p == nil {
			continue
		}
		for _, tool := range p.DisallowedTools {
			if !slices.Contains(out, tool) {
				out = append(out, tool)
			}
		}
	}
	return out
}

// serverPrefix is the prefix of the names of MCP tools: mcp__server__tool.
const serverPrefix = "mcp__"

// covers reports whether an entry of a profile applies to a tool: it is the
// tool's name, or the name of the tool's MCP server.
func covers(entry, tool string) bool {
	if entry == tool {
		return true
	}
	server, is := strings.CutPrefix(entry, serverPrefix)
	return is && server != "" && !strings.Contains(server, "__") && strings.HasPrefix(tool, entry+"__")
}
