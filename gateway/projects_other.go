//go:build !unix

package gateway

import "os"

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
