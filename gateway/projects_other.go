//go:build !unix

package gateway

import (
	"io/fs"
	"os"
)

// usable reports whether we may list dir. This system has no reliable check for
// whether we may also change it.
func usable(dir string) bool {
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer f.Close()
	_, err = f.Readdirnames(1)
	return err == nil || err.Error() == "EOF"
}

// onlyRootChanges reports whether only an administrator can have made a link,
// which this system does not tell.
func onlyRootChanges(string, fs.FileInfo) bool { return false }
