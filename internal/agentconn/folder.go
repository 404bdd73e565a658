package agentconn

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/gitconfig"
	"github.com/runnel-dev/runnel/internal/proc"
	"github.com/runnel-dev/runnel/internal/text"
)

// Nothing of an untrusted folder runs because an agent is started for it. What
// holds for every agent is here: how its program is found and started, and what
// git would run. What an agent obeys itself is its provider's to prevent.

// defend prepares a command for an untrusted folder. It fails if the folder
// would choose what runs.
func (c *Command) defend(ctx context.Context, opt runnel.Options, agent Agent) error {
	dirs, err := folders(opt)
	if err != nil {
		return err
	}
	if opt.Trusted { // but not all of its further folders
		c.Env = proc.FilterPath(c.Env, outside(dirs))
		return c.judgeGit(ctx, opt, dirs, agent)
	}
	c.Env = proc.FilterPath(c.Env, outside(dirs))
	if len(dirs) > 1 || dirs[0] != EmptyDir() { // else the agent is only asked about itself
		if err := c.judge(ctx, opt, dirs, agent); err != nil {
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

// judge fails if one of the folders would choose what runs.
func (c *Command) judge(ctx context.Context, opt runnel.Options, dirs []string, agent Agent) error {
	args := wrapped(c.Path, c.Args)
	if name := launcher(c.Path, args); name != "" {
		return untrusted(opt, dirs[0], agent.Name+" is configured to be started by "+name+", which runs programs of the folder that it works for. "+
			"Install the agent, such as with npm install -g, and configure its own program.")
	}
	if arg := fromFolder(args, dirs[0]); arg != "" && !c.Elsewhere {
		return untrusted(opt, dirs[0], agent.Name+" is configured to be started with "+text.OneLine(arg, 300)+", which is a file of the folder that it works for. Write its whole path.")
	}
	return c.judgeGit(ctx, opt, dirs, agent)
}

// judgeGit fails if git would run programs in one of the folders.
func (c *Command) judgeGit(ctx context.Context, opt runnel.Options, dirs []string, agent Agent) error {
	for _, dir := range dirs {
		found, err := gitconfig.Find(ctx, c.Env, dir)
		if ctx.Err() != nil {
			return startFault(ctx, agent, err)
		}
		if err != nil {
			return untrusted(opt, dir, "It is not known what git would run in "+text.OneLine(dir, 300)+": "+err.Error()+".", err)
		}
		if len(found) > 0 {
			return untrusted(opt, dir, "The git configuration of "+text.OneLine(dir, 300)+" makes git run programs or change files elsewhere, and agents call git unasked: "+
				gitconfig.Describe(found, dir)+". Look at each, and remove it or trust the folder.")
		}
	}
	return nil
}

// GitPins returns the variables by which [Start] pins settings of git in the
// environment env for an untrusted folder. It is for agents that may keep
// variables from their commands.
func GitPins(ctx context.Context, env []string, opt runnel.Options) map[string]string {
	pins := map[string]string{}
	dirs, err := folders(opt)
	if err != nil {
		return pins // Start fails, too
	}
	for _, e := range gitconfig.Pin(ctx, proc.FilterPath(env, outside(dirs))) {
		if name, value, _ := strings.Cut(e, "="); strings.HasPrefix(name, "GIT_CONFIG_") {
			pins[name] = value
		}
	}
	return pins
}

// untrusted returns the error for what is refused in the untrusted folder dir.
// It ends with the ways to trust the folder.
func untrusted(opt runnel.Options, dir, why string, cause ...error) error {
	if dirs, err := folders(runnel.Options{Dir: dir}); err == nil {
		dir = dirs[0]
	}
	ways := "runnel run --trust (for one prompt), "
	if own, err := folders(opt); err != nil || opt.Trusted || own[0] != dir {
		ways = "" // that is about the folder in which the agent works
	}
	return runnel.Fail(runnel.SessionCreateFailed, why+" To trust the folder: "+ways+"runnel serve --trusted-folders "+
		text.OneLine(shellWord(listItem(dir)), 500)+" (for a server), or trusted-folders in the configuration.", cause...)
}

// listItem quotes an item of a list with commas: a path may hold one, and what
// follows it would be trusted as a folder of its own.
func listItem(s string) string {
	if strings.ContainsAny(s, `,"`) {
		return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
	}
	return s
}

// shellWord quotes a word for a shell where that is needed.
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
// relative path, such as the script of an interpreter; "" if there is none.
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

// relativeProgram reports whether a program would be another file in each
// directory.
func relativeProgram(program string) bool {
	return !filepath.IsAbs(program) && strings.ContainsAny(program, `/\`)
}

// folders returns the untrusted folders of an agent, by the directories that
// they really are. The first is the one in which it works, if that is one.
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

// outside returns a function that reports whether a directory lies in none of
// the folders. The user's home directory, and what holds it, hold the user's
// own programs, and the root of the file system holds everybody's.
func outside(folders []string) func(dir string) bool {
	home, _ := os.UserHomeDir() // without it, every folder counts
	if real, err := filepath.EvalSymlinks(home); err == nil {
		home = real
	}
	folders = slices.DeleteFunc(slices.Clone(folders), func(f string) bool { return home != "" && within(home, f) || filepath.Dir(f) == f })
	return func(dir string) bool {
		real, err := filepath.EvalSymlinks(dir)
		return !slices.ContainsFunc(folders, func(f string) bool { return within(dir, f) || err == nil && within(real, f) })
	}
}

func within(path, root string) bool {
	rel, err := filepath.Rel(root, path)
	return err == nil && filepath.IsLocal(rel)
}

// checkDir fails if an agent could not work in the directory.
func checkDir(dir string) error {
	d, err := os.Open(dir)
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

// EmptyDir returns a directory without any file, in which a program finds
// nothing to obey: if possible the same one each time, for Gemini CLI 0.61.0
// stores every directory in which it was started. Where no such directory can
// be made, it is the root of the file system, which belongs to no project.
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
		if i > 0 { // some agent has left a file in the one before
			name += "-" + strconv.Itoa(i+1)
		}
		dir := filepath.Join(cache, "runnel", name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
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
