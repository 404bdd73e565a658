package profile

import (
	"slices"
	"strconv"
	"strings"
)

// Enforced is what profiles enforce on the tools of a session. The zero value
// enforces nothing.
type Enforced struct {
	Session *Profile // of the session. Default: none
	Turn    *Profile // of the running turn, if it has one of its own. Default: the session's
}

// Forbids reports whether a tool is never allowed, and why. The turn's own
// profile can forbid more than the session's, and allow nothing that the
// session's forbids. An agent may spell a tool in another case, so the case of
// letters does not count.
func (e Enforced) Forbids(tool string) (reason string, ok bool) {
	for _, p := range []*Profile{e.Session, e.Turn} {
		if p == nil || tool == "" {
			continue
		}
		same := func(entry string) bool { return covers(strings.ToLower(entry), strings.ToLower(tool)) }
		if slices.ContainsFunc(p.DisallowedTools, same) {
			return "the profile " + strconv.Quote(p.Name) + " does not allow " + tool, true
		}
	}
	return "", false
}

// Approves reports whether a tool is allowed without asking, and why. The
// turn's own profile counts instead of the session's. A tool that a profile
// forbids is never approved.
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

// mayForbid reports whether tool is the name of an MCP server of which a
// profile forbids a tool: some agents name only the server when they ask.
func (e Enforced) mayForbid(tool string) bool {
	for _, p := range []*Profile{e.Session, e.Turn} {
		if p != nil && slices.ContainsFunc(p.DisallowedTools, func(entry string) bool { return covers(strings.ToLower(tool), strings.ToLower(entry)) }) {
			return true
		}
	}
	return false
}

// Disallowed returns the tools that profiles forbid, each once.
func (e Enforced) Disallowed() (out []string) {
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

// serverPrefix begins the names of tools of MCP servers: mcp__server__tool.
const serverPrefix = "mcp__"

// covers reports whether an entry of a profile stands for a tool: it is the
// tool's name, or the tool is one of the MCP server that the entry names.
func covers(entry, tool string) bool {
	if entry == tool {
		return true
	}
	server, is := strings.CutPrefix(entry, serverPrefix)
	return is && server != "" && !strings.Contains(server, "__") && strings.HasPrefix(tool, entry+"__")
}
