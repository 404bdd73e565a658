package gateway

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
)

// An Agent is a kind of agent this server can run.
type Agent struct {
	CLIType     string   `json:"cliType"`
	DisplayName string   `json:"displayName"`
	Aliases     []string `json:"aliases"`
	runnel.Installation
	Capabilities []runnel.Capability `json:"capabilities"`
}

// What a provider may say of itself.
type (
	displayer interface{ DisplayName() string }
	aliaser   interface{ Aliases() []string }
)

// index finds providers by name and by alias. A provider that names no aliases
// is also found by the first word of its name.
func index(ps []runnel.Provider) (byName map[string]runnel.Provider, alias map[string]string) {
	byName, alias = make(map[string]runnel.Provider), make(map[string]string)
	for _, p := range ps {
		byName[p.Name()] = p
		for _, a := range aliases(p) {
			if _, taken := alias[a]; !taken {
				alias[a] = p.Name()
			}
		}
	}
	return byName, alias
}

func aliases(p runnel.Provider) []string {
	if a, ok := p.(aliaser); ok {
		return a.Aliases()
	}
	first, _, several := strings.Cut(p.Name(), "-")
	if !several {
		return []string{}
	}
	return []string{first, strings.ReplaceAll(p.Name(), "-", "_")}
}

// provider finds a provider by what a client calls it; an empty name is the
// first one.
// Find returns the provider with this name or alias, or nil.
func Find(ps []runnel.Provider, name string) runnel.Provider {
	byName, alias := index(ps)
	if p := byName[name]; p != nil {
		return p
	}
	return byName[alias[name]]
}

func (g *Gateway) provider(cliType string) (runnel.Provider, error) {
	if cliType == "" && len(g.cfg.Providers) > 0 {
		return g.cfg.Providers[0], nil
	}
	if p := g.byName[cliType]; p != nil {
		return p, nil
	}
	if p := g.byName[g.alias[cliType]]; p != nil {
		return p, nil
	}
	known := make([]string, 0, len(g.cfg.Providers))
	for _, p := range g.cfg.Providers {
		known = append(known, p.Name())
	}
	return nil, &runnel.Error{
		Code: runnel.UnsupportedCLIType, Message: "cliType: not one of " + strings.Join(known, ", "), Details: map[string]any{"cliTypes": known},
	}
}

// probes remembers what was found out about the agents on this machine.
type probes struct {
	mu     sync.Mutex
	at     time.Time
	agents []Agent
}

const probeLife = time.Minute

// Agents returns the kinds of agents, in the order of the configuration, with
// what is known of them on this machine: as of the last minute, or of now.
func (g *Gateway) Agents(ctx context.Context, now bool) []Agent {
	g.probes.mu.Lock()
	defer g.probes.mu.Unlock()
	if !now && g.probes.agents != nil && time.Since(g.probes.at) < probeLife {
		return g.probes.agents
	}
	out := make([]Agent, len(g.cfg.Providers))
	var all sync.WaitGroup
	for i, p := range g.cfg.Providers {
		all.Go(func() { out[i] = g.describeAgent(ctx, p) })
	}
	all.Wait()
	if ctx.Err() == nil {
		g.probes.agents, g.probes.at = out, time.Now()
	}
	return out
}

func (g *Gateway) describeAgent(ctx context.Context, p runnel.Provider) Agent {
	a := Agent{CLIType: p.Name(), DisplayName: displayName(p), Aliases: aliases(p), Capabilities: runnel.Capabilities(p)}
	if prober, ok := p.(runnel.Prober); ok {
		a.Installation = prober.Probe(ctx)
	}
	if !g.cfg.AllowBypass {
		modes := a.Modes[:0:0]
		for _, m := range a.Modes {
			if m != string(runnel.ModeBypass) {
				modes = append(modes, m)
			}
		}
		a.Modes = modes
	}
	return a
}

func displayName(p runnel.Provider) string {
	if d, ok := p.(displayer); ok {
		return d.DisplayName()
	}
	words := strings.Split(p.Name(), "-")
	for i, w := range words {
		if w != "" {
			words[i] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, " ")
}
