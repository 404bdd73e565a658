//go:build !linux

package changes

import "io/fs"

// changeTime returns "": only Linux has sandboxes.
func changeTime(fs.FileInfo) string { return "" }
