package codex

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/runnel-dev/runnel"
)

// trust returns, in the form of the agent's configuration, the folders whose
// own settings may run code.
//
// A folder is trusted here because whoever runs us says so, and not because the
// agent was told so once. It looks at the folder, at the repository that it is
// in and, of a worktree, at the one it belongs to, which a file in the folder
// names: so whatever might count is taken back, and all that its configuration
// trusts.
func trust(opt runnel.Options) map[string]any {
	dir := projectDir(opt.Dir)
	level := func(of string) map[string]any { return map[string]any{"trust_level": of} }
	if opt.Trusted {
		return map[string]any{dir: level("trusted")}
	}
	out := make(map[string]any)
	for d := dir; d != ""; d = filepath.Dir(d) {
		out[d] = level("untrusted")
		if d == filepath.Dir(d) {
			break
		}
	}
	for _, home := range []string{codexHome(append(os.Environ(), opt.Env...)), "/etc/codex"} {
		for _, d := range trusted(userConfig(home)) {
			out[d] = level("untrusted")
		}
	}
	return out
}

// quoted is a string in a configuration.
var quoted = regexp.MustCompile(`"(?:[^"\\\n]|\\.)*"|'[^'\n]*'`)

// maxQuoted bounds how many of them are looked at.
const maxQuoted = 20000

// trusted returns the folders that a configuration speaks of, whatever it says
// of them: there are many ways to write it, and to trust one less does no harm.
func trusted(config []byte) (dirs []string) {
	for _, q := range quoted.FindAll(config, maxQuoted) {
		dir := string(q[1 : len(q)-1])
		if q[0] == '"' {
			var err error
			if dir, err = strconv.Unquote(string(q)); err != nil {
				continue
			}
		}
		if filepath.IsAbs(dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}
