package sandbox

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// obeyed returns the canonical paths of what Runnel itself runs or obeys outside
// of a sandbox, and of the links to it: directories of programs, the agent's
// program, the user's settings of git, Runnel's cache, in which the server's git
// has its settings, Runnel's own files, and the state of all agents and of
// programs such as container daemons, editors and browsers. An agent that can
// write such a path can leave its sandbox.
func (b Box) obeyed(g guard) (paths []string) {
	settings := directory(os.UserConfigDir)
	for _, dir := range directory(os.UserCacheDir) {
		paths = append(paths, filepath.Join(dir, "runnel"))
	}
	for _, p := range slices.Concat(withheld, nodeFolders, stores) { // with the user's own .cache/runnel
		paths = append(paths, g.inHome(p)...)
	}
	for _, home := range g.homes {
		settings = append(settings, filepath.Join(home, ".config"))
		paths = append(paths, filepath.Join(home, ".gitconfig"))
		for _, dir := range toolchains {
			if dir != "sdk" { // which may as well be a project
				paths = append(paths, filepath.Join(home, dir))
			}
		}
	}
	if program, err := os.Executable(); err == nil {
		paths = append(paths, program)
	}
	for _, dir := range settings {
		git := filepath.Join(dir, "git")
		paths = append(paths, git, filepath.Join(git, "config"), filepath.Join(git, "attributes"))
	}
	paths = slices.Concat(paths, b.Protected, b.Withheld)
	for _, dir := range b.Withheld {
		paths = append(paths, linksIn(dir)...)
	}
	for _, program := range b.chain() {
		paths = append(paths, program)
		for dir := filepath.Dir(program); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
			paths = append(paths, filepath.Join(dir, "node_modules"))
		}
	}
	return placesOf(append(paths, g.elsewhere(b.path())...))
}

// placesOf is places for several files.
func placesOf(paths []string) (all []string) {
	for _, path := range paths {
		all = append(all, places(path)...)
	}
	return all
}

// places returns the canonical path of a file, and of each link on the way to
// it: a program that can replace such a link chooses the file.
func places(path string) (out []string) {
	names := func(path string) []string {
		return strings.FieldsFunc(path, func(r rune) bool { return r == filepath.Separator })
	}
	top := string(filepath.Separator)
	at, rest := top, names(filepath.Clean(path))
	for len(rest) > 0 && len(out) <= maxLinks {
		next := filepath.Join(at, rest[0])
		rest = rest[1:]
		to, err := os.Readlink(next)
		if err != nil { // no link
			at = next
			continue
		}
		out = append(out, next)
		if filepath.IsAbs(to) {
			at = top
		}
		rest = append(names(to), rest...)
	}
	return append(out, at)
}

// stores are folders of a home directory, besides toolchains, from which agents,
// package managers, version managers and shells run what is stored there. One
// agent starts from .cache.
var stores = []string{
	".cache", ".npm", ".bun", ".cargo", ".deno", ".gem", ".jenv", ".goenv", ".gvm", ".nodenv", ".fnm", ".proto", ".pixi", ".rye", ".poetry",
	".ghcup", ".opam", ".cabal", ".stack", ".dotnet", ".krew", ".linuxbrew", "miniconda3", "anaconda3", "miniforge3", "mambaforge",
}

// nodeFolders are the folders of a home directory in which Node.js searches for
// modules. Agents that are installed below the home directory, such as Gemini
// CLI with a version manager, ask for modules that are nowhere, such as
// node-pty, and run what they find. For the same reason, no program of an agent
// may have a writable node_modules beside or above it.
var nodeFolders = []string{"node_modules", ".node_modules", ".node_libraries"}

// settingsDirs are directories in the state of agents whose entries the agents
// run or obey.
var settingsDirs = []string{"agent", "agents", "command", "commands", "extensions", "hooks", "output-styles", "plugin", "plugins", "policies", "prompts", "rules", "skills", "tools"}

// linksIn returns the links in the state of an agent, such as settings that are
// in a repository of the user, and those in the directories of settingsDirs.
func linksIn(state string) (links []string) {
	for _, dir := range append([]string{"."}, settingsDirs...) {
		links = append(links, linksOf(filepath.Join(state, dir))...)
	}
	return links
}

// linksOf returns the links in a directory.
func linksOf(dir string) (links []string) {
	for _, e := range listed(dir) {
		if e.Type()&fs.ModeSymlink != 0 {
			links = append(links, filepath.Join(dir, e.Name()))
		}
	}
	return links
}

// Worktrees returns the directory of the worktrees of all sessions. It is beside
// the data directory and not in it, because no agent may work in that.
func Worktrees(dataDir string) string { return dataDir + "-worktrees" }

func isHidden(name string) bool { return strings.HasPrefix(name, ".") }

// hidden returns the hidden directory of a home directory that dir is part of, or
// the directory that replaces one and that dir contains or is part of; "" if
// there is none. Programs of the user keep there what they run and obey, and
// nobody knows all of them. A worktree of a session is none of these.
func (b Box) hidden(g guard, dir string) string {
	for _, data := range b.Protected {
		if all := real(Worktrees(data)); dir != all && within(dir, all) {
			return ""
		}
	}
	for _, home := range g.homes {
		if rest, ok := strings.CutPrefix(dir, strings.TrimSuffix(home, "/")+"/"); ok && isHidden(rest) {
			name, _, _ := strings.Cut(rest, "/")
			return filepath.Join(home, name)
		}
	}
	for _, b := range g.bases {
		if within(dir, b.path) || within(b.path, dir) {
			return b.path
		}
	}
	return ""
}

// services returns the path of a socket, or of a directory of sockets, through
// which an agent with access to dir could use services outside of the sandbox;
// "" if none is known. Projects may have sockets of their own, so those in dir
// count only in a directory for temporary files.
func services(dir string) string {
	temporary := []string{"/tmp", "/var/tmp", os.TempDir()}
	for _, p := range slices.Concat(shared, temporary) {
		if p = real(p); within(p, dir) {
			return p
		}
	}
	var named []string
	for _, name := range []string{"XDG_RUNTIME_DIR", "GNUPGHOME"} {
		named = append(named, os.Getenv(name))
	}
	for _, name := range socketVariables {
		named = append(named, socketIn(os.Getenv(name)))
	}
	for _, p := range named {
		if !filepath.IsAbs(p) {
			continue
		}
		if p = real(p); within(p, dir) || within(dir, p) {
			return p
		}
	}
	if slices.ContainsFunc(temporary, func(p string) bool { return within(dir, real(p)) }) {
		return socketBelow(dir)
	}
	return ""
}

// maxListed bounds the entries of one directory that listed returns.
const maxListed = 2000

// listed returns the entries of a directory; none if it cannot be read.
func listed(dir string) []fs.DirEntry {
	entries, _ := entriesOf(dir, maxListed)
	return entries
}

// socketBelow returns a socket in a directory, not in those below it; "" if
// there is none.
func socketBelow(dir string) string {
	for _, e := range listed(dir) {
		if e.Type()&fs.ModeSocket != 0 {
			return filepath.Join(dir, e.Name())
		}
	}
	return ""
}

// directory returns the result of a function, or nothing if it fails.
func directory(of func() (string, error)) (dirs []string) {
	if dir, err := of(); err == nil && filepath.IsAbs(dir) {
		dirs = append(dirs, dir)
	}
	return dirs
}

// obeyedIn returns a path of obeyed that dir contains or is part of; "" if there
// is none. A home directory contains its projects, even if it is in the PATH.
func (g guard) obeyedIn(dir string, obeyed []string) string {
	for _, p := range obeyed {
		isHome := slices.ContainsFunc(g.homes, func(home string) bool { return within(home, p) })
		if within(p, dir) || within(dir, p) && !isHome {
			return p
		}
	}
	return ""
}
