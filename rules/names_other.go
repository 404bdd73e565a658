//go:build !unix

package rules

import "io/fs"

// hasSeveralNames returns false: the number of names of a file is unknown here.
func hasSeveralNames(fs.FileInfo) bool { return false }
