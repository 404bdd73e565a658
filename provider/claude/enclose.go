package claude

import (
	"encoding/json"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/proc"
	"github.com/runnel-dev/runnel/internal/sandbox"
)

// enclosure returns what Claude Code 2.1.329 needs in a sandbox. Of its own
// folder it sees the conversations of this project, its login and its settings.
// It cannot write the settings, whose hooks would run outside of the sandbox.
// .claude.json names MCP servers, so the agent has a copy of it. The folders
// shell-snapshots and session-env are its own, because the shells of other
// sessions run the scripts in them. So is file-history, which has the copies to
// which the agent resets files in a terminal, wherever they are; without one it
// makes no copies. The folder tasks has a folder for each conversation, of every
// project. The agent has reported the id of its conversation, so it has this
// folder only if no other project has a conversation with that id. args are the
// agent's arguments.
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
	state := within(filepath.Join("projects", slug(dir)))
	if id := conversationOf(args); id != "" && !storedElsewhere(home, dir, id) {
		state = append(state, within(filepath.Join("tasks", id))...)
	}
	return &agentconn.Enclosure{
		State:   state,
		Logins:  within(".credentials.json"),
		Copies:  copies,
		Edit:    func(content []byte, brokered bool) []byte { return ownSettings(content, dir, brokered) },
		Read:    within(readable...),
		Private: []string{home},
		Hosts:   []string{"api.anthropic.com", "console.anthropic.com", "platform.claude.com", "claude.ai"},
		Temp:    []string{"CLAUDE_CODE_TMPDIR"},
		Quiet:   Quiet(),
	}
}

// readable are the settings in the agent's folder that it can read in a sandbox.
var readable = []string{"settings.json", "CLAUDE.md", "agents", "commands", "skills", "plugins", "output-styles", "rules"}

// StatePaths implements [runnel.StateKeeper].
func (p *Provider) StatePaths() (paths []string) {
	env := p.parent()
	if dir := configDir(env); filepath.IsAbs(dir) {
		paths = append(paths, dir)
	}
	if home := userHome(env); filepath.IsAbs(home) {
		for _, name := range []string{".claude", ".claude.json", ".config/anthropic", ".local/share/claude", ".local/state/claude"} { // the last two have the program
			paths = append(paths, filepath.Join(home, filepath.FromSlash(name)))
		}
	}
	return slices.Concat(paths, agentconn.NamedPaths(env, obeyed...), agentconn.TempPaths(env, "claude-"))
}

// obeyed are the variables that name settings and plugins outside of the
// agent's folder.
var obeyed = []string{"CLAUDE_CODE_MANAGED_SETTINGS_PATH", "CLAUDE_CODE_PLUGIN_CACHE_DIR", "CLAUDE_CODE_PLUGIN_SEED_DIR", "CLAUDE_CODE_PLUGIN_DIRS"}

// storedElsewhere reports whether a folder of another project than dir has a
// conversation with this id, even if dir's own folder has one, too. The agent in
// the sandbox can write the own folder, so a file there does not prove that the
// conversation belongs to this project. home is the agent's folder.
func storedElsewhere(home, dir, id string) bool {
	root, err := agentconn.OpenFolder(filepath.Join(home, "projects"))
	if err != nil {
		return false // the agent has stored no conversations
	}
	defer root.Close()
	own := path.Join(slug(dir), id+".jsonl")
	return slices.ContainsFunc(inFolders(root, id+".jsonl"), func(name string) bool { return name != own })
}

// ownSettings returns the content of .claude.json without what belongs to other
// projects than dir: their folders, their MCP servers, with credentials, their
// prompts and the ids of their conversations. If brokered is set, the result also
// lacks the key of a login with an account of the API. It is nil if the content
// is invalid.
func ownSettings(content []byte, dir string, brokered bool) []byte {
	var all, projects map[string]json.RawMessage
	if json.Unmarshal(content, &all) != nil || all == nil {
		return nil
	}
	_ = json.Unmarshal(all["projects"], &projects) // otherwise there are none
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	own := append(repositoriesOf(dir), dir)
	maps.DeleteFunc(projects, func(name string, _ json.RawMessage) bool { return !slices.Contains(own, filepath.Clean(name)) })
	delete(all, "projects")
	if len(projects) > 0 {
		all["projects"], _ = json.Marshal(projects) // cannot fail: the values are valid
	}
	delete(all, "githubRepoPaths") // in 2.1.330, the folders in which each repository was used
	if brokered {
		delete(all, "primaryApiKey")
	}
	out, err := json.Marshal(all)
	if err != nil {
		return nil // unreachable: the values are valid
	}
	return out
}

// repositoriesOf returns the folders under which the agent (2.1.330) can have
// settings for dir, apart from dir: the root of the nearest work tree, and for a
// linked worktree also the repository to which it belongs. A submodule is a
// repository of its own. Anybody can write a .git file that names the repository
// of another project, so the repository must name that file, too.
func repositoriesOf(dir string) []string {
	for root := dir; ; root = filepath.Dir(root) {
		git := filepath.Join(root, ".git")
		if st, err := os.Stat(git); err == nil && (st.IsDir() || st.Mode().IsRegular()) {
			common := sandbox.LinkedTo(git)
			switch {
			case common == "":
				return []string{root}
			case filepath.Base(common) == ".git":
				return []string{root, filepath.Dir(common)}
			}
			return []string{root, common} // a bare repository, or that of a submodule
		}
		if root == filepath.Dir(root) {
			return nil
		}
	}
}

// Quiet returns the settings by which Claude Code, in a sandbox, sends no
// telemetry and searches for no updates.
func Quiet() []string {
	return []string{"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1"}
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
