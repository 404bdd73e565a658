package claude

import (
	"os"
	"path/filepath"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/proc"
)

// enclosure returns what Claude Code 2.1.329 needs in a sandbox. Of its own
// folder it sees the conversations of this project, its login and its settings.
// It cannot write the settings, whose hooks would run outside of the sandbox.
func enclosure(env []string, opt runnel.Options) *agentconn.Enclosure {
	home, dir := configDir(env), opt.Dir
	if home == "" {
		return nil
	}
	if dir == "" {
		dir, _ = os.Getwd() // Start fails without it
	}
	within := func(names ...string) (out []string) {
		for _, n := range names {
			out = append(out, filepath.Join(home, n))
		}
		return out
	}
	files := within(".claude.json")
	if user := userHome(env); user != "" {
		files = append(files, filepath.Join(user, ".claude.json"))
	}
	return &agentconn.Enclosure{
		State:   within(filepath.Join("projects", slug(dir)), "todos", "tasks", "file-history", "session-env", "shell-snapshots"),
		Files:   files,
		Logins:  within(".credentials.json"),
		Read:    within("settings.json", "CLAUDE.md", "agents", "commands", "skills", "plugins", "output-styles", "rules"),
		Private: []string{home},
		Hosts:   []string{"api.anthropic.com", "console.anthropic.com", "platform.claude.com", "claude.ai"},
		Env:     []string{"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1"},
	}
}

// userHome returns the user's home directory for a program with this
// environment.
func userHome(env []string) string {
	for _, e := range proc.Environ(env, []string{"HOME"}, nil) {
		return e[len("HOME="):]
	}
	return ""
}
