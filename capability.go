package runnel

import "slices"

// A Capability is the name of a feature that a provider may have. Capabilities
// are part of the wire protocol.
type Capability string

// The capabilities.
const (
	CapRun               Capability = "agent_api.run"
	CapEvents            Capability = "agent_api.events"
	CapEventsLive        Capability = "agent_api.events.live"
	CapCancel            Capability = "agent_api.control.cancel.v1"
	CapToolsStructured   Capability = "agent_api.tools.structured.v1"
	CapToolsResults      Capability = "agent_api.tools.results.v1"
	CapSessionHandle     Capability = "agent_api.session.handle.v1"
	CapSessionResume     Capability = "agent_api.session.resume.v1"
	CapSessionFork       Capability = "agent_api.session.fork.v1"
	CapConfigModel       Capability = "agent_api.config.model.v1"
	CapAddDirs           Capability = "agent_api.exec.add_dirs.v1"
	CapNonInteractive    Capability = "agent_api.exec.non_interactive"
	CapExternalSandbox   Capability = "agent_api.exec.external_sandbox.v1"
	CapArtifactFinalText Capability = "agent_api.artifacts.final_text.v1"
	CapMCPList           Capability = "agent_api.tools.mcp.list.v1"
	CapMCPGet            Capability = "agent_api.tools.mcp.get.v1"
	CapMCPAdd            Capability = "agent_api.tools.mcp.add.v1"
	CapMCPRemove         Capability = "agent_api.tools.mcp.remove.v1"
)

// MCPCapabilities returns the capabilities of a provider for which [ListMCP],
// [GetMCP], [AddMCP] and [RemoveMCP] work.
func MCPCapabilities() []Capability {
	return append([]Capability{CapMCPList, CapMCPGet}, MCPWriteCapabilities()...)
}

// MCPWriteCapabilities returns those of the MCPCapabilities that change the
// configuration of an agent. A server has them only if its configuration permits
// such changes.
func MCPWriteCapabilities() []Capability { return []Capability{CapMCPAdd, CapMCPRemove} }

// AllCapabilities returns every capability, sorted.
func AllCapabilities() []Capability {
	all := []Capability{
		CapRun, CapEvents, CapEventsLive, CapCancel, CapToolsStructured, CapToolsResults, CapSessionHandle, CapSessionResume,
		CapSessionFork, CapConfigModel, CapAddDirs, CapNonInteractive, CapExternalSandbox, CapArtifactFinalText,
	}
	all = append(all, MCPCapabilities()...)
	slices.Sort(all)
	return all
}

// A Capable is a Provider with capabilities that its methods do not show, such
// as support for some of the Options. Extra returns these capabilities.
type Capable interface{ Extra() []Capability }

// Capabilities returns the capabilities of p, sorted. It computes them from the
// interfaces that p implements. Every provider has the capabilities that the
// engine itself implements.
func Capabilities(p Provider) []Capability {
	caps := []Capability{CapRun, CapEvents, CapEventsLive, CapCancel, CapSessionHandle, CapNonInteractive, CapArtifactFinalText}
	if _, ok := p.(Forker); ok {
		caps = append(caps, CapSessionFork)
	}
	if proto, ok := p.(ConnPrototype); ok {
		if _, ok := proto.Prototype().(ModelSetter); ok {
			caps = append(caps, CapConfigModel)
		}
	}
	if x, ok := p.(Capable); ok {
		caps = append(caps, x.Extra()...)
	}
	slices.Sort(caps)
	return slices.Compact(caps)
}

// Require fails with UNSUPPORTED_CAPABILITY unless p has all of caps, which may
// include [ExtensionKeys]. It starts no agent.
func Require(p Provider, caps ...Capability) error {
	have, own := Capabilities(p), backendKeys(p)
	for _, c := range caps {
		if _, ok := own[string(c)]; !ok && !slices.Contains(have, c) {
			return &Error{Code: UnsupportedCapability, Message: DisplayName(p) + " does not support " + string(c),
				Details: map[string]any{"capability": c, "capabilities": have}}
		}
	}
	return nil
}
