//go:build !unix

package auth

import "io/fs"

// Where there are no mode bits, a user's own directories are closed to others
// by the access lists they inherit.

func checkPrivate(string, fs.FileInfo) error { return nil }

func checkParent(string) error { return nil }
