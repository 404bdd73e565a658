package agentconn

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ownTempPrefix is the name, without the number of the user, of the folder of OwnTemp.
const ownTempPrefix = "runnel-"

// TempPaths returns folders of an agent among the temporary files. Outside of a
// sandbox, the agent runs, obeys or follows what is there. env is the environment of
// the agent. A name that ends with - is followed by the number of the user.
func TempPaths(env []string, names ...string) (paths []string) {
	dirs := []string{"/tmp", os.TempDir()}
	if dir, ok := lookup(env, "TMPDIR"); ok && filepath.IsAbs(dir) {
		dirs = append(dirs, dir)
	}
	slices.Sort(dirs)
	for _, dir := range slices.Compact(dirs) {
		for _, name := range append(names, ownTempPrefix) {
			if strings.HasSuffix(name, "-") {
				name += strconv.Itoa(os.Geteuid())
			}
			paths = append(paths, filepath.Join(dir, filepath.FromSlash(name)))
		}
	}
	return paths
}
