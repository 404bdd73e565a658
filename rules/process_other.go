//go:build !linux

package rules

// throughProcess reports whether path leads through a link that leads each
// process elsewhere. Only Linux has such links.
func throughProcess(string) bool { return false }
