//go:build !linux

package sqlite

import "errors"

// limitedWriter needs limits on the size of files that do not kill.
func limitedWriter(string) error { return errors.New("not on this system") }
