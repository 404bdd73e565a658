// Package all lists the providers that are part of Runnel, and applies the
// configuration to that list.
package all

import (
	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/provider/acp"
	"github.com/runnel-dev/runnel/provider/claude"
	"github.com/runnel-dev/runnel/provider/codex"
	"github.com/runnel-dev/runnel/provider/script"
)

// Registry returns a registry with every provider of this package and without
// defaults. The agent kinds of these providers are reserved: Register and
// [Configured] reject another provider of the same kind.
func Registry() (*runnel.Registry, error) {
	r := new(runnel.Registry)
	for _, p := range Providers() {
		if err := r.Register(p, runnel.Defaults{}); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Providers returns a new value of each provider. To add a provider, add it to
// this list.
func Providers() []runnel.Provider {
	list := []runnel.Provider{claude.New(), codex.New()}
	list = append(list, acp.Providers()...)
	return append(list, script.New()) // keep the scripted agent last
}
