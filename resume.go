package runnel

import (
	"context"
	"path/filepath"

	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/universal"
)

// ResumeLast is the value of Options.Resume for the newest conversation that
// the agent has stored for Options.Dir.
const ResumeLast = "last"

// withConversation returns opt with the id of the conversation that ResumeLast
// stands for. It fails with SESSION_NOT_FOUND if the agent has stored no
// conversation for the directory.
func withConversation(ctx context.Context, p Provider, opt Options) (Options, error) {
	if opt.Resume != ResumeLast {
		return opt, nil
	}
	d, ok := discoverer(p, opt)
	if !ok {
		return opt, &Error{Code: UnsupportedCapability,
			Message: "resume: " + DisplayName(p) + " cannot list its conversations, so the last one is not known; give the id of one",
			Details: map[string]any{"option": "resume", "capability": CapSessionResume}}
	}
	dir, err := realDir(opt.Dir)
	if err != nil {
		return opt, Fail(WorkingRootInaccessible, "projectDir: "+shown(opt.Dir)+" is not accessible", err)
	}
	for c, err := range d.Discover(ctx, dir) {
		if err != nil {
			return opt, Safe(filterError(opt.filter(), err))
		}
		if of, err := realDir(c.Dir); c.Dir != "" && (err != nil || of != dir) {
			continue // a conversation of another folder with a similar name
		}
		opt.Resume = c.AgentSessionID
		return opt, nil
	}
	return opt, Fail(SessionNotFound,
		universal.NoSessionFound+": "+DisplayName(p)+" has no conversation in "+text.Shorten(dir, maxAddDir)+"; leave resume out to begin one")
}

// discoverer returns the Discoverer that looks where an agent with these
// options keeps its conversations.
func discoverer(p Provider, opt Options) (Discoverer, bool) {
	if pr, ok := p.(Programmable); ok && (opt.Path != "" || len(opt.Env) > 0) {
		var command []string
		if opt.Path != "" {
			command = []string{opt.Path}
		}
		p = pr.WithProgram(command, opt.Env)
	}
	d, ok := p.(Discoverer)
	return d, ok
}

// realDir returns the path of a directory without links; "" is the current one.
func realDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}
