package changes

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/gitconfig"
	"github.com/runnel-dev/runnel/internal/proc"
	"github.com/runnel-dev/runnel/internal/text"
)

// A command is one run of git.
type command struct {
	args  []string
	stdin []byte
	time  time.Duration // limit
	most  int           // bytes of output that are returned; further ones are dropped
	env   []string      // variables that override others
	hooks bool          // the command runs hooks, so it gets no options that they would inherit
	reads bool          // the command changes nothing
	signs bool          // the command makes a commit, which the user's configuration may sign
	to    confinement   // what git may access; nil: everything
}

// A failure is the end of a git that reported an error.
type failure struct {
	code int
	said string // on standard error
}

func (f *failure) Error() string { return "git: " + f.said }

// errCut reports that git printed more than a command may return.
var errCut = errors.New("git printed too much")

// read runs git on the repository for a command that changes nothing.
func (g *Git) read(ctx context.Context, r *repository, most int, args ...string) ([]byte, error) {
	return g.within(ctx, r, command{args: args, time: readTime, most: most, reads: true})
}

// within runs git on the repository, in an untrusted folder with a private git
// directory. A failure of git is an error of the code GIT_FAILED.
func (g *Git) within(ctx context.Context, r *repository, c command) ([]byte, error) {
	if !c.reads {
		r.settings = nil
		defer func() { r.settings = nil }()
	}
	if c.hooks {
		c.args = append([]string{"--no-pager", "-C", r.root}, c.args...)
		return g.run(ctx, r, c)
	}
	c.args = append(safe(), c.args...)
	if r.folder.Trusted {
		c.args = append([]string{"-C", r.root}, c.args...)
		return g.run(ctx, r, c)
	}
	if r.folder.Closed && c.reads {
		return g.unmoved(ctx, r, func() ([]byte, error) { return g.alone(ctx, r, c) })
	}
	if err := g.checkForeign(ctx, r); err != nil { // the repository may have changed since it was opened
		return nil, err
	}
	r.known = nil // the command changes it
	return g.alone(ctx, r, c)
}

// alone runs git with a private git directory.
func (g *Git) alone(ctx context.Context, r *repository, c command) ([]byte, error) {
	p, err := g.isolate(ctx, r)
	if err != nil {
		return nil, err
	}
	defer p.remove()
	tidy, err := p.linkLFS(ctx, r, c)
	defer tidy()
	if err != nil {
		return nil, err
	}
	c.to = g.confine(r, p, c)
	c.env = append(c.env, "GIT_DIR="+p.dir, "GIT_WORK_TREE="+r.root, "GIT_INDEX_FILE="+filepath.Join(r.dir, "index"),
		"GIT_LFS_SKIP_SMUDGE=1") // a file of the folder, .lfsconfig, chooses from where Git LFS downloads
	return g.run(ctx, r, c)
}

// safe returns options of git that every command gets: no program shows or
// filters what git prints, nothing is cleaned up afterwards, and no lock is
// taken only to speed up later commands.
func safe() []string {
	return []string{
		"--no-pager", "--literal-pathspecs", "--no-optional-locks",
		"-c", "safe.bareRepository=explicit", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false", "-c", "color.ui=false",
		"-c", "diff.external=", "-c", "diff.noprefix=false", "-c", "diff.mnemonicPrefix=false", "-c", "diff.orderFile=" + os.DevNull, "-c", "diff.renames=true", "-c", "status.renames=true",
		"-c", "submodule.recurse=false", "-c", "status.submoduleSummary=false",
		"-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "advice.statusHints=false",
	}
}

// enter waits until another git may run in the repository. The caller calls
// leave when it has run.
func (g *Git) enter(ctx context.Context, r *repository) (leave func(), err error) {
	part, err := g.own.Enter(ctx, r.common)
	if err != nil {
		return nil, err
	}
	select {
	case g.runs <- struct{}{}:
		return func() { <-g.runs; part() }, nil
	case <-ctx.Done():
		part()
		return nil, ctx.Err()
	}
}

// run runs git and returns what it prints.
func (g *Git) run(ctx context.Context, r *repository, c command) ([]byte, error) {
	leave, err := g.enter(ctx, r)
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, c.time)
	defer cancel()
	env, err := g.pin(ctx, r.folder)
	if err != nil {
		return nil, err
	}
	p, err := start(ctx, c, proc.Command{
		// A shim of a version manager would look for settings in this folder.
		Path: r.git, Args: c.args, Dir: filepath.Dir(r.git), Env: override(env, c.env),
		MaxOutbox: max(len(c.stdin), 1), Linger: time.Second, Mark: "GIT_" + proc.MarkSuffix,
	})
	if err != nil {
		return nil, failed("git could not be started: " + err.Error() + ".")
	}
	if len(c.stdin) > 0 {
		_ = p.Send(c.stdin) // git reports that its input is incomplete
	}
	p.CloseStdin()
	return finish(ctx, p, c)
}

// finish reads the output of git and waits for its end. It ends git if the time
// is over or the output is too long.
func finish(ctx context.Context, p *proc.Process, c command) ([]byte, error) {
	read := make(chan []byte, 1)
	go func() {
		out, _ := io.ReadAll(io.LimitReader(p.Stdout(), int64(c.most)+1)) // it ends with EOF only
		read <- out
	}()
	var out []byte
	select {
	case out = <-read:
	case <-ctx.Done():
		_ = p.Stop(context.WithoutCancel(ctx), proc.Now)
		<-read
		return nil, timedOut(ctx, "git "+name(c.args))
	}
	if len(out) > c.most {
		_ = p.Stop(context.WithoutCancel(ctx), proc.Now)
		return out[:c.most], errCut
	}
	st, err := p.Wait(ctx)
	switch {
	case ctx.Err() != nil:
		_ = p.Stop(context.WithoutCancel(ctx), proc.Now)
		return nil, timedOut(ctx, "git "+name(c.args))
	case err != nil:
		return nil, err
	case st.Code == 0:
		return out, nil
	}
	return out, explained(&failure{st.Code, p.StderrTail()})
}

// explained returns the error for a failure of git, with what git said.
func explained(f *failure) error {
	said := text.OneLine(strings.TrimPrefix(strings.TrimPrefix(f.said, "fatal: "), "error: "), maxSaid)
	switch {
	case strings.Contains(said, "index.lock"):
		said = "Another git is changing this repository. Try again; if no git runs, remove the file index.lock in its git directory."
	case said == "":
		said = "It reported no reason."
	}
	return failed("git failed: "+said, f)
}

// name returns the name of a git command in the arguments.
func name(args []string) string {
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "-c", args[i] == "-C":
			i++
		case !strings.HasPrefix(args[i], "-"):
			return args[i]
		}
	}
	return ""
}

// timedOut returns the error for an operation whose context has ended.
func timedOut(ctx context.Context, what string) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return runnel.Fail(runnel.Timeout, what+" took too long and was stopped. The folder may be very large; use git in a terminal.", ctx.Err())
}

// pin returns the environment of git in a folder, with pinned settings in an
// untrusted one.
func (g *Git) pin(ctx context.Context, f Folder) ([]string, error) {
	env := g.environ(f)
	if f.Trusted {
		return env, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pins == nil {
		for _, e := range gitconfig.Pin(ctx, env) {
			if strings.HasPrefix(e, "GIT_CONFIG_") {
				g.pins = append(g.pins, e)
			}
		}
		if ctx.Err() != nil {
			g.pins = nil
			return nil, timedOut(ctx, "the start of git")
		}
	}
	return override(env, g.pins), nil
}

// override returns env with other entries instead of those of the same names.
func override(env, entries []string) []string {
	extra := make(map[string]string, len(entries))
	for _, e := range entries {
		name, value, _ := strings.Cut(e, "=")
		extra[name] = value
	}
	return proc.Environ(env, []string{"*"}, extra)
}
