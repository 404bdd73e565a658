package sandbox

import (
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
)

// baseVariables name the directories that replace hidden directories of a home
// directory (the XDG base directories).
var baseVariables = map[string]string{
	".config": "XDG_CONFIG_HOME", ".cache": "XDG_CACHE_HOME", ".local/share": "XDG_DATA_HOME", ".local/state": "XDG_STATE_HOME",
}

// shellVariables name further directories and files that shells and git obey.
var shellVariables = []string{"ZDOTDIR", "BASH_ENV", "GIT_CONFIG_GLOBAL"}

// A base is a directory that replaces a directory of a home directory.
type base struct{ usual, path string }

// bases returns the directories that the variables of this process and of the
// agent name. Values that are or contain a home directory do not count.
func (b Box) bases(homes []string) (out []base) {
	for usual, name := range baseVariables {
		for _, dir := range []string{os.Getenv(name), b.variable(name)} {
			if !filepath.IsAbs(dir) {
				continue
			}
			found := base{usual, real(dir)}
			isAround := func(home string) bool { return within(home, found.path) }
			if !slices.Contains(out, found) && !slices.ContainsFunc(homes, isAround) {
				out = append(out, found)
			}
		}
	}
	return out
}

// inHome returns the places of a path of a home directory, such as .config/gh.
func (g guard) inHome(path string) (places []string) {
	for _, home := range g.homes {
		places = append(places, filepath.Join(home, path))
	}
	for _, b := range g.bases {
		if within(path, b.usual) {
			places = append(places, filepath.Join(b.path, strings.TrimPrefix(path, b.usual)))
		}
	}
	return places
}

// elsewhere returns what is run or obeyed outside of a sandbox although it is in
// no hidden directory of a home directory: where links in home directories lead,
// what variables name, the directories of the PATH, and those of path, which are
// in the agent's PATH, with what is installed there.
func (g guard) elsewhere(path []string) (paths []string) {
	for _, dir := range g.inHome(".config") {
		paths = append(paths, linksOf(dir)...)
	}
	for _, home := range g.homes {
		for _, link := range linksOf(home) { // such as .bashrc, which leads into a repository with dotfiles
			if isHidden(filepath.Base(link)) {
				paths = append(paths, link)
			}
		}
	}
	for _, name := range shellVariables {
		paths = append(paths, os.Getenv(name))
	}
	path = append(filepath.SplitList(os.Getenv("PATH")), path...)
	paths = append(paths, path...)
	paths = append(paths, g.tools(path)...)
	return slices.DeleteFunc(paths, func(path string) bool { return !filepath.IsAbs(path) })
}

// withHomeOf returns g with the home directories that are not in the environment:
// that of the account of this process, where ssh finds its keys, and that of
// another user in which path lies.
func (g guard) withHomeOf(path string) guard {
	homes := []string{homeOf(path)}
	if account, err := user.Current(); err == nil {
		homes = append(homes, account.HomeDir)
	}
	for _, home := range homes {
		if home = real(home); !within(path, home) || home == filepath.Dir(home) || slices.Contains(g.homes, home) {
			continue
		}
		g.homes, g.paths = append(slices.Clone(g.homes), home), slices.Clone(g.paths)
		for _, p := range secrets {
			g.paths = append(g.paths, real(filepath.Join(home, p)))
		}
	}
	return g
}

// tools are programs that Runnel, and agents outside of a sandbox, run by name.
var tools = []string{"bwrap", "git", "sh", "bash", "zsh", "env", "node", "bun", "deno", "python3", "rg"}

// tools returns the programs of tools in the directories of a PATH, and what is
// installed with them and in these directories. The directories of a package
// manager have links to such programs.
func (g guard) tools(path []string) (paths []string) {
	for _, dir := range path {
		if !filepath.IsAbs(dir) {
			continue
		}
		if g.isForeign(dir) {
			paths = append(paths, g.installation(dir)...)
		}
		for _, name := range tools {
			program := filepath.Join(dir, name)
			if _, err := os.Stat(program); err == nil {
				paths = append(append(paths, program), g.installation(filepath.Dir(real(program)))...)
			}
		}
	}
	return paths
}

// installation returns what programs in a directory bin have beside it, such as
// libraries and further programs.
func (g guard) installation(bin string) (paths []string) {
	up := filepath.Dir(bin)
	if filepath.Base(bin) != "bin" || up == filepath.Dir(up) || slices.Contains(g.homes, real(up)) {
		return nil
	}
	for _, name := range besideBin(up) {
		paths = append(paths, filepath.Join(up, name))
	}
	return paths
}
