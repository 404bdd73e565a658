//go:build !linux

package proc

import "errors"

// BecomeSubreaper fails with errors.ErrUnsupported: on this system orphans
// always fall to its init.
func BecomeSubreaper() (stop func(), err error) { return nil, errors.ErrUnsupported }

func adopted() ([]identity, error) { return nil, nil }

// IsSubreaper reports whether orphaned descendants fall to this process.
func IsSubreaper() bool { return false }
