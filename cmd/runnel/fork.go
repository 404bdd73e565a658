package main

import (
	"io"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel/internal/termtext"
)

func (a *app) sessionsFork() *cobra.Command {
	var turn string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "fork [--turn TURN] [--json] ID",
		Short: "Continue a copy of a session",
		Long: `Create a session that continues from a copy of another one, which stays as it
is. The id of the new session is printed. With --turn, the session continues
after that turn, whose id 'runnel sessions items --json' shows. If the agent
cannot go back to that turn, the session is empty and --json also prints a
draft, which quotes the earlier turns: begin the first prompt with it. The
command needs the running server.`,
		Example: `  runnel sessions fork 0192f0c1
  runnel sessions fork --turn TURN --json 0192f0c1 | jq -r .draft > prompt.md`,
		Args: exactly(1, "the id of a session is needed; 'runnel sessions list' shows them"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withSession(cmd, args[0], func(r remoteSessions, id string) error {
				var forked struct {
					SessionID string `json:"sessionId"`
					CLIType   string `json:"cliType"`
					Draft     string `json:"draft,omitempty"`
				}
				link := &serverLink{ad: r.ad, wait: restartWait, say: a.stderrf}
				if err := link.create(cmd.Context(), sessionPath(id, "fork"), uuid.NewString(), map[string]string{"turnId": turn}, &forked); err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(forked)
				}
				if forked.Draft != "" {
					a.stderrf("The session is empty, because the agent cannot go back to this turn. --json prints a draft for its first prompt.")
				}
				_, err := io.WriteString(a.out, termtext.Clean(forked.SessionID)+"\n")
				return err
			})
		},
	}
	placeFlags(cmd.Flags())
	cmd.Flags().StringVar(&turn, "turn", "", "continue after this turn (default: the last one)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}
