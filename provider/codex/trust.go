package codex

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/runnel-dev/runnel"
)

// trust returns, in the form of the agent's configuration, the trust level of
// every folder whose settings may run code.
//
// opt.Trusted alone decides about trust, even if the user's Codex configuration
// trusts a folder. The agent looks up the folder, the repository that contains
// it and, for a worktree, the main repository. A file in the folder names that
// main repository. So trust marks as untrusted every parent folder and every
// folder that the configuration names.
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

// quoted matches a quoted string in a configuration.
var quoted = regexp.MustCompile(`"(?:[^"\\\n]|\\.)*"|'[^'\n]*'`)

// maxQuoted bounds how many quoted strings trusted examines.
const maxQuoted = 20000

// trusted returns all absolute paths in a configuration, trusted or not. A
// configuration can express trust in many ways, and marking too many folders as
// untrusted does no harm.
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
