// Package ui holds the built page.
package ui

import (
	"embed"
	"io/fs"
)

//go:embed all:dist all:unbuilt
var files embed.FS

// Dist returns the page's files, index.html at their root. If the page was not
// built before the program was, it reports false, and index.html says how to.
func Dist() (fs.FS, bool) { return dist(files) }

func dist(files fs.FS) (fs.FS, bool) {
	if _, err := fs.Stat(files, "dist/index.html"); err == nil {
		return sub(files, "dist"), true
	}
	return sub(files, "unbuilt"), false
}

func sub(files fs.FS, dir string) fs.FS {
	s, _ := fs.Sub(files, dir) // fails only for a path that is not valid
	return s
}
