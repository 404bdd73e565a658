package claude

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/proc"
)

// enclosure returns what Claude Code 2.1.329 needs in a sandbox. Of its own
// folder it sees the conversations of this project, its login and its settings.
// It cannot write the settings, whose hooks would run outside of the sandbox.
// .claude.json names MCP servers, so the agent has a copy of it. The folders
// shell-snapshots and session-env are its own, because the shells of other
// sessions run the scripts in them. The folders tasks and file-history have a
// folder for each conversation, of every project. args are the agent's
// arguments.
func enclosure(env, args []string, opt runnel.Options) *agentconn.Enclosure {
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
	copies := within(".claude.json")
	if user := userHome(env); user != "" {
		copies = append(copies, filepath.Join(user, ".claude.json"))
	}
	id := conversationOf(args)
	return &agentconn.Enclosure{
		State:   within(filepath.Join("projects", slug(dir)), filepath.Join("tasks", id), filepath.Join("file-history", id)),
		Logins:  within(".credentials.json"),
		Copies:  copies,
		Keys:    []string{"primaryApiKey"}, // of a login with an account of the API
		Read:    within("settings.json", "CLAUDE.md", "agents", "commands", "skills", "plugins", "output-styles", "rules"),
		Private: []string{home},
		Hosts:   []string{"api.anthropic.com", "console.anthropic.com", "platform.claude.com", "claude.ai"},
		Temp:    []string{"CLAUDE_CODE_TMPDIR"},
		Env:     []string{"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1"},
	}
}

// conversationOf returns the id of the agent's conversation, which [argv] put into
// its arguments.
func conversationOf(args []string) (id string) {
	for _, a := range args {
		for _, flag := range []string{"--resume=", "--session-id="} { // a copy has both, and continues with the second one
			if found, ok := strings.CutPrefix(a, flag); ok {
				id = found
			}
		}
	}
	return id
}

// userHome returns the user's home directory for a program with this
// environment.
func userHome(env []string) string {
	for _, e := range proc.Environ(env, []string{"HOME"}, nil) {
		return e[len("HOME="):]
	}
	return ""
}
