package changes

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/runnel-dev/runnel/internal/confine"
	"github.com/runnel-dev/runnel/internal/proc"
	"github.com/runnel-dev/runnel/internal/subpath"
)

// A confinement is what git may access in a closed folder. Git follows links
// that replace a folder or a part of the repository while it works: it would
// show, or write, files elsewhere. The kernel refuses that.
type confinement []confine.Rule

// canConfine reports whether the kernel can restrict git to a closed folder.
func (g *Git) canConfine() bool { return !g.unconfined && confine.Version() > 0 }

// confine returns what git may access for a command, or nil if it is not
// restricted.
func (g *Git) confine(r *repository, p *private, c command) confinement {
	if !r.folder.Closed || !g.canConfine() {
		return nil
	}
	var to confinement
	write := confine.Write
	if c.reads {
		write = confine.Read
	}
	to.real(confine.Write, p.dir, "/dev/null", "/dev/zero")
	to.add(write, r.common, r.dir)
	if c.signs {
		to.signing(g.environ(r.folder))
		return to
	}
	to.add(write, r.folder.Dir)
	for dir := r.folder.Dir; dir != r.root && subpath.Within(dir, r.root); { // git applies those of the folders above
		dir = filepath.Dir(dir)
		to.add(confine.Read, filepath.Join(dir, ".gitignore"), filepath.Join(dir, ".gitattributes"))
	}
	to.system()
	to.programs(r, g.environ(r.folder))
	to.user(g.environ(r.folder), p.settings)
	return to
}

func (to *confinement) add(a confine.Access, paths ...string) {
	for _, path := range paths {
		*to = append(*to, confine.Rule{Access: a, Path: path})
	}
}

// real adds the targets of paths that only the user and the system can change.
func (to *confinement) real(a confine.Access, paths ...string) {
	for _, path := range paths {
		to.add(a, canonical(path))
	}
}

// system adds the files of the system that programs need.
func (to *confinement) system() {
	to.real(confine.Read, "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix", "/gnu", "/run/current-system",
		"/dev/random", "/dev/urandom", "/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload",
		"/etc/ld-musl-x86_64.path", "/etc/ld-musl-aarch64.path", "/etc/gitconfig", "/etc/gitattributes", "/etc/locale.alias", "/etc/localtime",
		"/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/static")
}

// programs adds git and the folders of programs in the PATH of env, because the
// user's configuration may name filters. A folder that contains the user's home
// directory is no folder of programs.
func (to *confinement) programs(r *repository, env []string) {
	home := canonical(variable(env, "HOME"))
	dirs := filepath.SplitList(variable(env, "PATH"))
	for _, git := range []string{r.git, canonical(r.git)} {
		bin := filepath.Dir(git)
		dirs = append(dirs, bin)
		if prefix := filepath.Dir(bin); prefix != filepath.Join(home, ".local") {
			dirs = append(dirs, prefix) // has the libraries of a git that does not belong to the system
		}
	}
	for _, dir := range dirs {
		if dir = canonical(dir); filepath.IsAbs(dir) && !subpath.Within(home, dir) {
			to.add(confine.Read, dir)
		}
	}
}

// user adds the user's own configuration of git, and the files that it names.
func (to *confinement) user(env []string, settings []setting) {
	home := variable(env, "HOME")
	config := variable(env, "XDG_CONFIG_HOME")
	if config == "" {
		config = filepath.Join(home, ".config")
	}
	to.real(confine.Read, filepath.Join(home, ".gitconfig"), filepath.Join(config, "git"))
	for _, s := range settings {
		if s.own {
			continue
		}
		if filepath.IsAbs(s.file) {
			to.real(confine.Read, s.file)
		}
		if s.key == "core.excludesfile" || s.key == "core.attributesfile" {
			to.real(confine.Read, expand(s.value, home))
		}
	}
}

// signing adds what a program that signs a commit needs. A commit shows no
// files, so it may read all of them.
func (to *confinement) signing(env []string) {
	to.add(confine.Read, "/")
	keys := variable(env, "GNUPGHOME")
	if keys == "" {
		keys = filepath.Join(variable(env, "HOME"), ".gnupg")
	}
	to.real(confine.Write, keys, "/dev", os.TempDir())
	if dir := variable(env, "XDG_RUNTIME_DIR"); dir != "" {
		to.real(confine.Write, filepath.Join(dir, "gnupg"))
	}
}

// variable returns the value of a variable in env.
func variable(env []string, name string) (value string) {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}

// expand returns a path from a configuration, which may begin with "~/".
func expand(path, home string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return filepath.Join(home, rest)
	}
	return path
}

// start starts git. It may access only what c.to allows, if that is not nil.
func start(ctx context.Context, c command, cmd proc.Command) (p *proc.Process, err error) {
	if c.to == nil {
		return proc.Start(ctx, cmd)
	}
	if err := confine.Start(c.to, func() { p, err = proc.Start(ctx, cmd) }); err != nil {
		return nil, err
	}
	return p, err
}
