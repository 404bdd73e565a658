package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/termtext"
	"github.com/runnel-dev/runnel/provider/script"
)

// provider returns the provider with this name, or else the first agent that
// is installed.
func (a *app) provider(ctx context.Context, name string) (runnel.Provider, error) {
	if name != "" {
		if p := gateway.Find(a.providers, name); p != nil {
			return p, nil
		}
		return nil, usage("there is no agent %q; runnel knows %s", termtext.Clean(name), strings.Join(a.names(), ", "))
	}
	for _, p := range a.providers {
		if p.Name() != script.Name && probe(ctx, p).Installed { // that one is no agent
			return p, nil
		}
	}
	return nil, runnel.Fail(runnel.AgentNotInstalled, "no coding agent is installed; 'runnel agents' says how to get one, and --agent script plays a scripted one")
}

func (a *app) names() []string {
	var names []string
	for _, p := range a.providers {
		names = append(names, p.Name())
	}
	return names
}

// example returns the name of a provider for help texts.
func (a *app) example() string {
	for _, p := range a.providers {
		if p.Name() != script.Name {
			return p.Name()
		}
	}
	return script.Name
}

// probeTimeout bounds how long an agent may take to say who it is.
const probeTimeout = 10 * time.Second

func probe(ctx context.Context, p runnel.Provider) runnel.Installation {
	prober, ok := p.(runnel.Prober)
	if !ok {
		return runnel.Installation{Problem: "cannot be asked"}
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return prober.Probe(ctx)
}

// installed is a row of `runnel agents`.
type installed struct {
	CLIType string `json:"cliType"`
	runnel.Installation
	Capabilities []runnel.Capability `json:"capabilities"`
}

func (a *app) agentsCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "agents",
		Short: "Say which agents are installed, and how to get the others",
		Long: `Say which agents are installed, how to get the others, and how surely nothing of an
agent is left on this system once it has ended.`,
		Example: `  runnel agents
  runnel agents --json | jq -r '.[] | select(.installed) | .cliType'`,
		Args: nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rows := a.installations(cmd.Context())
			if asJSON {
				enc := json.NewEncoder(a.out)
				enc.SetIndent("", "  ")
				return enc.Encode(rows)
			}
			return a.printAgents(rows)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return cmd
}

// installations asks all providers at once.
func (a *app) installations(ctx context.Context) []installed {
	rows := make([]installed, len(a.providers))
	var wg sync.WaitGroup
	for i, p := range a.providers {
		wg.Go(func() {
			rows[i] = installed{p.Name(), probe(ctx, p), runnel.Capabilities(p)}
		})
	}
	wg.Wait()
	return rows
}

func (a *app) printAgents(rows []installed) error {
	w := tabwriter.NewWriter(a.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "AGENT\tVERSION\tWHERE\tTO DO")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.CLIType, cell(r.Version), cell(r.Path), cell(todo(r.Installation)))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(a.out, "\n"+ending())
	return err
}

// todo says what stands between the user and the agent.
func todo(in runnel.Installation) string {
	switch {
	case in.Problem != "" && in.Installed:
		return in.Problem
	case !in.Installed && in.Install != "":
		return "install it: " + in.Install
	case !in.Installed:
		return in.Problem
	case in.LoggedIn != nil && !*in.LoggedIn && in.Login != "":
		return "log in: " + in.Login
	}
	return ""
}

// cell makes text of others one cell of a table.
func cell(s string) string {
	s = strings.Join(strings.Fields(termtext.Clean(s)), " ")
	if s == "" {
		return "-"
	}
	return s
}
