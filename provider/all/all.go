// Package all is the one list of the providers that come with runnel, and what a
// configuration makes of it.
package all

import (
	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/provider/acp"
	"github.com/runnel-dev/runnel/provider/claude"
	"github.com/runnel-dev/runnel/provider/codex"
	"github.com/runnel-dev/runnel/provider/script"
)

// Registry returns a registry with every provider and no defaults. The kinds of
// its agents are reserved: Register refuses another provider of such a kind, and
// so does a configuration.
func Registry() (*runnel.Registry, error) {
	r := new(runnel.Registry)
	for _, p := range Providers() {
		if err := r.Register(p, runnel.Defaults{}); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Providers returns a new value of each. To add a provider, add a line.
func Providers() []runnel.Provider {
	list := []runnel.Provider{claude.New(), codex.New()}
	list = append(list, acp.Providers()...)
	return append(list, script.New()) // the one that is no agent stays last
}
