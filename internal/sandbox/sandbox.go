// Package sandbox encloses an agent and every process that it starts: it makes
// the bubblewrap command that runs the agent's command with namespaces of its
// own, in which only the project, the agent's own state and the programs of the
// system exist. The first process in such a sandbox is package bridge, which
// connects it to the egress proxy.
//
// For a sandbox that limits files only, it makes the command of package confine,
// which allows access to the same paths by Landlock.
package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Box describes the sandbox of one agent. All paths are absolute.
type Box struct {
	Dir  string   // the project, writable
	Dirs []string // further directories of the session, writable

	// InPlace means that Dir and Dirs had no symbolic links when somebody chose
	// them. If one has a link now, another sandbox may have put it there.
	InPlace bool

	// State is what the agent stores: directories that are writable, and
	// created if they are missing.
	State []string

	// Files are single files of the agent that are writable, if they exist.
	Files []string

	// Copies are single files of the agent that it can change, if they exist,
	// without changing the original. The copies are in the directory Scratch,
	// which Command creates.
	Copies  []string
	Scratch string

	// Edit returns what the copy of a file with this content has; nil: there is
	// no copy. Default: the same content.
	Edit func(content []byte) []byte

	// Read are files and directories of the agent that are readable, if they
	// exist.
	Read []string

	// Private are directories that are empty and writable in the sandbox. What
	// is written there is dropped when the agent ends.
	Private []string

	// Allowed are the paths that a person lets the sandbox reach in addition.
	// Command and Confined check them again.
	Allowed []Allowance

	// Protected are paths that must not be in the sandbox, in addition to those
	// that hold secrets of the user on every machine.
	Protected []string

	// Withheld are further paths that Allowed does not reach, and in which no
	// directory of the session lies, such as the state of all agents. They may be
	// in the sandbox for another reason.
	Withheld []string

	Program string   // the agent's program
	Args    []string // its arguments
	Env     []string // its environment, "K=V"
	Start   string   // its working directory. Default: Dir

	// Own is a directory for the agent's private home directory and its
	// temporary files, which Confined creates. Command does not need it.
	Own      string
	TempVars []string // variables, besides TMPDIR and the like, that name the directory for temporary files

	// Socket and Ports are for Command.
	Socket string // directory with the proxy's socket, which is called SocketName
	Ports  []int  // loopback ports of the machine that the policy allows
}

// SocketName is the name of the proxy's socket in Box.Socket.
const SocketName = "proxy.sock"

// ImageFD is the descriptor from which bubblewrap reads the program of the
// bridge; see proc.Command.Boxed.
const ImageFD = 3

// An Error is why no sandbox can be made. Its text is for people.
type Error struct {
	Why string // what is wrong
	Fix string // what to do; "" if Why says it
}

func (e *Error) Error() string {
	if e.Fix == "" {
		return e.Why
	}
	return e.Why + ". " + e.Fix
}

// An ExposedError is why a directory cannot be in a sandbox: it contains a
// protected path, or is part of one.
type ExposedError struct {
	Dir, Protected string
	Obeyed         bool // Runnel runs or obeys it outside of the sandbox
}

func (e *ExposedError) Error() string {
	if e.Obeyed {
		return e.Dir + " contains or is part of " + e.Protected + ", where Runnel finds programs or settings for use outside of the sandbox, so no sandbox may write there; choose another directory"
	}
	return e.Dir + " contains or is part of " + e.Protected + ", which no sandbox may show to an agent; choose another directory"
}

var errNoHome = errors.New("sandbox: the user has no home directory")

// secrets are paths below the home directory that hold secrets of the user.
var secrets = []string{
	".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".config/gcloud", ".config/gh", ".config/hub", ".config/containers",
	".config/google-chrome", ".config/chromium", ".config/BraveSoftware", ".config/microsoft-edge", ".config/op", ".config/rclone", ".config/systemd",
	".mozilla", ".thunderbird", ".password-store", ".local/share/keyrings", ".local/share/kwalletd", ".netrc", ".git-credentials", ".pgpass", ".my.cnf",
	".npmrc", ".pypirc", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".vault-token", ".terraform.d", ".bash_history", ".zsh_history",
	".local/share/uv/credentials", ".npm-global/etc/npmrc",
}

// secretPatterns are further paths below the home directory that can hold secrets
// of the user: settings of npm for one installation of Node.js. An asterisk
// stands for one name.
var secretPatterns = []string{
	".nvm/versions/node/*/etc/npmrc", ".volta/tools/image/node/*/etc/npmrc", ".asdf/installs/nodejs/*/etc/npmrc",
	".local/share/mise/installs/node/*/etc/npmrc", ".local/share/fnm/node-versions/*/installation/etc/npmrc",
}

// systemPaths hold the system itself. No project lies there.
var systemPaths = []string{"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin", "/sys", "/usr", "/var/lib", "/var/run"}

// mountPoints are those of systemPaths in which other file systems are mounted,
// such as disks in /run/media, or the root directory of the machine in a
// container.
var mountPoints = []string{"/boot", "/dev", "/proc", "/run", "/sys", "/var/lib"}

// A guard knows the paths that must not be in a sandbox, all canonical.
type guard struct {
	homes []string // of the agent and of the user of this process. They may not be in a sandbox as a whole, but parts of them may
	bases []base   // see inHome
	paths []string // neither these paths nor parts of them may be in a sandbox

	withheld []string // neither these paths nor parts of them may be allowed. They are absolute, and may have links

	system []string // directories of the system. No project may be there, although a sandbox shows most of them
	agent  []string // folders of the agent. No project may be there: what the agent obeys outside of a sandbox would be writable

	table []mounted // see names
}

// names returns the paths under which a canonical path can be reached: the path
// itself and its aliases.
func (g guard) names(path string) []string { return append([]string{path}, aliases(g.table, path)...) }

func (b Box) guard() (guard, error) {
	var g guard
	home, err := os.UserHomeDir()
	if own := b.variable("HOME"); filepath.IsAbs(own) {
		g.homes = append(g.homes, real(own))
	}
	if err == nil && filepath.IsAbs(home) && !slices.Contains(g.homes, real(home)) {
		g.homes = append(g.homes, real(home))
	}
	if len(g.homes) == 0 {
		return g, errNoHome
	}
	for _, p := range systemPaths {
		g.system = append(g.system, real(p))
	}
	g.bases = b.bases(g.homes)
	for _, p := range secrets {
		for _, path := range g.inHome(p) {
			g.paths = append(g.paths, real(path))
		}
	}
	for _, p := range secretPatterns {
		for _, pattern := range g.inHome(p) {
			found, _ := filepath.Glob(pattern) // fails only for a malformed pattern, as in a home directory with brackets
			for _, path := range found {
				g.paths = append(g.paths, real(path))
			}
		}
	}
	for _, p := range b.Private {
		g.agent = append(g.agent, real(p))
	}
	for _, p := range b.Protected {
		g.paths = append(g.paths, real(p))
	}
	g.withheld = slices.Concat(b.Protected, b.Withheld)
	if g.table, err = mountTable(); err != nil {
		return g, &Error{Why: "the mounts of this system cannot be read: " + err.Error()}
	}
	return g, nil
}

// exposes returns a protected path that a directory of the session contains or
// is part of; "" if there is none.
func (g guard) exposes(dir string) string {
	for _, p := range g.system {
		if within(dir, p) {
			return p
		}
	}
	return g.exposesAs(dir)
}

// exposesAs returns what exposes does, for another path of the same directory.
// Such a path in one of mountPoints does not make the directory a part of the
// system.
func (g guard) exposesAs(alias string) string {
	for _, p := range g.system {
		if within(p, alias) || within(alias, p) && !slices.Contains(mountPoints, p) {
			return p
		}
	}
	for _, p := range g.agent {
		if within(alias, p) {
			return p
		}
	}
	return g.reveals(alias)
}

// reveals is exposes without the directories of the system.
func (g guard) reveals(dir string) string {
	for _, p := range g.homes {
		if within(p, dir) {
			return p
		}
	}
	for _, p := range g.paths {
		if within(p, dir) || within(dir, p) {
			return p
		}
	}
	return ""
}

// variable returns the value of a variable of the agent's environment.
func (b Box) variable(name string) string {
	for _, e := range slices.Backward(b.Env) {
		if value, ok := strings.CutPrefix(e, name+"="); ok {
			return value
		}
	}
	return ""
}

// real returns the path without symbolic links, as far as it exists.
func real(path string) string {
	path = filepath.Clean(path)
	if found, err := filepath.EvalSymlinks(path); err == nil {
		return found
	}
	dir, name := filepath.Split(path)
	if dir = filepath.Clean(dir); dir == path {
		return path
	}
	return filepath.Join(real(dir), name)
}
