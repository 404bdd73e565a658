package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/store"
)

// fingerprint returns a hash of what the agent of a session starts with. Two
// starts with equal fingerprints differ in nothing that the agent is told. The
// definitions of MCP servers count as the record keeps them, sealed: nobody can
// try out secrets against the hash.
func fingerprint(rec store.Session, opt runnel.Options) string {
	var kept struct {
		MCPServers json.RawMessage `json:"mcpServers"`
	}
	_ = json.Unmarshal(rec.Options, &kept) // we wrote it; without it there are none
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
	}{rec.CLIType, opt, opt.Dir, opt.Path, opt.Env, opt.Disallowed, opt.Delegation, opt.Subagents, opt.Trusted, opt.UntrustedDirs})
	if err != nil {
		return "" // never: mcpServers was checked
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// boot notes that an agent was started with these options.
func (e *entry) boot(opt runnel.Options) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.runs = &opt
	e.rec.BootedAt, e.rec.BootFingerprint = time.Now().UTC(), fingerprint(e.rec, opt)
}

// booted is called by the session when it has started another agent. It does
// not block.
func (e *entry) booted(opt runnel.Options) {
	e.boot(opt)
	e.change(func() {})
}

// differs reports whether an agent that is started now with these options would
// be another than the one that was started last.
func (e *entry) differs(opt runnel.Options) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	last := e.rec.BootFingerprint
	if e.runs != nil { // with the settings that have changed since
		last = fingerprint(e.rec, *e.runs)
	}
	return last != "" && last != fingerprint(e.rec, opt)
}
