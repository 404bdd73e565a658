//go:build !linux

package sqlite

import "errors"

// limitedWriter needs a file size limit that fails writes without killing the
// process.
func limitedWriter(string) error { return errors.New("not on this system") }
