package gateway

import (
	"strings"

	"github.com/runnel-dev/runnel"
)

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
	}
	for _, p := range ps {
		for _, a := range aliases(p) {
			if _, taken := alias[a]; !taken && byName[a] == nil {
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

// Find returns the provider with this name or alias, or nil.
func Find(ps []runnel.Provider, name string) runnel.Provider {
	byName, alias := index(ps)
	if p := byName[name]; p != nil {
		return p
	}
	return byName[alias[name]]
}

// provider finds a provider by what a client calls it; an empty name is the
// first one.
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
