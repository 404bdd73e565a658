package detect

import (
	"strings"

	"github.com/runnel-dev/runnel"
)

// An aliaser is a provider with other names.
type aliaser interface{ Aliases() []string }

// An Index finds providers by name and by alias. It is immutable.
type Index struct {
	list   []runnel.Provider
	byName map[string]runnel.Provider
	alias  map[string]string // alias to name
}

// NewIndex returns an Index of these providers. If two providers have the same
// alias, it finds the first. A name takes precedence over an alias.
func NewIndex(ps []runnel.Provider) *Index {
	x := &Index{list: ps, byName: make(map[string]runnel.Provider), alias: make(map[string]string)}
	for _, p := range ps {
		x.byName[p.Name()] = p
	}
	for _, p := range ps {
		for _, a := range aliases(p) {
			if _, taken := x.alias[a]; !taken && x.byName[a] == nil {
				x.alias[a] = p.Name()
			}
		}
	}
	return x
}

// Named returns the provider with this name, or nil.
func (x *Index) Named(name string) runnel.Provider { return x.byName[name] }

// Find returns the provider with this name or alias, or nil.
func (x *Index) Find(name string) runnel.Provider {
	if p := x.byName[name]; p != nil {
		return p
	}
	return x.byName[x.alias[name]]
}

// Choose returns the provider that a client names, or the first provider if
// name is "". The error for an unknown name lists the known ones.
func (x *Index) Choose(name string) (runnel.Provider, error) {
	if name == "" && len(x.list) > 0 {
		return x.list[0], nil
	}
	if p := x.Find(name); p != nil {
		return p, nil
	}
	known := make([]string, 0, len(x.list))
	for _, p := range x.list {
		known = append(known, p.Name())
	}
	return nil, &runnel.Error{
		Code: runnel.UnsupportedCLIType, Message: "cliType: not one of " + strings.Join(known, ", "), Details: map[string]any{"cliTypes": known},
	}
}

// aliases returns the aliases that a provider declares. For a provider that
// declares none and has a name with dashes, they are the first word of the name
// and the name with underscores.
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
