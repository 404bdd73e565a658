//go:build !unix

package private

import "io/fs"

// This system has no mode bits. The access lists that files inherit keep other
// users from a user's own files.

func checkDir(string, fs.FileInfo) error { return nil }

func checkFile(string, fs.FileInfo, Access) error { return nil }

func checkFolder(string, fs.FileInfo) error { return nil }

// Foreign reports false, because the owner is not known.
func Foreign(fs.FileInfo) bool { return false }

func checkLink(string, fs.FileInfo) error { return nil }
