package acp

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/text"
)

// No file in an untrusted folder may run commands, send data elsewhere, or
// allow a tool. Some agents can ignore such files (startupQuirks.environ,
// prepare). Runnel does not start other agents in an untrusted folder that has
// such files (Agent.SettingsFiles, Agent.ContextFiles, Agent.NestedFiles,
// startupQuirks.chosenPath).

// obeyedAbove lists what one of the agents obeys, or sends to the model, also above
// the repository of a trusted folder, such as MCP servers (Claude Code 2.1.330),
// variables (Gemini CLI 0.61.0) or, without a repository, plugins (opencode 1.18.33).
var obeyedAbove = []string{
	".mcp.json", ".claude", "CLAUDE.md", "CLAUDE.local.md", ".env", ".gemini", "GEMINI.md", ".qwen", "QWEN.md", ".agents", "AGENTS.md", "AGENTS.override.md",
	".codex", ".opencode", "opencode.json", "opencode.jsonc", "CONTEXT.md", ".copilot", ".github", ".vscode",
}

// checkTrust fails if an untrusted folder has files that could make the agent
// run commands, change other files or send their contents to the model.
func (p *provider) checkTrust(opt runnel.Options) error {
	dirs := append([]string{opt.Dir}, opt.AddDirs...)
	if opt.Trusted {
		dirs = opt.UntrustedDirs
	}
	context, err := p.contextFiles(opt)
	if err != nil && len(dirs) > 0 {
		return err
	}
	found := ""
	for _, dir := range dirs {
		if found == "" {
			found = findSettings(dir, p.agent.SettingsFiles)
		}
		if found == "" {
			found = findLinkOutside(dir, context, p.agent.Imports)
		}
		if found == "" {
			found = findNestedLinkOutside(dir, p.agent.NestedFiles)
		}
		if f := p.agent.quirks().startup.chosenPath; f != nil && found == "" {
			found = f(dir)
		}
	}
	if found == "" {
		return nil
	}
	return runnel.Fail(runnel.SessionCreateFailed, p.DisplayName()+" cannot ignore "+text.OneLine(found, 500)+", which could run commands, or read or change files outside of the folder. "+
		"Check this file. Then trust the folder (trusted-folders in the configuration), remove the file, or choose another agent.")
}

// contextFiles returns Agent.ContextFiles and the names that the user's settings
// of the agent give to such files.
func (p *provider) contextFiles(opt runnel.Options) ([]string, error) {
	f := p.agent.quirks().startup.contextSettings
	if f == nil {
		return p.agent.ContextFiles, nil
	}
	names, ok := contextNames(f(p.environ(os.Environ(), opt)))
	if !ok {
		return nil, runnel.Fail(runnel.SessionCreateFailed, "The settings of "+p.DisplayName()+" cannot be read, so Runnel does not know which files of an untrusted folder the agent would send to the model. "+
			"Check these settings, or trust the folder (trusted-folders in the configuration).")
	}
	out := slices.Clone(p.agent.ContextFiles)
	for _, name := range names {
		out = append(out, anyDepth+name)
	}
	return out, nil
}

// findSettings returns the path of the first of these files that exists in the
// folder or above it, or "". It skips the user's home directory, because its
// files belong to the user.
func findSettings(dir string, names []string) string {
	return findUpward(dir, names, func(path string) bool {
		_, err := os.Lstat(path)
		if entries, err := os.ReadDir(path); err == nil && len(entries) == 0 {
			return false // a sandbox may put an empty directory in place of a protected one
		}
		return err == nil || !errors.Is(err, fs.ErrNotExist) // treat an unreadable path as existing
	})
}

// findUpward returns the first path that satisfies is, or "". It examines each
// name in dir and in its parents, up to the root of the outermost repository
// around dir: agents differ in which directory they treat as the repository. It
// examines a name with the prefix anyDepth up to the root of the file system.
// It stops at the home directory. Upper and lower case in names do not matter,
// because some agents ignore them (GitHub Copilot 1.0.102).
func findUpward(dir string, names []string, is func(path string) bool) string {
	if len(names) == 0 {
		return ""
	}
	if dir == "" {
		dir, _ = os.Getwd() // on failure, the handshake fails too
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	home, list := userHome(), make(lister)
	root := outermost(dir, home)
	for inside := true; dir != home; {
		for _, name := range names {
			name, everywhere := strings.CutPrefix(name, anyDepth)
			if !inside && !everywhere {
				continue
			}
			for _, path := range list.caseVariants(dir, name) {
				if is(path) {
					return path
				}
			}
		}
		inside = inside && dir != root
		up := filepath.Dir(dir)
		if up == dir {
			break
		}
		dir = up
	}
	return ""
}

// A lister holds the names in the folders that were listed.
type lister map[string][]string

// names returns the names in a folder, or none if it cannot be listed.
func (l lister) names(dir string) []string {
	if _, done := l[dir]; !done {
		entries, _ := os.ReadDir(dir) // the names before an error
		l[dir] = make([]string, 0, len(entries))
		for _, e := range entries {
			l[dir] = append(l[dir], e.Name())
		}
	}
	return l[dir]
}

// caseVariants returns the path of name below dir, and every existing path that
// differs only in upper and lower case.
func (l lister) caseVariants(dir, name string) []string {
	paths := []string{dir}
	for part := range strings.SplitSeq(name, "/") {
		var next []string
		for _, at := range paths {
			next = append(next, filepath.Join(at, part))
			for _, other := range l.names(at) {
				if other != part && strings.EqualFold(other, part) {
					next = append(next, filepath.Join(at, other))
				}
			}
		}
		paths = next
	}
	return paths
}

// anyDepth is the prefix of names that apply in every parent folder, even
// outside of the repository.
const anyDepth = "**/"

// outermost returns the root of the outermost repository around dir, or dir if
// there is none. It ignores home and all directories above home.
func outermost(dir, home string) string {
	for root, at := dir, dir; ; {
		if at == home {
			return root
		}
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			root = at
		}
		up := filepath.Dir(at)
		if up == at {
			return root
		}
		at = up
	}
}

// repository returns the root of the innermost repository around dir, or dir if
// there is none.
func repository(dir string) string { return repositories(dir)[0] }

// repositories returns the folders, from dir upward, that may be the root of the
// repository around dir, or dir if there is none. Git ignores a .git that is no
// repository, and then uses one further up. Like outermost, repositories ignores
// the home directory, which holds the user's own files, and all directories above.
// A .git without HEAD is not a repository: Codex's sandbox leaves an empty one in the
// folder for temporary files, and Claude Code then writes info/exclude there.
func repositories(dir string) (roots []string) {
	home := userHome()
	for at := dir; at != home; {
		git := filepath.Join(at, ".git")
		_, err := os.Lstat(filepath.Join(git, "HEAD"))
		info, err2 := os.Lstat(git)
		isDir := err == nil || errors.Is(err, fs.ErrPermission)
		if isDir || err2 == nil && !info.IsDir() { // a file in a worktree or a submodule
			roots = append(roots, at)
		}
		up := filepath.Dir(at)
		if up == at {
			break
		}
		at = up
	}
	if len(roots) == 0 {
		return []string{dir}
	}
	return roots
}

// userHome returns the real path of the home directory. If there is none, it
// returns "", and no directory is exempt.
func userHome() string {
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	if real, err := filepath.EvalSymlinks(home); err == nil {
		return real
	}
	return home
}
