package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/store"
)

// fingerprint returns a hash of everything that determines how a session's
// agent starts. Two starts with equal fingerprints give the agent the same
// input.
//
// The definitions of MCP servers are hashed in the encrypted form that the
// record has, so that the hash cannot be used to test guesses of the secrets in
// them.
func fingerprint(rec store.Session, opt runnel.Options) string {
	opt.Budget, opt.TurnBudget = runnel.Budget{}, runnel.Budget{} // are the session's, and not the agent's
	var kept struct {
		MCPServers json.RawMessage `json:"mcpServers"`
	}
	_ = json.Unmarshal(rec.Options, &kept) // we wrote the JSON; without it there are no MCP servers
	if len(kept.MCPServers) > 0 && len(opt.MCPServers) > 0 {
		opt.MCPServers = kept.MCPServers
	}
	data, err := json.Marshal(struct {
		CLIType string
		Options runnel.Options

		Dir, Path       string
		Env, Disallowed []string
		Delegation      runnel.Delegation
		Subagents       []runnel.Subagent
		Trusted         bool
		UntrustedDirs   []string
		Allowed         []runnel.AllowedPath `json:",omitempty"` // absent in the fingerprints of earlier versions
	}{rec.CLIType, opt, opt.Dir, opt.Path, opt.Env, opt.ServerDisallowedTools, opt.Delegation, opt.Subagents, opt.Trusted, opt.UntrustedDirs, opt.Allowed})
	if err != nil {
		return "" // unreachable: mcpServers is valid JSON
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// boot records that an agent was started with these options.
func (e *entry) boot(opt runnel.Options) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.runs = &opt
	e.rec.BootedAt, e.rec.BootFingerprint = time.Now().UTC(), fingerprint(e.rec, opt)
	if has := digestOf(opt.Allowed); has != keptOf(e.rec.Options).Allowed {
		e.edit(func(k *keptCare) { k.Allowed = has })
	}
}

// agentStarted implements runnel.Config.AgentStarted: the session calls it
// after it has started another agent. It does not block.
func (e *entry) agentStarted(opt runnel.Options) {
	e.boot(opt)
	e.change(func() {})
}

// differs reports whether an agent that starts now with these options would
// have another fingerprint than the last agent.
func (e *entry) differs(opt runnel.Options) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	last := e.rec.BootFingerprint
	if e.runs != nil { // includes the settings that have changed since the agent started
		last = fingerprint(e.rec, *e.runs)
	}
	return last != "" && last != fingerprint(e.rec, opt)
}
