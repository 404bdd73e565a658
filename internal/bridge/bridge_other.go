//go:build !linux

package bridge

// Main does nothing: only Linux has sandboxes.
func Main() {}
