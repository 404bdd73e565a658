package main

import (
	"slices"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/redact"
)

// knownSecrets returns a redactor for the secrets in our own environment and
// for those of issued. Agents receive some of these variables and may print
// them. The environment's secrets stay redacted however many credentials issued
// adds.
func knownSecrets(issued *redact.Redactor, environ []string) *redact.Redactor {
	return redact.Above(issued, redact.Env(environ)...)
}

// filter returns the filter that redacts the events of an agent run with opt.
// It is the Filter of [runnel.Options].
func (a *app) filter(opt runnel.Options) runnel.Filter {
	return a.secrets.With(slices.Concat(redact.Env(opt.Env), redact.JSON(opt.MCPServers))...).Events()
}
