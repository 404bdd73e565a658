//go:build !linux

package sqlite

import "errors"

// limitedWriter is not supported on this system. It needs a limit on the size
// of files beyond which writes fail without a signal that kills the process.
func limitedWriter(string) error { return errors.New("not on this system") }
