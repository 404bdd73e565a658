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

// An AgentKinder is a Provider that defines its agent kind. By default the
// agent kind is the provider's name with underscores instead of dashes.
type AgentKinder interface{ AgentKind() string }

// AgentKind returns the name of p's agent in the universal API, such as
// my_agent for a provider named my-agent.
func AgentKind(p Provider) string {
	if k, ok := p.(AgentKinder); ok {
		return k.AgentKind()
	}
	return strings.ReplaceAll(p.Name(), "-", "_")
}

// agentKind matches the kinds of agents.
var agentKind = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// CheckAgentKind fails with INVALID_REQUEST unless kind consists of small
// letters, digits and underscores, and begins with a letter.
func CheckAgentKind(kind string) error {
	if !agentKind.MatchString(kind) {
		return Fail(InvalidRequest, "agent kind "+shown(kind)+": want small letters, digits and underscores, a letter first")
	}
	return nil
}

// Defaults are values for the options that a request leaves out.
type Defaults struct {
	Model   string
	Dir     string
	Timeout time.Duration // of a Run; a request disables it with Timeout -1
	Env     []string      // "K=V"; variables of the request override these
}

// Apply returns a copy of opt in which empty options have their defaults.
func (d Defaults) Apply(opt Options) Options {
	opt.Model = cmp.Or(opt.Model, d.Model)
	opt.Dir = cmp.Or(opt.Dir, d.Dir)
	opt.Timeout = cmp.Or(opt.Timeout, d.Timeout)
	opt.Env = slices.Concat(d.Env, opt.Env)
	return opt
}

// A Registry maps agent kinds to providers and their defaults. The zero value
// is empty. Its methods may be called concurrently.
type Registry struct {
	mu      sync.RWMutex // guards entries
	entries map[string]registered
}

type registered struct {
	Provider
	Defaults
}

// Register adds a provider under its [AgentKind]. It fails with INVALID_REQUEST
// if the kind is invalid or already registered.
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

// SetDefaults replaces the defaults of a kind. It fails with
// UNSUPPORTED_CLI_TYPE if the kind is not registered.
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

// Kinds returns the registered kinds, sorted.
func (r *Registry) Kinds() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.entries))
}

// Provider returns the provider of a kind. It fails with UNSUPPORTED_CLI_TYPE
// if the kind is not registered.
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
		return e, Fail(UnsupportedCLIType, "unknown agent kind "+shown(kind)+"; "+has)
	}
	return e, nil
}

// Start calls [Start] with the provider of a kind and its defaults. It fails
// with UNSUPPORTED_CLI_TYPE if the kind is not registered.
func (r *Registry) Start(ctx context.Context, kind string, opt Options, in Input) (*Run, error) {
	e, err := r.entry(kind)
	if err != nil {
		return nil, err
	}
	return start(ctx, e.Provider, e.Defaults, opt, in)
}

// Open calls [Open] with the provider of a kind and its defaults. It fails with
// UNSUPPORTED_CLI_TYPE if the kind is not registered.
func (r *Registry) Open(ctx context.Context, kind string, opt Options, cfg Config) (*Session, error) {
	e, err := r.entry(kind)
	if err != nil {
		return nil, err
	}
	return Open(ctx, e.Provider, e.Defaults.Apply(opt), cfg)
}
