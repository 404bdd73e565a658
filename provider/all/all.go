// Package all is the one list of the providers that come with runnel.
package all

import (
	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/provider/claude"
	"github.com/runnel-dev/runnel/provider/script"
)

// Providers returns a new value of each. To add a provider, add a line.
func Providers() []runnel.Provider {
	return []runnel.Provider{
		claude.New(),
		script.New(),
	}
}
