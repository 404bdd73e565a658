//go:build !linux

package codex

// writer describes the process that has a conversation open, for an error. It
// does not find the process id on this system.
func writer(string, string) string { return "another Codex on this machine" }
