package main

import (
	"fmt"
	"path/filepath"

	"github.com/runnel-dev/runnel/internal/seal"
	"github.com/runnel-dev/runnel/internal/subpath"
	"github.com/runnel-dev/runnel/internal/termtext"
)

// loadKey returns the key that encrypts secrets in the data directory, which
// must exist. It creates the key file if there is none.
func (a *app) loadKey(c config) (*seal.Key, error) {
	if c.KeyFile == "" {
		return nil, usage("there is no home directory for the key that encrypts secrets; choose a file with --key-file")
	}
	if within(c.KeyFile, c.Data) {
		return nil, errKeyInData(c.KeyFile)
	}
	key, err := seal.Load(c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	a.secrets.Add(key.Text())
	return key, nil
}

func errKeyInData(path string) error {
	return usage("--key-file: %s lies in the data directory, so every copy of that directory would contain the key; choose a file outside it", termtext.Clean(path))
}

// within reports whether a file, which may not exist, lies below dir. It
// compares both paths as given and with symbolic links resolved; one match is
// enough.
func within(file, dir string) bool {
	for _, path := range []string{file, resolved(file)} {
		for _, top := range []string{dir, resolved(dir)} {
			if subpath.Within(path, top) {
				return true
			}
		}
	}
	return false
}

// resolved returns path with the symbolic links resolved in the part of it that
// exists.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if parent := filepath.Dir(path); parent != path {
		return filepath.Join(resolved(parent), filepath.Base(path))
	}
	return path
}
