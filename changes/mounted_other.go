//go:build !linux

package changes

// mountedIn returns "": on this system, the removal of a folder does not look
// for what is mounted in it.
func mountedIn(string) string { return "" }
