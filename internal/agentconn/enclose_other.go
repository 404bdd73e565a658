//go:build !linux

package agentconn

import (
	"os"
	"path/filepath"
)

func shortPath(_ *os.File, dir, name string) string { return filepath.Join(dir, name) }
