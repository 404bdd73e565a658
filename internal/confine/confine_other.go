//go:build !linux

package confine

import "errors"

// Main does nothing: only Linux has Landlock.
func Main() {}

// Version returns 0: only Linux has Landlock.
func Version() int { return 0 }

// Start fails: only Linux has Landlock.
func Start([]Rule, func()) error { return errors.ErrUnsupported }
