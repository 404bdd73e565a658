package codex

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
)

// external is Codex's sandbox policy for an agent that already runs in a
// sandbox. Its own sandbox would fail there.
const external = "external"

// enclosed returns the settings of m in a sandbox of Runnel. Without the
// agent's read-only sandbox, plan mode asks before each command that is not
// known to read only.
func (m mode) enclosed(box runnel.Sandbox) mode {
	if !box.IsOn() {
		return m
	}
	if m.sandbox != fullAccess {
		m.sandbox = external
	}
	if m.plan {
		m.approval = untrusted
	}
	return m
}

// enclosure returns what Codex 0.169.0 needs in a sandbox. It stores the
// conversations of all projects in one folder by date, so it sees all of them.
// It cannot write its settings, which can start programs outside of the
// sandbox.
func enclosure(env []string) *agentconn.Enclosure {
	home := codexHome(env)
	if home == "" {
		return nil
	}
	within := func(names ...string) (out []string) {
		for _, n := range names {
			out = append(out, filepath.Join(home, n))
		}
		return out
	}
	return &agentconn.Enclosure{
		State:   within("sessions", "archived_sessions"),
		Logins:  within("auth.json"),
		Read:    within("config.toml", "AGENTS.md", "AGENTS.override.md", "rules", "prompts", "skills", "plugins", "hooks.json"),
		Private: []string{home},
		Hosts:   []string{"api.openai.com", "chatgpt.com", "auth.openai.com"},
	}
}

// StatePaths implements [runnel.StateKeeper].
func (p *Provider) StatePaths() (paths []string) {
	env := append(os.Environ(), p.program.Env...)
	usual := slices.DeleteFunc(slices.Clone(env), func(e string) bool { return strings.HasPrefix(e, "CODEX_HOME=") })
	for _, home := range []string{codexHome(env), codexHome(usual)} {
		if filepath.IsAbs(home) {
			paths = append(paths, home)
		}
	}
	return slices.Concat(paths, agentconn.NamedPaths(env, "CODEX_SQLITE_HOME"), agentconn.TempPaths(env, tempPrefix))
}

// Quiet returns the settings by which Codex, in a sandbox, sends nothing about
// its use and searches for no updates.
func Quiet() []string {
	return []string{"analytics.enabled=false", "check_for_update_on_startup=false"}
}

// quiet returns the arguments with the settings of Quiet.
func quiet() (args []string) {
	for _, setting := range Quiet() {
		args = append(args, "-c", setting)
	}
	return args
}

// errTwoSandboxes returns the error for Codex's own setting in a sandbox of
// Runnel.
func errTwoSandboxes(box runnel.Sandbox) error {
	return runnel.Fail(runnel.InvalidRequest, "config."+optionSandbox+": Codex's own sandbox does not work in sandbox: "+string(box)+"; leave it out")
}
