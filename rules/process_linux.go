package rules

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	procMagic = 0x9fa0 // type of the proc file system, see statfs(2)
	maxLinks  = 255    // maximum number of links in one path; Linux follows 40
)

// throughProcess reports whether path leads through a link in the proc file
// system, such as /proc/self/cwd or /dev/fd. Such a link leads each process to
// a different file, so the agent would open another file than this process.
func throughProcess(path string) bool {
	at, links := "/", 0
	for rest := strings.Split(path, "/"); len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		to, err := os.Readlink(next)
		if err != nil { // not a link, or not accessible
			at = next
			continue
		}
		var st syscall.Statfs_t
		if links++; links > maxLinks || syscall.Statfs(at, &st) != nil || st.Type == procMagic {
			return true
		}
		if strings.HasPrefix(to, "/") {
			at = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return false
}
