package main

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/egress"
)

func (a *app) egressCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "egress ID",
		Short: "List what a session's sandbox tried to reach in the network",
		Long: `List every attempt of programs in the sandbox of a session to reach the network,
oldest first: whether it was allowed and by what, and how many bytes passed. The
record has at most 1000 attempts. It needs the running server.

A session has a sandbox if it was started with --sandbox project, or if the
configuration or the session's profile asks for it:

  options:
    sandbox: project
    egress:
      allow: [example.com, "*.example.org", localhost:5432]
      sets: [packages, git]`,
		Example: `  runnel egress 0192f0c1
  runnel egress --json 0192f0c1 | jq -r '.attempts[] | select(.by == null).host'`,
		Args: exactly(1, "the id of a session is needed; 'runnel sessions list' shows them"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withSession(cmd, args[0], func(r remoteSessions, id string) error {
				record, err := r.egress(cmd.Context(), id)
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(record)
				}
				return a.printEgress(record)
			})
		},
	}
	placeFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

func (r remoteSessions) egress(ctx context.Context, id string) (record gateway.EgressRecord, err error) {
	err = r.ad.get(ctx, sessionPath(id, "egress"), &record)
	return record, err
}

func (a *app) printEgress(record gateway.EgressRecord) error {
	if record.Dropped > 0 {
		a.stderrf("%d older attempts are no longer in the record", record.Dropped)
	}
	if len(record.Attempts) == 0 {
		a.stderrf("Nothing: no program in a sandbox of this session tried to reach the network")
		return nil
	}
	t := &table{columns: []column{{"TIME", whole}, {"RESULT", whole}, {"HOST", cutEnd}, {"SENT", whole}, {"RECEIVED", whole}, {"WHY", cutEnd}}}
	for _, e := range record.Attempts {
		result, why := "allowed", e.By
		switch {
		case e.By == "":
			result, why = "blocked", e.Why
		case e.Why != "":
			result, why = "failed", e.Why
		case e.Open:
			result = "open"
		}
		t.add(e.At.Local().Format("15:04:05"), result, cell(net.JoinHostPort(e.Host, strconv.Itoa(e.Port))), strconv.FormatInt(e.Sent, 10), strconv.FormatInt(e.Received, 10), cell(why))
	}
	return t.write(a.out, a.width())
}

// guardedBy adds to opt what no sandbox of an agent may contain: the files of
// the settings c.
func guardedBy(c config) (protected []string) {
	for _, agent := range c.agents {
		if agent.KeyFile != "" {
			protected = append(protected, agent.KeyFile)
		}
	}
	for _, path := range []string{c.Data, c.file, c.Socket, c.KeyFile, filepath.Join(filepath.Dir(c.KeyFile), "audit"), authorityFile(c), c.TLSKey, c.TLSCert, c.ProfilesDir} {
		if filepath.IsAbs(path) {
			protected = append(protected, path)
		}
	}
	return protected
}

// stateOfAgents returns the paths of the state of all agents. No sandbox of an
// agent may have one of them, or a folder to which a link there leads, as its
// project.
func (a *app) stateOfAgents() (paths []string) {
	for _, p := range a.providers {
		if keeper, ok := p.(runnel.StateKeeper); ok {
			paths = append(paths, keeper.StatePaths()...)
		}
	}
	return paths
}

// sandboxFlags adds the flags of a sandbox.
func (f *runFlags) sandboxFlags(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.sandbox, "sandbox", "", "what the agent can reach, a `MODE`: off, files to limit files only, or project for the project, its own state and the hosts of --egress; default: from the configuration file, or else off")
	fl.StringSliceVar(&f.egress, "egress", nil, "with --sandbox project: a `HOST` that programs can reach, such as example.com, *.example.com:8443 or localhost:5432; repeatable")
	fl.BoolVar(&f.egressAsk, "egress-ask", false, "with --sandbox project: ask about other hosts that programs reach for, instead of refusing them; without --ask they are refused")
	fl.StringSliceVar(&f.egressSets, "egress-set", nil, fmt.Sprintf("with --sandbox project: a `SET` of hosts that programs can reach: %s or %s; repeatable", egress.Sets()[0], egress.Sets()[1]))
}

// enclose adds the options of the flags of a sandbox.
func (f *runFlags) enclose(opt *runnel.Options) {
	opt.Sandbox, opt.Egress = runnel.Sandbox(f.sandbox), runnel.Egress{Allow: f.egress, Sets: f.egressSets}
	if f.egressAsk {
		opt.Egress.Mode = runnel.EgressAsk
	}
}
