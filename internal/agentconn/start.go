package agentconn

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/proc"
	"github.com/runnel-dev/runnel/internal/recording"
	"github.com/runnel-dev/runnel/internal/redact"
	"github.com/runnel-dev/runnel/internal/supervisor"
	"github.com/runnel-dev/runnel/internal/text"
)

// A Command is a program to start. Text from API clients never becomes an
// argument.
type Command struct {
	Path string // absolute; see [Find]
	Args []string
	Env  []string // the whole environment, "K=V"
	Mark string   // environment variable that marks the supervisor's processes; ends in proc.MarkSuffix

	// Elsewhere is true if the agent receives its folder by its protocol. For
	// an untrusted folder, the agent is then started in an empty directory.
	Elsewhere bool

	// ProgramVariable is the name of a variable in Env. Its value is the path of
	// another program, which the agent starts in the session's folder. Default: there
	// is no such variable.
	ProgramVariable string

	// Worktrees is the folder, below the root of a repository, in which the agent
	// creates worktrees of git. Default: it creates none.
	Worktrees string

	// Above lists names of files and folders that the agent obeys, or sends to
	// the model, also above the repository of a trusted folder.
	Above []string

	// Enclosure is what the agent needs in a sandbox. Default: the agent cannot
	// run in one.
	Enclosure *Enclosure

	// Broker is the endpoint through which the agent calls its model. Default:
	// the agent has its API key itself, or needs none.
	Broker *Broker

	dir string // start directory; "" for opt.Dir
}

// Start starts an agent in opt.Dir. It fails with SessionCreateFailed if an
// untrusted folder could determine which program runs, or if another user has put
// settings above a trusted one. opt.Takeover determines how a restarted server finds the agent again.
func Start(ctx context.Context, cmd Command, agent Agent, tr Translator, opt runnel.Options) (*Conn, error) {
	if !opt.Trusted || len(opt.UntrustedDirs) > 0 {
		if err := cmd.prepareUntrusted(ctx, opt, agent); err != nil {
			return nil, err
		}
	}
	if err := checkAbove(opt, cmd.Above); err != nil {
		return nil, err
	}
	box, err := surround(ctx, &cmd, agent, opt)
	if err != nil {
		return nil, err
	}
	held := cmd.Broker.held()
	defer held.Close()
	process, err := supervisor.Start(ctx, proc.Command{
		Path: cmd.Path, Args: cmd.Args, Dir: cmp.Or(cmd.dir, opt.Dir), Env: cmd.Env, Mark: cmd.Mark, Limits: proc.Limits(opt.Limits), Redact: redactor(cmd.Env), Boxed: opt.Sandbox == runnel.SandboxProject, Hold: held, Note: box.noted(),
	}, supervisor.Takeover(opt.Takeover))
	if err != nil {
		if box != nil {
			box.end()
		}
		return nil, startFault(ctx, agent, err)
	}
	if err := box.serveBroker(cmd.Broker); err != nil {
		box.end()
		_ = process.Stop(context.WithoutCancel(ctx), proc.Now)
		return nil, startFault(ctx, agent, err)
	}
	c := New(process, agent, tr, opt)
	c.box = box
	box.watch(process)
	c.mark(recording.Mark{Mark: recording.Start})
	return c, nil
}

// redactor returns a function that removes the environment's secrets from a
// text.
func redactor(env []string) func([]byte) []byte {
	return func(b []byte) []byte { return redact.New(redact.Env(env)...).Bytes(b) }
}

// Find returns the absolute path of a program. A bare name is looked up in
// PATH, without directories in untrusted folders. Find rejects a relative path
// if opt.Dir is untrusted.
func Find(program string, agent Agent, opt runnel.Options) (string, error) {
	if !opt.Trusted && relativeProgram(program) {
		return "", Untrusted(opt, opt.Dir, "The program "+text.OneLine(program, 300)+" of "+agent.Name+" is relative: the folder could choose it. Write its whole path.")
	}
	found, err := find(program, opt)
	if err != nil {
		return "", notInstalled(agent, err)
	}
	return found, nil
}

func find(program string, opt runnel.Options) (string, error) {
	if program != filepath.Base(program) {
		found, err := exec.LookPath(program)
		if err == nil {
			found, err = filepath.Abs(found)
		}
		return found, err
	}
	path := []string{"PATH=" + os.Getenv("PATH")}
	if dirs, err := folders(opt); err == nil && len(dirs) > 0 {
		path = proc.FilterPath(path, proc.Outside(dirs))
	}
	return proc.LookPath(program, strings.TrimPrefix(path[0], "PATH="))
}

func notInstalled(agent Agent, cause error) error {
	do := "Check the command in the configuration."
	if agent.Install != "" {
		do = "Run: " + agent.Install
	}
	return runnel.Fail(runnel.AgentNotInstalled, agent.Name+" is not installed, or not in PATH. "+do, cause)
}

// startFault returns the error that users see for a program that did not start.
func startFault(ctx context.Context, agent Agent, err error) error {
	if ctx.Err() != nil {
		return runnel.Fail(runnel.Timeout, agent.Name+" did not start before the request ended", err)
	}
	failed := agent.Name + " could not be started"
	start, _ := errors.AsType[*proc.StartError](err)
	switch {
	case start == nil:
		return runnel.Fail(runnel.SessionCreateFailed, failed, err)
	case start.Reason == proc.NotFound:
		return notInstalled(agent, err)
	case start.Reason == proc.BadDir:
		return badDir(err)
	case start.Reason == proc.Unlimited:
		return runnel.Fail(runnel.SessionCreateFailed, failed+": "+start.Err.Error(), err)
	case start.Reason == proc.NoResources:
		return runnel.Fail(runnel.Overloaded, failed+": "+string(start.Reason)+" on this machine. Stop other programs, and try again.", err)
	}
	return runnel.Fail(runnel.SessionCreateFailed, failed+": "+string(start.Reason), err)
}

func badDir(cause error) error {
	return runnel.Fail(runnel.WorkingRootInaccessible, "the project directory is missing or not accessible", cause)
}

// maxOutput bounds the result of Output, in bytes.
const maxOutput = 64 << 10

// Output runs a program with fixed arguments and returns what it prints, at
// most maxOutput bytes. It ignores the exit status, because some agents fail if
// the answer is no. The program runs in an empty directory of this user. It
// does not run in a directory for temporary files, because agents apply
// settings from the current directory and its parents.
//
// The program has a supervisor like an agent, so nothing that it started is
// left when Output returns, or after this process was killed. mark is as in
// [Command].
func Output(ctx context.Context, path string, env []string, mark string, args ...string) ([]byte, error) {
	p, err := Ask(ctx, path, env, mark, args...)
	if err != nil {
		return nil, err
	}
	defer p.Stop(context.WithoutCancel(ctx), proc.Now)
	stop := context.AfterFunc(ctx, func() { p.Stop(context.WithoutCancel(ctx), proc.Now) })
	defer stop()
	p.CloseInput()
	var buf bytes.Buffer
	_, err = io.Copy(&buf, io.LimitReader(p.Stdout(), maxOutput))
	if err == nil {
		_, err = io.Copy(io.Discard, p.Stdout())
	}
	_, waitErr := p.Wait(context.WithoutCancel(ctx))
	return buf.Bytes(), errors.Join(err, waitErr, ctx.Err())
}

// configureTime bounds the time that a command of an agent may take to change
// the agent's configuration.
const configureTime = 30 * time.Second

// Configure runs a command that changes the configuration of an agent, as
// [Output] does. It fails with AGENT_ERROR if the command fails. The error has no
// text of the command, which could contain secrets. try is the command that a
// user can run to see that text. The command reads input, which other users of
// the machine cannot see, as its standard input; nil: nothing.
func Configure(ctx context.Context, agent Agent, path string, env []string, mark, try string, input []byte, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, configureTime)
	defer cancel()
	p, err := Ask(ctx, path, env, mark, args...)
	if err != nil {
		return startFault(ctx, agent, err)
	}
	defer p.Stop(context.WithoutCancel(ctx), proc.Now)
	stop := context.AfterFunc(ctx, func() { p.Stop(context.WithoutCancel(ctx), proc.Now) })
	defer stop()
	if len(input) > 0 {
		if err := p.Send(input, 0); err != nil {
			return startFault(ctx, agent, err)
		}
	}
	p.CloseInput()
	_, _ = io.Copy(io.Discard, p.Stdout())
	st, err := p.Wait(context.WithoutCancel(ctx))
	switch {
	case ctx.Err() != nil:
		return runnel.Fail(runnel.Timeout, agent.Name+" did not change its configuration in time. Try it in a terminal: "+try, ctx.Err())
	case err != nil || st.Code != 0:
		return runnel.Fail(runnel.AgentError, agent.Name+" did not change its configuration (exit code "+strconv.Itoa(st.Code)+"). Try it in a terminal: "+try, err)
	}
	return nil
}

// Ask starts a program that is asked about itself and not for a session. It
// runs as with [Output]. The caller must stop it.
func Ask(ctx context.Context, path string, env []string, mark string, args ...string) (supervisor.Agent, error) {
	return supervisor.Start(ctx, proc.Command{Path: path, Args: args, Dir: EmptyDir(), Env: env, Mark: mark}, supervisor.Takeover{})
}
