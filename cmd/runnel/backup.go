package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel/internal/termtext"
	"github.com/runnel-dev/runnel/store/sqlite"
)

func (a *app) backupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Back up the data directory, even while the server runs",
		Long: `Copy the database of the data directory into a new file that only you can read.
It contains the sessions, events, queued prompts, rules, and hashes of the
credentials. The server can keep running. The backup contains everything that
the server acknowledged before the command started.

To restore a backup, stop the server, copy the backup into an empty directory as
runnel.db, and start the server with that directory, as in the examples.

The backup contains no uploaded files. Prompts that were already sent do not
need them, and the server deletes each upload after 24 hours.

Definitions of MCP servers can contain credentials, so the server encrypts them
with the key in the file of 'runnel serve --key-file'. Keep a copy of that file
in another place. Without the key, you can read restored sessions that have MCP
servers, but you cannot continue them.

Deleting a session removes all its data from the data directory, but not from
backups. If no copy may remain, also delete the backups that contain it.`,
		Example: `  runnel backup /backups/runnel-$(date +%F).db
  mkdir -m 700 restored && cp /backups/runnel-2026-11-21.db restored/runnel.db
  runnel serve --data restored`,
		Args: exactly(1, "the path of the new backup file is needed"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := loadConfig(cmd.Flags())
			if err != nil {
				return err
			}
			if !exists(c.Data) {
				return fmt.Errorf("there is nothing to copy: %s contains no database; choose the data directory of a server with --data", termtext.Clean(c.Data))
			}
			if err := refuseAgent(c.Data); err != nil {
				return err
			}
			if err := sqlite.Backup(cmd.Context(), c.Data, args[0]); err != nil {
				return err
			}
			info, err := os.Stat(args[0])
			if err != nil {
				return errors.New("another program removed the backup; try again")
			}
			_, err = fmt.Fprintf(a.out, "%s: %d bytes\n", termtext.Clean(args[0]), info.Size())
			return err
		},
	}
	placeFlags(cmd.Flags())
	return cmd
}
