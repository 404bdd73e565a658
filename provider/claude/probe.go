package claude

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/proc"
)

// probeOutput bounds what is read of a command that says who it is, in bytes.
const probeOutput = 64 << 10

// Probe implements [runnel.Prober].
func (p *Provider) Probe(ctx context.Context) runnel.Installation {
	return probe(ctx, runnel.Options{})
}

func probe(ctx context.Context, opt runnel.Options) runnel.Installation {
	in := runnel.Installation{
		Install: installCommand, Login: loginCommand,
		Modes: []string{
			string(runnel.ModeDefault), string(runnel.ModeAcceptEdits), string(runnel.ModePlan),
			string(runnel.ModeDontAsk), string(runnel.ModeBypass),
		},
	}
	path, err := find(opt.Path)
	if err != nil {
		in.Problem = runnel.Safe(err).Message
		return in
	}
	in.Path = path
	out, err := output(ctx, path, opt, "--version")
	version, _, ok := strings.Cut(string(out), " (Claude Code)")
	if err != nil || !ok {
		in.Problem = "It does not say its version. Try it in a terminal: claude --version"
		return in
	}
	in.Installed, in.Version = true, oneLine(version, 40)
	out, err = output(ctx, path, opt, "auth", "status", "--json")
	var status struct {
		LoggedIn *bool `json:"loggedIn"`
	}
	if err == nil && json.Unmarshal(out, &status) == nil {
		in.LoggedIn = status.LoggedIn
	}
	if in.LoggedIn != nil && !*in.LoggedIn {
		in.Problem = "Claude Code is not logged in. Run: " + loginCommand
		return in
	}
	in.Models = models(ctx, opt)
	return in
}

// output runs the program with arguments of ours and returns what it prints.
// How it exits says nothing: "auth status" fails if there is no login.
func output(ctx context.Context, path string, opt runnel.Options, args ...string) ([]byte, error) {
	p, err := proc.Start(ctx, proc.Command{Path: path, Args: args, Env: environ(parentEnviron(), opt)})
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { p.Stop(context.WithoutCancel(ctx), proc.Now) })
	defer stop()
	p.CloseStdin()
	var buf bytes.Buffer
	_, err = io.Copy(&buf, io.LimitReader(p.Stdout(), probeOutput))
	if err == nil {
		_, err = io.Copy(io.Discard, p.Stdout())
	}
	_, waitErr := p.Wait(context.WithoutCancel(ctx))
	return buf.Bytes(), errors.Join(err, waitErr, ctx.Err())
}

// models asks the agent for its models. It is started for that, away from
// any project, and says nothing to any model.
func models(ctx context.Context, opt runnel.Options) []runnel.Model {
	var out []runnel.Model
	opt.Tap = func(dir runnel.Dir, line []byte) {
		f, err := decode(line)
		if dir != runnel.DirOut || err != nil || f.Response == nil || out != nil {
			return
		}
		for _, m := range decodeLoose[initialized](f.Response.Response).Models {
			if m.Value != "" && modelName.MatchString(m.Value) && len(out) < 100 {
				out = append(out, runnel.Model{ID: m.Value, Name: oneLine(m.DisplayName, 100), Description: oneLine(m.Description, 300)})
			}
		}
	}
	opt.Dir = os.TempDir()
	c, err := open(ctx, opt, false)
	if err != nil {
		return nil
	}
	c.Close()
	return out
}
