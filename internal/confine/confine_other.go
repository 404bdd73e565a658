//go:build !linux

package confine

// Main does nothing: only Linux has Landlock.
func Main() {}

// Version returns 0: only Linux has Landlock.
func Version() int { return 0 }
