package gitconfig

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/internal/proc"
)

// pins are settings that override those of a repository. Their values are git's
// defaults, but without hooks.
var pins = [][2]string{
	{"core.fsmonitor", "false"},
	{"core.hooksPath", os.DevNull},
	{"core.pager", "cat"},
	{sshCommand, "ssh"},
	{"safe.bareRepository", "explicit"}, // unknown to git before 2.38
}

const sshCommand = "core.sshCommand"

// counter is the variable with the number of settings in the environment.
const counter = "GIT_CONFIG_COUNT"

// Pin returns env with the pins added to its git settings. It keeps the user's
// own core.sshCommand if git can report it.
func Pin(ctx context.Context, env []string) []string {
	pinned := slices.Clone(pins)
	if own := userSetting(ctx, env, sshCommand); own != "" {
		pinned[slices.IndexFunc(pinned, func(p [2]string) bool { return p[0] == sshCommand })][1] = own
	}
	return appendSettings(env, pinned)
}

// appendSettings returns env with additional git settings.
func appendSettings(env []string, settings [][2]string) []string {
	n := 0
	out := make([]string, 0, len(env)+2*len(settings)+1)
	for _, e := range env {
		if value, ok := strings.CutPrefix(e, counter+"="); ok {
			n, _ = strconv.Atoi(value) // git rejects a value that is not a number
			continue
		}
		out = append(out, e)
	}
	for _, s := range settings {
		i := strconv.Itoa(n)
		out = append(out, "GIT_CONFIG_KEY_"+i+"="+s[0], "GIT_CONFIG_VALUE_"+i+"="+s[1])
		n++
	}
	return append(out, counter+"="+strconv.Itoa(n))
}

// userSetting returns a setting from the configurations of the system and the
// user, or "".
func userSetting(ctx context.Context, env []string, key string) string {
	git, err := lookGit(env)
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, gitTime)
	defer cancel()
	home := proc.Environ(env, []string{"PATH", "HOME", "USERPROFILE", "XDG_CONFIG_HOME", "SystemRoot"}, map[string]string{
		"GIT_DIR": os.DevNull, "LC_ALL": "C",
	})
	cmd := exec.CommandContext(ctx, git, "--no-pager", "config", "--includes", "--null", "--get", key)
	cmd.Dir, cmd.Env = filepath.Dir(git), appendSettings(home, slices.DeleteFunc(slices.Clone(pins), func(p [2]string) bool { return p[0] == key }))
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil { // also if the key is not set
		return ""
	}
	return strings.TrimSuffix(string(out), "\x00")
}
