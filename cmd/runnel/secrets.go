package main

import (
	"slices"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/redact"
)

// knownSecrets finds the secrets of our own environment, beside those that
// issued knows. An agent is given some of them, and prints them like any other
// text. However many credentials we make, none of the others is forgotten.
func knownSecrets(issued *redact.Redactor, environ []string) *redact.Redactor {
	return redact.Above(issued, redact.Env(environ)...)
}

// filter makes the filter of what an agent says that is run with opt. It is a
// [runnel.Options] Filter.
func (a *app) filter(opt runnel.Options) runnel.Filter {
	return a.secrets.With(slices.Concat(redact.Env(opt.Env), redact.JSON(opt.MCPServers))...).Events()
}
