//go:build !linux

package rules

// throughProcess reports whether path leads through a link that leads each
// process to a different file. Only Linux has such links.
func throughProcess(string) bool { return false }
