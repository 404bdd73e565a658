//go:build !linux

package sandbox

// locate finds nothing: only Linux has sandboxes.
func locate(string) (canonical string, plain, ok bool) { return "", false, false }
