//go:build !linux

package rules

// throughProcess reports whether path leads elsewhere for each process. Only
// Linux has such links.
func throughProcess(string) bool { return false }
