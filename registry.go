package runnel

import (
	"cmp"
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// An AgentKinder is a Provider whose agent kind is not its name with underscores
// instead of dashes.
type AgentKinder interface{ AgentKind() string }

// AgentKind returns the name of p's agent in the universal API, such as my_agent
// for a provider named my-agent.
func AgentKind(p Provider) string {
	if k, ok := p.(AgentKinder); ok {
		return k.AgentKind()
	}
	return strings.ReplaceAll(p.Name(), "-", "_")
}

// agentKind matches the kinds of agents.
var agentKind = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// CheckAgentKind fails with INVALID_REQUEST unless kind is one that an agent may
// have: small letters, digits and underscores, a letter first.
func CheckAgentKind(kind string) error {
	if !agentKind.MatchString(kind) {
		return Fail(InvalidRequest, "agent kind "+shown(kind)+": want small letters, digits and underscores, a letter first")
	}
	return nil
}

// Defaults are the options of one provider's agents where a request has none.
type Defaults struct {
	Model   string
	Dir     string
	Timeout time.Duration // of a Run. A request without one has Timeout -1
	Env     []string      // "K=V", before those of the request, which override them
}

// Apply returns opt with the defaults in it. Nothing of opt changes in place.
func (d Defaults) Apply(opt Options) Options {
	opt.Model = cmp.Or(opt.Model, d.Model)
	opt.Dir = cmp.Or(opt.Dir, d.Dir)
	opt.Timeout = cmp.Or(opt.Timeout, d.Timeout)
	opt.Env = slices.Concat(d.Env, opt.Env)
	return opt
}

// A Registry has providers by the kinds of their agents, each with its defaults.
// The zero value has none. Its methods may be called from anywhere.
type Registry struct {
	mu      sync.RWMutex // guards entries
	entries map[string]registered
}

type registered struct {
	Provider
	Defaults
}

// Register adds a provider under [AgentKind]. It fails with INVALID_REQUEST if
// the kind is not one, or is registered already.
func (r *Registry) Register(p Provider, d Defaults) error {
	kind := AgentKind(p)
	if err := CheckAgentKind(kind); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, taken := r.entries[kind]; taken {
		return Fail(InvalidRequest, "agent kind "+shown(kind)+": is registered already; choose another")
	}
	if r.entries == nil {
		r.entries = make(map[string]registered)
	}
	r.entries[kind] = registered{p, d}
	return nil
}

// SetDefaults replaces the defaults of a kind. It fails as [Registry.Provider]
// does.
func (r *Registry) SetDefaults(kind string, d Defaults) error {
	e, err := r.entry(kind)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries[kind] = registered{e.Provider, d}
	return nil
}

// Kinds returns the kinds that are registered, sorted.
func (r *Registry) Kinds() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.entries))
}

// Provider returns the provider of a kind. It fails with UNSUPPORTED_CLI_TYPE if
// none is registered.
func (r *Registry) Provider(kind string) (Provider, error) {
	e, err := r.entry(kind)
	return e.Provider, err
}

func (r *Registry) entry(kind string) (registered, error) {
	r.mu.RLock()
	e, ok := r.entries[kind]
	r.mu.RUnlock()
	if !ok {
		has := "none is registered"
		if kinds := r.Kinds(); len(kinds) > 0 {
			has = "want " + oneOf(kinds)
		}
		return e, Fail(UnsupportedCLIType, "there is no agent of the kind "+shown(kind)+"; "+has)
	}
	return e, nil
}

// Start is [Start] with the provider of a kind and its defaults.
func (r *Registry) Start(ctx context.Context, kind string, opt Options, in Input) (*Run, error) {
	e, err := r.entry(kind)
	if err != nil {
		return nil, err
	}
	return start(ctx, e.Provider, e.Defaults, opt, in)
}

// Open is [Open] with the provider of a kind and its defaults.
func (r *Registry) Open(ctx context.Context, kind string, opt Options, cfg Config) (*Session, error) {
	e, err := r.entry(kind)
	if err != nil {
		return nil, err
	}
	return Open(ctx, e.Provider, e.Defaults.Apply(opt), cfg)
}
