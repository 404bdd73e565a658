package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/gateway/detect"
	"github.com/runnel-dev/runnel/internal/termtext"
	"github.com/runnel-dev/runnel/profile"
	"github.com/runnel-dev/runnel/provider/script"
)

// maxSent is the maximum size of a request with a prompt, in bytes. The server
// rejects bodies of more than 1 MiB.
const maxSent = 1<<20 - 4<<10

// serverFor returns the running server if it can run the prompt of `runnel
// run`, or nil if the prompt has to run in this process. It says why, unless
// there is no server or the user chose a local run.
func (a *app) serverFor(cmd *cobra.Command, f runFlags, opt runnel.Options, text string) (*serverLink, error) {
	if f.local {
		return nil, nil
	}
	c, err := loadConfig(cmd.Flags())
	if errors.Is(err, errNoData) {
		return nil, nil // no server either
	}
	if err != nil {
		return nil, err
	}
	ad, err := connect(cmd.Context(), c)
	switch {
	case errors.Is(err, errNoServer):
		return nil, nil
	case err != nil:
		return nil, err
	}
	l := &serverLink{ad: ad, wait: restartWait, say: a.stderrf}
	locally := func(why string) (*serverLink, error) {
		if !f.quiet {
			a.stderrf("runnel: this run does not use the running server, %s. It is in no list of sessions", why)
		}
		return nil, nil
	}
	if only := a.onlyLocal(cmd, f, opt, text); only != "" {
		return locally("because only a local run can have " + only)
	}
	var found any
	err = l.get(cmd.Context(), "/api/session/list?projectDir="+url.QueryEscape(opt.Dir), &found)
	switch runnel.CodeOf(err) {
	case runnel.Unauthorized, runnel.Forbidden: // an agent's process, or a system on which the socket needs a token
		return locally("which does not accept this caller")
	}
	return l, err
}

// onlyLocal returns the first setting that the server does not take, or "".
func (a *app) onlyLocal(cmd *cobra.Command, f runFlags, opt runnel.Options, text string) string {
	switch {
	case f.path != "":
		return "--agent-path"
	case f.timeout != 0:
		return "--timeout"
	case f.trust && !gateway.Trusts(a.trusted, opt.Dir):
		return "--trust"
	case cmd.Flags().Changed(profilesKey):
		return "--" + profilesKey
	case slices.ContainsFunc(f.extensions, func(x string) bool { return !strings.HasPrefix(x, string(runnel.CapToolsResults)+"=") }):
		return "--extension"
	case len(text) > maxSent:
		return "a prompt of this length"
	}
	return ""
}

// A serverPrompt is a prompt for the running server.
type serverPrompt struct {
	app  *app
	link *serverLink
	run  runFlags
	opt  runnel.Options // as the flags request them
	text string

	agent    string                   // name of the agent's provider
	worktree *gateway.SessionWorktree // of the session, once it is created
}

// dir returns the directory in which the agent works.
func (p *serverPrompt) dir() string {
	if p.worktree != nil {
		return p.worktree.Dir
	}
	return p.opt.Dir
}

// A startedSession is the answer to a request that creates or loads a session.
type startedSession struct {
	SessionID string           `json:"sessionId"`
	CLIType   string           `json:"cliType"`
	Warnings  []string         `json:"warnings"`
	Resolved  profile.Resolved `json:"resolved"`
	Draft     string           `json:"draft"` // of a fork that the agent cannot make

	Worktree *gateway.SessionWorktree `json:"worktree"`
}

// choose determines the agent: the one that the user named, or the first that
// is installed on the server's machine.
func (p *serverPrompt) choose(ctx context.Context) error {
	p.agent = p.run.agent
	if known := detect.NewIndex(p.app.providers).Find(p.agent); known != nil {
		p.agent = known.Name()
		if _, err := runnel.CheckOptions(known, p.opt, nil); err != nil {
			return err
		}
	}
	for refresh := ""; p.agent == ""; refresh = "?refresh=true" {
		var list struct {
			Agents []detect.Agent `json:"agents"`
		}
		if err := p.link.get(ctx, "/api/agents"+refresh, &list); err != nil {
			return err
		}
		checking := false
		for _, ag := range list.Agents {
			checking = checking || ag.Checking
			if ag.Installed && ag.CLIType != script.Name {
				p.agent = cmp.Or(p.agent, ag.CLIType)
			}
		}
		if p.agent == "" && (!checking || refresh != "") {
			return errNoAgent()
		}
	}
	return nil
}

// start sends the prompt to a session. It returns the turn that answers it.
func (p *serverPrompt) start(ctx context.Context) (*serverRun, error) {
	s, fresh, err := p.session(ctx)
	if err != nil {
		return nil, p.explained(ctx, err)
	}
	for _, w := range s.Warnings {
		p.app.stderrf("runnel: warning: %s", termtext.Clean(w))
	}
	if p.worktree = s.Worktree; p.worktree != nil && p.run.worktree && !p.run.quiet {
		p.app.stderrf("runnel: the agent works in %s, on the branch %s; 'runnel sessions worktree %s' shows it", termtext.Clean(p.worktree.Dir), termtext.Clean(p.worktree.Branch), termtext.Clean(s.SessionID))
	}
	if p.opt.AllowBypass {
		p.opt.Warn("", "every tool of this agent runs without asking")
	}
	if others := listed(s.Resolved); p.run.chats && others != "" {
		p.app.stderrf("runnel: options: %s", termtext.Clean(others))
	}
	r, err := p.send(ctx, s)
	if err = p.explained(ctx, err); err != nil && fresh {
		_ = p.link.ad.do(ctx, "DELETE", strings.TrimSuffix(sessionPath(s.SessionID, ""), "/"), nil, nil) // it has no prompt
	}
	return r, err
}

// explained replaces the error about a profile that the server does not have by
// one that lists the profiles.
func (p *serverPrompt) explained(ctx context.Context, err error) error {
	if runnel.CodeOf(err) != runnel.PersonaNotFound {
		return err
	}
	var list gateway.Profiles
	if p.link.get(ctx, "/api/profiles?projectDir="+url.QueryEscape(p.opt.Dir), &list) != nil {
		return err
	}
	var names []string
	for _, found := range list.Profiles {
		if found.Name == p.run.persona {
			return err // the profile has an error
		}
		if found.Error == "" {
			names = append(names, found.Name)
		}
	}
	return noPersona(p.run.persona, names, !p.opt.Trusted && profile.InProject(p.opt.Dir))
}

// session creates the session for the prompt, or finds the one to continue.
// fresh reports that the session is new.
func (p *serverPrompt) session(ctx context.Context) (s startedSession, fresh bool, err error) {
	if p.run.resume == "" {
		options, err := p.options()
		if err != nil {
			return s, fresh, err
		}
		body := map[string]any{"cliType": p.agent, "projectDir": p.opt.Dir, "options": options}
		err = p.link.create(ctx, "/api/session/create", uuid.NewString(), body, &s)
		if runnel.CodeOf(err) == runnel.UnsupportedCLIType {
			_, err = p.app.named(p.agent)
			err = cmp.Or(err, usage("unknown agent %q; 'runnel agents' lists the agents", termtext.Clean(p.agent)))
		}
		return s, true, err
	}
	ref, err := p.conversation(ctx)
	if err != nil {
		return s, false, err
	}
	err = p.link.create(ctx, sessionPath(ref, "load"), uuid.NewString(), struct{}{}, &s)
	if err == nil && p.run.fork {
		fresh = true
		from := s.SessionID
		s = startedSession{}
		err = p.link.create(ctx, sessionPath(from, "fork"), uuid.NewString(), struct{}{}, &s)
	}
	if err != nil {
		return s, fresh, err
	}
	p.text = s.Draft + p.text
	options, err := p.options()
	if err != nil {
		return s, fresh, err
	}
	if len(options) > 0 {
		delete(options, "persona") // sent with the prompt
		if len(options) > 0 {
			var changed startedSession
			err = p.link.create(ctx, sessionPath(s.SessionID, "options"), uuid.NewString(), options, &changed)
			s.Warnings, s.Resolved = append(s.Warnings, changed.Warnings...), changed.Resolved
		}
	}
	return s, fresh, err
}

// options returns the options that the user chose, by their names in the API.
func (p *serverPrompt) options() (map[string]any, error) {
	out := make(map[string]any)
	data, err := json.Marshal(p.opt)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		return nil, err
	}
	if p.run.persona != "" {
		out["persona"] = p.run.persona
	}
	if p.run.worktree {
		out["worktree"] = true
	}
	return out, nil
}

// conversation returns a reference to the conversation that --resume names.
func (p *serverPrompt) conversation(ctx context.Context) (string, error) {
	if p.run.resume != runnel.ResumeLast {
		return p.agent + ":" + p.run.resume, nil
	}
	where := url.Values{"cliType": {p.agent}, "projectDir": {p.opt.Dir}, "limit": {"1"}}
	var page gateway.ConversationPage
	for wait := firstPause; ; wait *= 2 {
		page = gateway.ConversationPage{}
		if err := p.link.get(ctx, "/api/conversations?"+where.Encode(), &page); err != nil {
			return "", err
		}
		if len(page.Checking) == 0 || wait > askWait {
			break
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(wait):
		}
	}
	switch {
	case page.Disabled:
		return "", runnel.Fail(runnel.UnsupportedCapability, "resume: the server does not list conversations, so the last one is not known; give the id of one, or use --local")
	case len(page.Conversations) == 0:
		return p.lastSession(ctx)
	}
	c := page.Conversations[0]
	return cmp.Or(c.SessionID, c.CLIType+":"+c.AgentSessionID), nil
}

// lastSession returns the newest session of the agent in the folder. Some
// agents store no conversations that can be listed.
func (p *serverPrompt) lastSession(ctx context.Context) (string, error) {
	var list struct {
		Sessions []gateway.Status `json:"sessions"`
	}
	if err := p.link.get(ctx, "/api/session/list?all=true&projectDir="+url.QueryEscape(p.opt.Dir), &list); err != nil {
		return "", err
	}
	for _, s := range list.Sessions { // newest activity first
		if s.CLIType == p.agent && s.AgentSessionID != "" {
			return s.SessionID, nil
		}
	}
	return "", runnel.Fail(runnel.SessionNotFound, "no session found: "+p.agent+" has no conversation in "+termtext.Clean(p.opt.Dir)+"; leave resume out to begin one")
}

// send sends the prompt.
func (p *serverPrompt) send(ctx context.Context, s startedSession) (*serverRun, error) {
	var st gateway.Status
	if err := p.link.get(ctx, sessionPath(s.SessionID, "status"), &st); err != nil {
		return nil, err
	}
	body := map[string]any{"content": p.text, "turnId": uuid.NewString()}
	if p.run.resume != "" && p.run.persona != "" {
		body["opts"] = map[string]string{"persona": p.run.persona}
	}
	var sent struct {
		TurnID   string   `json:"turnId"`
		Warnings []string `json:"warnings"`
	}
	if err := p.link.create(ctx, sessionPath(s.SessionID, "send"), uuid.NewString(), body, &sent); err != nil {
		return nil, err
	}
	for _, w := range sent.Warnings {
		p.app.stderrf("runnel: warning: %s", termtext.Clean(w))
	}
	return newServerRun(p.link, s.SessionID, sent.TurnID, st.LastSeq), nil
}
