package claude

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/broker"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/internal/translate"
)

// Probe implements [runnel.Prober].
func (p *Provider) Probe(ctx context.Context) runnel.Installation {
	return p.probe(ctx, runnel.Options{})
}

// probe implements Probe. Tests choose the program and the environment in opt.
func (p *Provider) probe(ctx context.Context, opt runnel.Options) runnel.Installation {
	in := product.Installation(loginCommand)
	path, first, err := p.program.Find(opt, usualProgram, product)
	if err != nil {
		in.Problem = runnel.Safe(err).Message
		return in
	}
	in.Path = path
	env, err := p.probeEnviron(p.program.Configured(opt))
	if err != nil {
		in.Problem = runnel.Safe(err).Message
	}
	out, err := agentconn.Output(ctx, path, env, mark, slices.Concat(first, []string{"--version"})...)
	version, _, ok := strings.Cut(string(out), " (Claude Code)")
	if err != nil || !ok {
		in.Problem = "Claude Code did not print its version. Try it in a terminal: claude --version"
		return in
	}
	in.Installed, in.Version = true, text.OneLine(version, 40)
	if in.Problem != "" {
		return in
	}
	out, err = agentconn.Output(ctx, path, env, mark, slices.Concat(first, []string{"auth", "status", "--json"})...)
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
	in.Models = p.models(ctx, opt)
	return in
}

// probeEnviron returns the environment in which the agent is asked about itself.
// It is usable after an error, too. With a broker it has a placeholder, which no
// API accepts: the agent answers without a request.
func (p *Provider) probeEnviron(opt runnel.Options) ([]string, error) {
	key, err := p.credential().Find(parentEnviron(), opt)
	if key != "" && p.credential().Brokers(opt) {
		key = broker.NewPlaceholder()
	}
	return p.credential().Apply(environ(parentEnviron(), opt), key, opt), err
}

// models returns the models that the agent offers; nil if the agent does not
// start. It starts the agent in an empty directory and sends no prompt.
func (p *Provider) models(ctx context.Context, opt runnel.Options) []runnel.Model {
	var out []runnel.Model
	opt.Tap = func(dir runnel.Dir, line []byte) {
		f, err := decode(line)
		if dir != runnel.DirOut || err != nil || f.Response == nil || out != nil {
			return
		}
		for _, m := range translate.DecodeLenient[initialized](f.Response.Response).Models {
			if m.Value != "" && modelName.MatchString(m.Value) && len(out) < 100 {
				out = append(out, runnel.Model{ID: m.Value, Name: text.OneLine(m.DisplayName, 100), Description: text.OneLine(m.Description, 300)})
			}
		}
	}
	opt.Dir = agentconn.EmptyDir() // a project's settings could change the models
	c, err := p.open(ctx, opt, false)
	if err != nil {
		return nil
	}
	c.Close()
	return out
}
