//go:build !linux

package proc

import "errors"

// BecomeSubreaper returns errors.ErrUnsupported: on this system the init
// process always adopts orphans.
func BecomeSubreaper() (stop func(), err error) { return nil, errors.ErrUnsupported }

func adopted() ([]identity, error) { return nil, nil }

// IsSubreaper reports whether this process adopts orphaned descendants.
func IsSubreaper() bool { return false }
