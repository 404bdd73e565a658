package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel/gateway"
)

func (a *app) denialsCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "denials ID",
		Short: "List the paths that a session's sandbox has denied",
		Long: `List the existing paths outside of the sandbox of a session that programs in it
could not read or write, oldest first, as the outputs of tools say. A program can
print anything, so read each path as a suggestion. Protected paths, such as
~/.ssh, are never listed. The list has at most 100 paths. It needs the running
server and a credential with the scope "approve".

'runnel rules add allow sandbox_read PATH --session ID' lets programs read a path,
and sandbox_write lets them write it, too.`,
		Example: `  runnel denials 0192f0c1
  runnel denials --json 0192f0c1 | jq -r '.denials[].path'
  runnel rules add allow sandbox_read /data/models --session 0192f0c1`,
		Args: exactly(1, "the id of a session is needed; 'runnel sessions list' shows them"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withSession(cmd, args[0], func(r remoteSessions, id string) error {
				record, err := r.denials(cmd.Context(), id)
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(record)
				}
				return a.printDenials(record)
			})
		},
	}
	placeFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

func (r remoteSessions) denials(ctx context.Context, id string) (record gateway.DenialRecord, err error) {
	err = r.ad.get(ctx, sessionPath(id, "denials"), &record)
	return record, err
}

func (a *app) printDenials(record gateway.DenialRecord) error {
	if record.Dropped > 0 {
		a.stderrf("%d further denials are not in the record", record.Dropped)
	}
	if len(record.Denials) == 0 {
		a.stderrf("Nothing: no tool in a sandbox of this session has reported a path outside that a rule could allow")
		return nil
	}
	t := &table{columns: []column{{"TIME", whole}, {"ACCESS", whole}, {"PATH", cutStart}, {"TOOL", cutEnd}}}
	for _, d := range record.Denials {
		t.add(d.At.Local().Format("15:04:05"), cell(string(d.Access)), cell(d.Path), cell(d.Tool))
	}
	return t.write(a.out, a.width())
}
