package sandbox

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/runnel-dev/runnel/internal/nofollow"
)

// An Allowance is a path outside of the session's directories that a person
// lets a sandbox reach.
type Allowance struct {
	Path  string // canonical: absolute, without links
	Write bool   // it is writable, too
}

// withheld are paths below a home directory, besides secrets, that no allowance
// and no directory of a session contains or is part of: the state of programs
// that Runnel does not start, and of Runnel, sockets and images of container
// daemons, profiles of browsers and mail programs, what a desktop starts, and
// histories. The state of Runnel's agents is in Box.Withheld.
var withheld = []string{
	".agents", ".config/agents", ".cursor", ".aider", ".continue", ".kimi", ".grok", ".amp", ".goose", ".codeium", ".config/goose", ".config/amp", ".local/share/amp",
	".config/runnel", ".local/share/runnel", ".local/state/runnel", ".cache/runnel",
	".colima", ".lima", ".rd", ".orbstack", ".minikube", ".local/share/containers", ".local/share/docker", ".config/docker",
	".config/vivaldi", ".config/opera", ".config/google-chrome-beta", ".config/google-chrome-unstable", ".config/net.imput.helium", ".zen", ".librewolf", ".waterfox",
	".cache/mozilla", ".cache/google-chrome", ".cache/chromium", ".var/app", "snap", "Library",
	".config/1Password", ".config/Bitwarden", ".config/keepassxc", ".config/sops", ".config/age", ".config/git/credentials", ".config/doctl", ".config/heroku",
	".config/Signal", ".config/Slack", ".config/discord", ".config/Code", ".config/VSCodium", ".config/Cursor", ".vscode", ".vscode-insiders", ".vscode-oss", ".vscode-server", ".cursor-server", ".windsurf", ".config/zed", ".local/share/zed", ".config/JetBrains", ".local/share/JetBrains",
	".pki", ".gnome2", ".kde", ".dbus", ".Xauthority", ".ICEauthority", ".oci", ".fly", ".boto", ".s3cfg", ".ansible", ".chef", ".passage", ".keychain",
	".config/autostart", ".config/environment.d", ".config/plasma-workspace", ".local/share/applications", ".local/share/dbus-1", ".local/share/systemd",
	".python_history", ".node_repl_history", ".psql_history", ".mysql_history", ".sqlite_history", ".histfile", ".history", ".local/share/fish",
}

// stateVariables name directories with secrets or sockets, if these are
// elsewhere.
var stateVariables = []string{"XDG_RUNTIME_DIR", "GNUPGHOME", "DOCKER_CONFIG", "KUBECONFIG"}

// socketVariables name sockets, some as URLs.
var socketVariables = []string{"SSH_AUTH_SOCK", "DOCKER_HOST", "CONTAINER_HOST", "DBUS_SESSION_BUS_ADDRESS", "TMUX"}

// shared are directories that contain sockets and directories of several users,
// so no allowance is the whole of one.
var shared = []string{"/tmp", "/var/tmp", "/home", "/Users"}

// programDirs are directories of programs of the system, in addition to
// systemPaths, in which no sandbox may write.
var programDirs = []string{"/opt", "/nix", "/srv/http", "/var/spool", "/snap"}

// Refuse returns an error for people if no sandbox may reach a canonical path,
// whether it exists or not. protected are further protected paths. It reads the
// names of the path, and no files below it.
func (a Allowance) Refuse(protected []string) error {
	g, err := Box{Protected: protected}.guard()
	if err != nil {
		return &Error{Why: err.Error()}
	}
	return g.refuse(a)
}

// refuse is [Allowance.Refuse] for a guard.
func (g guard) refuse(a Allowance) error {
	g = g.widened()
	if p := g.otherwise(a.Path, nil); p != "" {
		return exposed(a.Path, p)
	}
	return g.check(a)
}

// widened returns the guard for allowances. It knows more protected paths than
// that of a session's directory, because the output of an agent can be the
// reason for an allowance.
func (g guard) widened() guard {
	g.paths = slices.Clone(g.paths)
	for _, p := range g.withheld {
		g.paths = append(g.paths, real(p))
	}
	for _, p := range slices.Concat(withheld, g.inHomes()) {
		for _, path := range g.inHome(p) {
			g.paths = append(g.paths, real(path))
		}
	}
	for _, name := range stateVariables {
		if dir := os.Getenv(name); filepath.IsAbs(dir) {
			g.paths = append(g.paths, real(dir))
		}
	}
	for _, name := range socketVariables {
		if path := socketIn(os.Getenv(name)); path != "" {
			g.paths = append(g.paths, real(path))
		}
	}
	return g
}

// inHomes returns the withheld paths that lie in a home directory, relative to
// that directory. Other users have the same programs.
func (g guard) inHomes() (names []string) {
	for _, p := range g.withheld {
		p = filepath.Join(real(filepath.Dir(p)), filepath.Base(p))
		for _, home := range g.homes {
			if rel, err := filepath.Rel(home, p); err == nil && rel != "." && filepath.IsLocal(rel) {
				names = append(names, rel)
			}
		}
	}
	return names
}

// check fails if a widened guard refuses an allowance.
func (g guard) check(a Allowance) error {
	if p := g.exposes(a.Path); p != "" {
		return exposed(a.Path, p)
	}
	for _, name := range g.names(a.Path) {
		if err := g.checkName(Allowance{name, a.Write}); err != nil {
			return err
		}
	}
	return nil
}

// checkName is check for one name of a path.
func (g guard) checkName(a Allowance) error {
	if other := homeOf(a.Path); other != "" && !slices.Contains(g.homes, other) {
		others := g.inHomes()
		g.homes, g.paths = append(slices.Clone(g.homes), other), slices.Clone(g.paths)
		for _, p := range slices.Concat(secrets, withheld, others) {
			g.paths = append(g.paths, filepath.Join(other, p))
		}
	}
	if p := g.exposesAs(a.Path); p != "" {
		return exposed(a.Path, p)
	}
	for _, p := range shared {
		if within(real(p), a.Path) {
			return &Error{Why: a.Path + " contains sockets and files of other programs", Fix: "Choose a path below it."}
		}
	}
	if a.Write {
		return g.refuseWrite(a.Path)
	}
	return nil
}

func exposed(path, protected string) error {
	return &Error{Why: path + " contains or is part of " + protected + ", which no sandbox may show to an agent", Fix: "Choose another path."}
}

// homeOf returns the home directory, of whatever user, in which a path lies; ""
// if it lies in none.
func homeOf(path string) string {
	if within(path, "/root") {
		return "/root"
	}
	for _, root := range []string{"/home/", "/Users/"} {
		if name, ok := strings.CutPrefix(path, root); ok && name != "" {
			name, _, _ = strings.Cut(name, "/")
			return root + name
		}
	}
	return ""
}

// socketIn returns the path of the socket that the value of a variable names.
func socketIn(value string) string {
	if _, path, isURL := strings.Cut(value, "unix:"); isURL {
		value = path
	}
	value = strings.TrimPrefix(strings.TrimPrefix(value, "path="), "//")
	value, _, _ = strings.Cut(value, ",")
	if !filepath.IsAbs(value) {
		return ""
	}
	return filepath.Clean(value)
}

// refuseWrite returns an error if a program outside of the sandbox would run or
// obey what a sandbox writes to the path.
func (g guard) refuseWrite(path string) error {
	refused := func(p string) error {
		return &Error{Why: path + " contains or is part of " + p + ", which programs outside of the sandbox run or obey, so no sandbox may write there", Fix: "Allow reading only, or choose another path."}
	}
	dirs := slices.Clone(programDirs)
	for _, home := range g.homes {
		for _, p := range toolchains {
			dirs = append(dirs, filepath.Join(home, p))
		}
		if rel, err := filepath.Rel(home, path); err == nil && filepath.IsLocal(rel) && strings.HasPrefix(rel, ".") {
			name, _, _ := strings.Cut(rel, "/")
			return refused(filepath.Join(home, name))
		}
	}
	for _, b := range g.bases {
		dirs = append(dirs, b.path)
	}
	for _, dir := range dirs {
		if dir = real(dir); within(path, dir) || within(dir, path) {
			return refused(dir)
		}
	}
	if p := g.obeyedIn(path, placesOf(g.elsewhere(nil))); p != "" {
		return refused(p)
	}
	for dir := path; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if filepath.Base(dir) == ".git" || isBareRepository(dir) {
			return refused(dir)
		}
	}
	return nil
}

// isBareRepository reports whether a directory is a git directory by what is in
// it.
func isBareRepository(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, "objects"))
	return err == nil && isGitDir(dir) || wasKept(dir)
}

// maxScanned bounds the entries of a directory that Check examines.
const maxScanned = 20_000

// Check returns the allowance for a path that a person names, with its links
// resolved. It fails with an *Error for people if no sandbox may reach the path,
// or if it does not exist.
func (a Allowance) Check(protected []string) (Allowance, error) {
	if runtime.GOOS != "linux" {
		return a, &Error{Why: "sandboxes need Linux; this system is " + runtime.GOOS}
	}
	if !filepath.IsAbs(a.Path) {
		return a, &Error{Why: a.Path + " is not an absolute path"}
	}
	a.Path = filepath.Clean(a.Path)
	if err := (Allowance{real(a.Path), a.Write}).Refuse(protected); err != nil {
		return a, err
	}
	found, err := filepath.EvalSymlinks(a.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return a, &Error{Why: a.Path + " does not exist", Fix: "Create it, or choose another path."}
	case err != nil:
		return a, &Error{Why: a.Path + " cannot be examined: " + err.Error()}
	}
	a.Path = found
	if err := a.Refuse(protected); err != nil { // the links may have changed since
		return a, err
	}
	return a, a.examine()
}

// examine fails if the path, or for a directory something in it, is of a kind
// that no sandbox may reach.
func (a Allowance) examine() error {
	info, err := os.Lstat(a.Path)
	switch {
	case err != nil:
		return &Error{Why: a.Path + " cannot be examined: " + err.Error()}
	case info.IsDir():
		return a.scan()
	case !info.Mode().IsRegular():
		return &Error{Why: a.Path + " is neither a file nor a directory, such as a socket or a device", Fix: "Choose another path."}
	}
	if nofollow.Links(nil, info) > 1 {
		return &Error{Why: a.Path + " has a further name (a hard link), which may be that of a protected file", Fix: "Copy the file, or allow its directory."}
	}
	return nil
}

// scan searches a directory for what Check refuses: sockets of services, and
// repositories if it is writable. It examines at most maxScanned entries, as a
// protection from mistakes.
func (a Allowance) scan() error {
	seen, open := 0, []string{a.Path}
	for len(open) > 0 && seen < maxScanned {
		dir := open[len(open)-1]
		open = open[:len(open)-1]
		list, err := entriesOf(dir, maxScanned-seen)
		if err != nil && dir == a.Path {
			return &Error{Why: a.Path + " cannot be read: " + err.Error()}
		}
		for _, e := range list {
			seen++
			path := filepath.Join(dir, e.Name())
			switch {
			case e.Type()&fs.ModeSocket != 0:
				return &Error{Why: a.Path + " contains the socket " + path + ", through which a program in the sandbox could reach a service", Fix: "Choose a path without it."}
			case a.Write && e.Name() == ".git" && dir != a.Path:
				return &Error{Why: a.Path + " contains the repository " + dir + ", whose settings and hooks a sandbox must not write", Fix: "Allow the repository itself, or reading only."}
			case e.IsDir():
				open = append(open, path)
			}
		}
	}
	return nil
}

// entriesOf returns at most n entries of a directory.
func entriesOf(dir string, n int) ([]fs.DirEntry, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe may have replaced it
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list, err := f.ReadDir(n)
	if errors.Is(err, io.EOF) { // it is empty
		err = nil
	}
	return list, err
}

// recheck fails if the path no longer is what a person has allowed.
func (a Allowance) recheck(protected []string, g guard) error {
	now, err := a.Check(protected)
	if err == nil {
		err = g.refuse(a)
	}
	if err == nil && now.Path != a.Path {
		err = &Error{Why: a.Path + " leads to " + now.Path + " now"}
	}
	if err == nil {
		return nil
	}
	why := err.Error()
	if e, ok := errors.AsType[*Error](err); ok {
		why = e.Why
	}
	return &Error{Why: "a rule lets the sandbox reach " + a.Path + ", but " + why, Fix: "Remove the rule, or restore the path."}
}

// allow adds the allowed paths to the mounts.
func (m *mounts) allow(b Box, g guard, git gitRule) error {
	for _, a := range b.Allowed {
		if err := a.recheck(slices.Concat(b.Protected, b.Withheld), g); err != nil {
			return err
		}
		for _, own := range slices.Concat(g.agent, b.State, b.Files, b.Copies, b.Read) {
			if own = real(own); within(a.Path, own) || within(own, a.Path) {
				return &Error{Why: "a rule lets the sandbox reach " + a.Path + ", but that contains or is part of " + own + ", which belongs to the agent", Fix: "Remove the rule."}
			}
		}
		in := m.over(a.Path)
		if in.source == in.path && (in.kind == writable || in.kind == readable && !a.Write) {
			continue // the sandbox has it
		}
		if !a.Write {
			m.pin(readable, a.Path)
			continue
		}
		m.pin(writable, a.Path)
		if err := m.allowRepository(a.Path, git); err != nil {
			return err
		}
	}
	return nil
}

// allowRepository is [mounts.repository] for an allowed directory. The git
// directory of a linked worktree, which is elsewhere, is not allowed with it.
func (m *mounts) allowRepository(dir string, rule gitRule) error {
	path := filepath.Join(dir, ".git")
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return noRepository(dir, err)
	case rule == openGit:
		return &Error{Why: "sandbox: files cannot make the settings of the repository in " + dir + " read-only, which a rule lets the sandbox write", Fix: "Use sandbox: project, or remove the rule."}
	case info.IsDir():
		m.pin(writable, path)
		return m.gitDir(path, rule)
	case info.Mode().IsRegular():
		m.pin(readable, path)
		return m.separate(path, rule)
	}
	return &Error{Why: path + " is a link, so a sandbox cannot make the settings of the repository read-only", Fix: "Replace the link by what it names, or remove the rule that lets the sandbox write there."}
}
