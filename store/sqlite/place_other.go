//go:build !linux || !(amd64 || arm64)

package sqlite

import "os"

// A place is a path and the file that it led to when it was first looked up.
type place struct {
	path string
	file os.FileInfo
}

func placeOf(path string) (place, error) { return place{path: path}, nil }

// same reports whether the path still leads to the same file.
func (p *place) same() (bool, error) {
	now, err := os.Lstat(p.path)
	if err != nil {
		return false, err
	}
	if p.file == nil {
		p.file = now
	}
	return os.SameFile(now, p.file), nil
}

// unchanged reports whether the directory's entries are known to be the same.
func (p *place) unchanged() bool { return false }

func (p *place) remember() {}

func (p *place) forget() {}
