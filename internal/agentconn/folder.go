package agentconn

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/gitconfig"
	"github.com/runnel-dev/runnel/internal/private"
	"github.com/runnel-dev/runnel/internal/proc"
	"github.com/runnel-dev/runnel/internal/text"
)

// Starting an agent in an untrusted folder must not run anything from that
// folder. This file contains the checks for all agents: how the program is
// found and started, and which programs git would run. Each provider prevents
// its own agent from using the folder's settings.

// prepareUntrusted prepares a command for an untrusted folder. It fails if the
// folder could determine which program runs.
func (c *Command) prepareUntrusted(ctx context.Context, opt runnel.Options, agent Agent) error {
	dirs, err := folders(opt)
	if err != nil {
		return err
	}
	if opt.Trusted { // some further directories are untrusted
		c.Env = proc.FilterPath(c.Env, proc.Outside(dirs))
		return c.checkGit(ctx, opt, dirs, agent)
	}
	c.Env = proc.FilterPath(c.Env, proc.Outside(dirs))
	if len(dirs) > 1 || dirs[0] != EmptyDir() { // in the empty directory, the agent only reports about itself
		if err := c.checkLaunch(ctx, opt, dirs, agent); err != nil {
			return err
		}
	}
	c.Env = gitconfig.Pin(ctx, c.Env)
	if c.Elsewhere {
		if err := checkDir(dirs[0]); err != nil {
			return err
		}
		c.dir = EmptyDir()
	}
	return nil
}

// checkLaunch fails if one of the folders could determine which program runs.
func (c *Command) checkLaunch(ctx context.Context, opt runnel.Options, dirs []string, agent Agent) error {
	args := wrapped(c.Path, c.Args)
	if name := launcher(c.Path, args, !c.Elsewhere); name != "" {
		return Untrusted(opt, dirs[0], agent.Name+" is configured to be started by "+name+", which runs programs of the folder that it works for. "+
			"Install the agent, such as with npm install -g, and configure the whole path of its own program.")
	}
	if arg := fromFolder(args, dirs[0]); arg != "" && !c.Elsewhere {
		return Untrusted(opt, dirs[0], agent.Name+" is configured to be started with "+text.OneLine(arg, 300)+", which is a file of the folder that it works for. Write its whole path.")
	}
	if !c.Elsewhere {
		if file := shimRuns(c.Path, args, c.Env, dirs[0]); file != "" {
			return startedByShim(opt, dirs[0], agent.Name, file)
		}
	}
	if err := c.checkProgramVariable(opt, dirs[0], agent); err != nil {
		return err
	}
	if err := c.checkWorktrees(opt, dirs[0], agent); err != nil {
		return err
	}
	return c.checkGit(ctx, opt, dirs, agent)
}

// checkProgramVariable fails if the folder could determine which program runs when
// the agent starts the one that the variable c.ProgramVariable names.
func (c *Command) checkProgramVariable(opt runnel.Options, dir string, agent Agent) error {
	program := ""
	for _, e := range c.Env {
		if name, value, _ := strings.Cut(e, "="); c.ProgramVariable != "" && name == c.ProgramVariable {
			program = value
		}
	}
	if program == "" {
		return nil
	}
	what := c.ProgramVariable + " of " + agent.Name
	if relativeProgram(program) {
		return Untrusted(opt, dir, what+" is the relative path "+text.OneLine(program, 300)+": the folder could choose the program. Write its whole path.")
	}
	if name := launcher(program, nil, true); name != "" {
		return Untrusted(opt, dir, what+" is "+name+", which runs programs of the folder that it works for. Write the path of the program itself.")
	}
	words := []string{program}
	if slices.Contains([]string{".js", ".mjs", ".ts", ".tsx", ".jsx"}, filepath.Ext(program)) {
		words = append(words, "node") // the agent runs such a file with node
	}
	for _, name := range words {
		if file := shimRuns(name, nil, c.Env, dir); file != "" {
			return startedByShim(opt, dir, what, file)
		}
	}
	return nil
}

// checkWorktrees fails if a link in the repository around dir makes the agent create
// its worktrees outside of the repository. The repository's files would then be in a
// folder of the user, such as ~/.claude/agents, whose files can run programs. An agent
// in a sandbox is not checked, because it cannot write there.
func (c *Command) checkWorktrees(opt runnel.Options, dir string, agent Agent) error {
	if c.Worktrees == "" || opt.Sandbox.IsOn() {
		return nil
	}
	for root := range outsideHome(dir) {
		if _, err := os.Lstat(filepath.Join(root, ".git")); missing(err) {
			continue
		}
		for path := filepath.Join(root, c.Worktrees); path != root; path = filepath.Dir(path) {
			if _, err := os.Lstat(path); missing(err) {
				continue
			}
			real, err := filepath.EvalSymlinks(path)
			if err != nil {
				return Untrusted(opt, dir, text.OneLine(path, 500)+", where "+agent.Name+" makes worktrees, leads to no folder that can be read. Remove it.", err)
			}
			in, err := filepath.Rel(root, real)
			inGit := strings.HasPrefix(in+string(filepath.Separator), ".git"+string(filepath.Separator)) // whose files git obeys
			if err != nil || !filepath.IsLocal(in) || inGit {
				return Untrusted(opt, dir, text.OneLine(path, 500)+" leads the worktrees of "+agent.Name+" to "+text.OneLine(real, 500)+". Remove the link.")
			}
		}
	}
	return nil
}

// startedByShim returns the error for a program that a shim starts. file may make the
// shim start another program.
func startedByShim(opt runnel.Options, dir, what, file string) error {
	return Untrusted(opt, dir, what+" is started by a shim of a version manager, and "+text.OneLine(file, 300)+" may make it run a program at a path. "+
		"Configure the agent's own program and its interpreter by their whole paths, or check this file.")
}

// checkGit fails if git would run programs in one of the folders. If the agent
// works in a trusted folder, no git settings are pinned, because the pins would
// stop the hooks of that folder.
func (c *Command) checkGit(ctx context.Context, opt runnel.Options, dirs []string, agent Agent) error {
	find := gitconfig.Find
	if opt.Trusted {
		find = gitconfig.FindUnpinned
	}
	shim := isShim(inPath("git", c.Env))
	for _, dir := range dirs {
		if file := versionByPath(dir); shim && file != "" {
			return Untrusted(opt, dir, "Agents run git without asking. Here git is a shim of a version manager, and "+text.OneLine(file, 300)+" may make it run a program at a path. "+
				"Check this file.")
		}
		found, err := find(ctx, c.Env, dir)
		if ctx.Err() != nil {
			return startFault(ctx, agent, err)
		}
		if err != nil {
			return Untrusted(opt, dir, "Runnel cannot determine what git would run in "+text.OneLine(dir, 300)+": "+err.Error()+".", err)
		}
		if len(found) > 0 {
			return Untrusted(opt, dir, "The git configuration, a hook or an unfinished operation of "+text.OneLine(dir, 300)+" makes git run programs or change files elsewhere, and agents run git without asking: "+
				gitconfig.Describe(found, dir)+". Look at each, and remove it or trust the folder.")
		}
	}
	return nil
}

// GitPins returns the variables by which [Start] pins git settings in the
// environment env for an untrusted folder. It serves agents that may remove
// variables from the environment of their commands.
func GitPins(ctx context.Context, env []string, opt runnel.Options) map[string]string {
	pins := map[string]string{}
	dirs, err := folders(opt)
	if err != nil {
		return pins // Start reports the error
	}
	for _, e := range gitconfig.Pin(ctx, proc.FilterPath(env, proc.Outside(dirs))) {
		if name, value, _ := strings.Cut(e, "="); strings.HasPrefix(name, "GIT_CONFIG_") {
			pins[name] = value
		}
	}
	return pins
}

// Untrusted returns the error for an operation that is rejected in the
// untrusted folder dir. The error ends with the ways to trust the folder.
func Untrusted(opt runnel.Options, dir, why string, cause ...error) error {
	if dirs, err := folders(runnel.Options{Dir: dir}); err == nil {
		dir = dirs[0]
	}
	ways := "runnel run --trust (for one prompt), "
	if own, err := folders(opt); err != nil || opt.Trusted || own[0] != dir {
		ways = "" // --trust applies only to the folder in which the agent works
	}
	return runnel.Fail(runnel.SessionCreateFailed, why+" To trust the folder: "+ways+"runnel serve --trusted-folders "+
		text.OneLine(shellWord(listItem(dir)), 500)+" (for a server), or trusted-folders in the configuration.", cause...)
}

// listItem quotes an item of a comma-separated list. Without quotes, the part
// of a path after a comma would be trusted as another folder.
func listItem(s string) string {
	if strings.ContainsAny(s, `,"`) {
		return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
	}
	return s
}

// shellWord quotes a word for a shell if necessary.
func shellWord(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !strings.ContainsRune("/._-+@%,:=", r) && !isAlphanumeric(r) }) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

func isAlphanumeric(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

// fromFolder returns the first argument that names a file in the folder by a
// relative path, such as an interpreter's script. It returns "" if there is
// none.
func fromFolder(args []string, dir string) string {
	for _, a := range args {
		if a == "" || strings.HasPrefix(a, "-") || filepath.IsAbs(a) {
			continue
		}
		if _, err := os.Lstat(filepath.Join(dir, a)); err == nil {
			return a
		}
	}
	return ""
}

// relativeProgram reports whether a program's path depends on the current
// directory.
func relativeProgram(program string) bool {
	return !filepath.IsAbs(program) && strings.ContainsAny(program, `/\`)
}

// folders returns the real paths of an agent's untrusted folders. If the folder
// in which the agent works is untrusted, it is the first.
func folders(opt runnel.Options) ([]string, error) {
	if opt.Trusted {
		return realPaths(slices.Clone(opt.UntrustedDirs)), nil
	}
	dir := opt.Dir
	if dir == "" {
		var err error
		if dir, err = os.Getwd(); err != nil {
			return nil, runnel.Fail(runnel.WorkingRootInaccessible, "the current directory is not accessible", err)
		}
	}
	return realPaths(append([]string{dir}, opt.AddDirs...)), nil
}

func realPaths(dirs []string) []string {
	for i, d := range dirs {
		if real, err := filepath.EvalSymlinks(d); err == nil {
			dirs[i] = real
		}
	}
	return dirs
}

// checkDir fails if dir is not an accessible directory.
func checkDir(dir string) error {
	d, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may have become a pipe
	if err == nil {
		var st os.FileInfo
		st, err = d.Stat()
		d.Close()
		if err == nil && st.IsDir() {
			return nil
		}
	}
	return badDir(err)
}

// maxEmpty bounds the directories that EmptyDir tries.
const maxEmpty = 100

// EmptyDir returns an empty directory, in which a program finds no settings. It
// returns the same directory each time if possible, because Gemini CLI 0.61.0
// stores every directory in which it was started. If no such directory can be
// created, EmptyDir returns the root of the file system, which is not part of
// any project.
func EmptyDir() string {
	root := string(filepath.Separator)
	cache, err := os.UserCacheDir()
	if err != nil {
		return root
	}
	if real, err := filepath.EvalSymlinks(cache); err == nil {
		cache = real
	}
	for i := range maxEmpty {
		name := "empty"
		if i > 0 { // an agent wrote a file into the previous directory
			name += "-" + strconv.Itoa(i+1)
		}
		dir := filepath.Join(cache, "runnel", name)
		if err := private.Dir(dir); err != nil { // such as a folder of another user, who could add settings
			continue
		}
		if st, err := os.Lstat(dir); err != nil || !st.IsDir() {
			continue
		}
		if entries, err := os.ReadDir(dir); err == nil && len(entries) == 0 {
			return dir
		}
	}
	return root
}
