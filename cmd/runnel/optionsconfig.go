package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/gateway/detect"
	"github.com/runnel-dev/runnel/internal/termtext"
	"github.com/runnel-dev/runnel/profile"
)

// optionsKey is the section of the configuration file with the default options
// of sessions. The section of an agent may contain a section options, too.
const optionsKey = "options"

// optionsHelp is the part of help texts about the section options.
const optionsHelp = `The file can also set default options of sessions, for all agents as here, or
below one agent. The variable RUNNEL_MODEL sets the default model:

  options:
    model: NAME
    permissionMode: plan`

// modelVariables name the default model of sessions. The first one that is set
// wins. The second one exists for programs written for another server.
var modelVariables = []string{"RUNNEL_MODEL", "CHIRALITY_GLOBAL_MODEL"}

// optionSources returns the default options from the configuration file and the
// environment, strongest first: those of single agents, then the variables,
// then those of all agents in the file. agents is the agents section of the
// file.
func optionSources(file settingsFile, agents any) (out []profile.Source, err error) {
	section := func(agent string, path ...string) error {
		s, err := profile.Global(file.path, file.text, path...)
		if err != nil {
			return usage("the configuration: %s", termtext.Clean(messageOf(err)))
		}
		if s.Agent = agent; s.Lines != nil {
			out = append(out, s)
		}
		return nil
	}
	entries, _ := agents.(map[string]any) // agentsOf has checked the type
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if err := section(name, agentsKey, name, optionsKey); err != nil {
			return nil, err
		}
	}
	for _, name := range modelVariables {
		if model := strings.TrimSpace(os.Getenv(name)); model != "" {
			out = append(out, profile.Source{From: profile.FromEnvironment, Name: name, Options: runnel.Options{Model: model}})
			break
		}
	}
	return out, section("", optionsKey)
}

// messageOf returns the part of an error that users see.
func messageOf(err error) string {
	if e, ok := errors.AsType[*runnel.Error](err); ok {
		return e.Message
	}
	return err.Error()
}

// useOptions applies default options. It replaces aliases of agents by their
// names. It must be called after useAgents.
func (a *app) useOptions(path string, sources []profile.Source) error {
	index := detect.NewIndex(a.providers)
	a.options = nil
	for _, s := range sources {
		if s.Agent != "" {
			p := index.Find(s.Agent)
			if p == nil {
				return badFile(path, fmt.Errorf("agents.%s: no known agent has this name", s.Agent))
			}
			s.Agent = p.Name()
		}
		a.options = append(a.options, s)
	}
	a.useBrokers()
	return nil
}

// useBrokers makes the providers start every process of an agent with a broker,
// if the configuration asks for brokers. This includes a process that runs no
// session, such as one that lists models.
func (a *app) useBrokers() {
	a.providers = slices.Clone(a.providers)
	for i, p := range a.providers {
		if b, ok := p.(runnel.KeyBroker); ok && a.brokers(p) {
			a.providers[i] = b.WithBroker()
		}
	}
}

// brokers reports whether the configuration asks for a broker for the API key of
// an agent.
func (a *app) brokers(p runnel.Provider) bool {
	return slices.ContainsFunc(a.options, func(s profile.Source) bool {
		return (s.Agent == "" || s.Agent == p.Name()) && s.Options.Keys == runnel.KeysBroker
	})
}

// checkOptions fails if the options of a source suit none of the agents for
// which they are meant.
func (a *app) checkOptions(allowBypass bool) error {
	for _, s := range a.options {
		var first error
		fits := false
		for _, p := range a.providers {
			if s.Agent != "" && s.Agent != p.Name() {
				continue
			}
			_, err := s.Checked(func(opt runnel.Options) (runnel.Options, error) {
				opt.AllowBypass = allowBypass
				return runnel.CheckOptions(p, opt, nil)
			})
			fits, first = fits || err == nil, cmp.Or(first, err)
		}
		if !fits {
			return usage("the configuration: %s", termtext.Clean(messageOf(first)))
		}
	}
	return nil
}

// sources returns the sources of the options with which the agent of a prompt
// starts. prof is the profile of the prompt, or nil.
func (a *app) sources(p runnel.Provider, opt runnel.Options, prof *profile.Profile) (profile.Sources, error) {
	return profile.ForAgent(p, opt, prof, nil, a.options)
}

// listed returns a text that lists the options that neither the client nor the
// agent chose.
func listed(by profile.Resolved) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(by)) {
		if o := by[name]; o.From != profile.FromSession && o.From != profile.FromAgent {
			out = append(out, fmt.Sprintf("%s %v (%s)", name, o.Value, o.From))
		}
	}
	return strings.Join(out, ", ")
}
