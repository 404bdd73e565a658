package codex

import "github.com/runnel-dev/runnel/internal/agentconn"

// The names under which this package uses what all providers share.
func oneLine(s string, max int) string     { return agentconn.OneLine(s, max) }
func cut(s string, max int) (string, bool) { return agentconn.Cut(s, max) }
func digest(arguments []byte) string       { return agentconn.Digest(arguments) }
func key(native string) string             { return agentconn.Key(providerID, native) }
func derive(native string) string          { return agentconn.Derive(providerID, native) }
