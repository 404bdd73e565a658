package sandbox

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/runnel-dev/runnel/internal/proc"
)

// toolchains are directories below the home directory in which version managers
// and package managers install programs. They are readable in a sandbox. None
// of them holds credentials.
var toolchains = []string{
	".nvm", ".volta", ".asdf", ".pyenv", ".rbenv", ".sdkman", ".rustup", ".cargo/bin", ".cargo/registry", ".bun/bin", ".deno/bin", ".npm-global",
	".local/bin", ".local/lib", ".local/share/mise", ".local/share/fnm", ".local/share/pnpm", ".local/share/uv", "bin", "go/bin", "go/pkg", "sdk",
}

// installed are the names beside a directory bin that belong to an installation,
// such as those of Go, Java, Node.js, Conda and Homebrew. Others can be anything:
// bin may be on a disk that also has projects.
var installed = []string{
	"lib", "lib32", "lib64", "libexec", "sbin", "share", "include", "man", "doc", "etc", "ssl",
	"pkg", "VERSION", "go.env", "conf", "legal", "jmods", "release", "boot", "jre", "plugins", "modules",
	"condabin", "conda-meta", "pkgs", "envs", "Cellar", "Caskroom", "Homebrew", "opt", "Frameworks",
}

// ofGo are further names beside bin in an installation of Go, which has a file
// VERSION. Elsewhere, projects have such names: with GOPATH, those in src.
var ofGo = []string{"src", "api", "misc"}

// besideBin returns the names beside the directory up/bin that belong to its
// installation.
func besideBin(up string) []string {
	if info, err := os.Stat(filepath.Join(up, "VERSION")); err == nil && info.Mode().IsRegular() {
		return slices.Concat(installed, ofGo)
	}
	return installed
}

// programs adds what the agent's program and the programs in its PATH need.
func (m *mounts) programs(b Box, g guard) {
	for _, home := range g.homes {
		for _, dir := range toolchains {
			m.show(filepath.Join(home, dir))
		}
	}
	shown := func(dir string) bool { // neither everything nor what is protected
		dir = real(dir)
		return strings.Count(dir, "/") > 1 && g.reveals(dir) == ""
	}
	for _, dir := range b.path() {
		if up := filepath.Dir(dir); filepath.Base(dir) == "bin" && g.isForeign(up) && shown(up) {
			for _, name := range besideBin(up) {
				m.show(filepath.Join(up, name))
			}
		}
		if shown(dir) {
			m.show(dir)
		}
	}
	for _, program := range b.chain() {
		if dir := root(program); shown(dir) {
			m.show(dir)
		} else {
			m.show(program)
		}
	}
}

// isForeign reports whether a directory is outside of the home directories of
// all users.
func (g guard) isForeign(dir string) bool {
	return filepath.Dir(dir) != "/home" && !slices.ContainsFunc(g.homes, func(home string) bool { return within(dir, home) })
}

// path returns the directories in the agent's PATH.
func (b Box) path() []string {
	return slices.DeleteFunc(filepath.SplitList(b.variable("PATH")), func(dir string) bool { return !filepath.IsAbs(dir) })
}

// chain returns the files through which the agent's program is found: the
// program, the links to it and its interpreter.
func (b Box) chain() (out []string) {
	add := func(path string) {
		for range maxLinks {
			if slices.Contains(out, path) {
				return
			}
			out = append(out, path)
			to, err := os.Readlink(path)
			if err != nil {
				break
			}
			if !filepath.IsAbs(to) {
				to = filepath.Join(filepath.Dir(path), to)
			}
			path = to
		}
		out = append(out, real(path))
	}
	add(b.Program)
	for _, word := range interpreter(b.Program) {
		switch {
		case filepath.IsAbs(word):
			add(word)
		case !strings.HasPrefix(word, "-") && word == filepath.Base(word):
			if found, err := proc.LookPath(word, strings.Join(b.path(), string(filepath.ListSeparator))); err == nil {
				add(found)
			}
		}
	}
	if len(b.Args) > 0 && filepath.IsAbs(b.Args[0]) { // such as the script of an interpreter
		if info, err := os.Stat(b.Args[0]); err == nil && info.Mode().IsRegular() {
			add(b.Args[0])
		}
	}
	return out
}

// maxLinks bounds a chain of links.
const maxLinks = 20

// interpreter returns the words of the first line of a script.
func interpreter(program string) []string {
	f, err := os.OpenFile(program, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	head, _ := io.ReadAll(io.LimitReader(f, 1<<10))
	line, _, _ := bytes.Cut(head, []byte("\n"))
	line, script := bytes.CutPrefix(line, []byte("#!"))
	if !script {
		return nil
	}
	return strings.Fields(string(line))
}

// root returns the directory in which a program is installed with everything
// that it loads: the outermost node_modules, or the program's own directory.
func root(program string) string {
	if before, _, ok := strings.Cut(program, "/node_modules/"); ok {
		return before + "/node_modules"
	}
	return filepath.Dir(program)
}
