//go:build !unix

package testexec

import "testing"

// Unprivileged returns false: on this system, no user can read everything.
func Unprivileged(*testing.T) bool { return false }
