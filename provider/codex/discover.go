package codex

import (
	"cmp"
	"context"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
)

// maxListed bounds how many conversations are listed.
const maxListed = 5000

// Discover implements [runnel.Discoverer]. It asks an app-server for the
// agent's own index.
func (p *Provider) Discover(ctx context.Context, dir string) iter.Seq2[runnel.Conversation, error] {
	return func(yield func(runnel.Conversation, error) bool) {
		if st, err := os.Stat(filepath.Join(homeOf(p.program), "sessions")); err != nil || !st.IsDir() {
			return // the agent was never used
		}
		stopped, seen := false, make(map[string]bool)
		err := p.query(ctx, runnel.Options{}, func(a *asker) error {
			var cursor *string
			for n := 0; n < maxListed; {
				threads, next, err := a.threads(dir, cursor)
				if err != nil {
					return err
				}
				for _, th := range threads {
					n++
					if seen[th.ID] { // a conversation may have several files; the newest is listed first
						continue
					}
					seen[th.ID] = true
					if !yield(conversationOf(th), nil) {
						stopped = true
						return nil
					}
				}
				if next == nil || len(threads) == 0 {
					return nil
				}
				cursor = next
			}
			return nil
		})
		if err != nil && !stopped {
			yield(runnel.Conversation{}, err)
		}
	}
}

// threads returns one page of the conversations in dir, most recently updated
// first, and the cursor of the next page. An empty dir selects all directories.
// The cursor is nil after the last page.
func (a *asker) threads(dir string, cursor *string) ([]thread, *string, error) {
	params := map[string]any{"limit": 100, "cursor": cursor, "sortKey": "updated_at", "sortDirection": "desc", "modelProviders": []string{}}
	if dir != "" {
		params["cwd"] = projectDir(dir)
	}
	var r struct {
		Data []thread `json:"data"`
		Next *string  `json:"nextCursor"`
	}
	err := a.ask(methodThreads, params, &r)
	return r.Data, r.Next, err
}

// conversationOf converts a thread of the agent's list.
func conversationOf(th thread) runnel.Conversation {
	c := runnel.Conversation{
		AgentSessionID: th.ID, Dir: th.CWD, Title: oneLine(cmp.Or(th.Name, runnel.TitleOf(th.Preview)), 200), File: th.Path,
		CreatedAt: time.Unix(th.CreatedAt, 0), UpdatedAt: time.Unix(th.UpdatedAt, 0),
	}
	if st, err := os.Stat(th.Path); th.Path != "" && err == nil {
		c.Size = st.Size()
	}
	return c
}

// Probe implements [runnel.Prober].
func (p *Provider) Probe(ctx context.Context) runnel.Installation {
	in := product.Installation(loginCommand)
	in.ModeLabels = modeLabels
	opt := p.program.Configured(runnel.Options{})
	path, args, err := p.executable(opt)
	if err != nil {
		in.Problem = runnel.Safe(err).Message
		return in
	}
	in.Path = path
	args[len(args)-1] = "--version"
	out, err := agentconn.Output(ctx, path, askEnviron(p.credential(), opt), mark, args...)
	version, ok := strings.CutPrefix(string(out), "codex-cli ")
	if err != nil || !ok {
		in.Problem = "It did not report its version. Try it in a terminal: " + product.Try
		return in
	}
	in.Installed, in.Version = true, oneLine(version, 40)
	if err := p.query(ctx, runnel.Options{}, func(a *asker) error { return a.describe(&in) }); err != nil {
		in.Problem = runnel.Safe(err).Message
		return in
	}
	if p.credential().ByKey(opt) { // the user's own login is not used
		in.LoggedIn, in.Problem = nil, ""
		if err := p.CheckKey(runnel.Options{}); err != nil {
			in.Problem = runnel.Safe(err).Message
		}
	}
	return in
}

// describe adds the login state, the models and the options that the agent
// reports.
func (a *asker) describe(in *runnel.Installation) error {
	var account struct {
		Account *struct{} `json:"account"`
		Needed  bool      `json:"requiresOpenaiAuth"`
	}
	if err := a.ask(methodAccount, map[string]any{}, &account); err != nil {
		return runnel.Fail(runnel.AgentError, "Codex did not report whether it is logged in.", err)
	}
	if account.Needed { // other model providers do not use this login
		loggedIn := account.Account != nil
		in.LoggedIn = &loggedIn
		if !loggedIn {
			in.Problem = "Codex is not logged in. Run: " + loginCommand
		}
	}
	var r struct {
		Data []modelEntry `json:"data"`
	}
	if err := a.ask(methodModels, map[string]any{"limit": 100}, &r); err != nil {
		return runnel.Fail(runnel.AgentError, "Codex did not list its models.", err)
	}
	s := settings{Approval: onRequest, Sandbox: workspace}
	for _, e := range r.Data[:min(len(r.Data), 100)] {
		if e.Hidden || !token().MatchString(e.Model) {
			continue
		}
		e.DisplayName, e.Description = oneLine(e.DisplayName, 100), oneLine(e.Description, 300)
		in.Models = append(in.Models, runnel.Model{ID: e.Model, Name: e.DisplayName, Description: e.Description})
		s.Models = append(s.Models, e)
		if e.IsDefault {
			s.Model = e.Model
		}
	}
	in.Config = s.options()
	return nil
}
