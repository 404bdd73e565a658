package changes

import (
	"os"
	"strings"

	"github.com/runnel-dev/runnel/internal/subpath"
)

// escapes are those of paths in mountinfo, see proc_pid_mountinfo(5).
var escapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// mountedIn returns a place in a folder, or the folder itself, at which files
// from elsewhere are mounted; "" if there is none.
func mountedIn(dir string) string {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "" // without /proc
	}
	dir = canonical(dir)
	for line := range strings.SplitSeq(string(text), "\n") {
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		if at := escapes.Replace(f[4]); subpath.Within(at, dir) {
			return at
		}
	}
	return ""
}
