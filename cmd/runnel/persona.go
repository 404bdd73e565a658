package main

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway/policy"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/profile"
)

// persona returns the profile with a name, for an agent that starts with opt.
// If there is none, the error lists the profiles that exist.
func persona(f profile.Folders, name string, opt runnel.Options) (*profile.Profile, error) {
	p, err := profile.Find(f, name)
	if err == nil {
		return &p, nil
	}
	list, listErr := profile.List(f)
	if listErr != nil || !profile.IsName(name) || slices.ContainsFunc(list, func(e profile.Entry) bool { return e.Name == name }) {
		return nil, err
	}
	var names []string
	for _, e := range list {
		if e.Err == nil {
			names = append(names, e.Name)
		}
	}
	return nil, noPersona(name, names, f.Project == "" && profile.InProject(opt.Dir))
}

// noPersona returns the error for a profile that does not exist. names are the
// profiles that exist. ignored reports whether the project has profiles that
// are not used.
func noPersona(name string, names []string, ignored bool) error {
	why := "persona: there is no profile " + strconv.Quote(name) + "; the profiles are " + text.Shorten(strings.Join(names, ", "), maxNames)
	if len(names) == 0 {
		why = "persona: there is no profile " + strconv.Quote(name) + ", and no other; 'runnel profiles --help' shows how to create one"
	}
	if ignored {
		why += "; those in " + profile.ProjectDir + " are not used, because this folder is not trusted"
	}
	return runnel.Fail(runnel.PersonaNotFound, why)
}

// maxNames is the maximum length of the list of profiles in an error, in bytes.
const maxNames = 1000

// enforce adds to options what a profile enforces, and the subagents that the
// profile lists.
func enforce(f profile.Folders, prof *profile.Profile, p runnel.Provider, opt runnel.Options) runnel.Options {
	e := profile.Enforced{Session: prof}
	opt.ServerDisallowedTools = e.DisallowedTools()
	for _, name := range prof.Subagents {
		if to, err := profile.Find(f, name); err == nil {
			opt.Subagents = append(opt.Subagents, to.Subagent())
		}
	}
	opt.Judge = policy.Sources{
		Forbidden: func(_ context.Context, c policy.Call) (policy.Verdict, bool) {
			why, ok := e.Forbids(c.Approval.ToolName)
			return policy.Verdict{Source: "profile", Reason: why}, ok
		},
		AutoApprove: func(_ context.Context, c policy.Call) (policy.Verdict, bool) {
			why, ok := e.Approves(c.Approval.ToolName)
			return policy.Verdict{Allow: true, Source: "profile", Reason: why}, ok && c.Approval.Kind == event.ApprovalTool
		},
	}.Judge(policy.Call{CLIType: p.Name(), Dir: opt.Dir})
	return opt
}
