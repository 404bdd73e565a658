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
		Short: "Back up the data directory, also while the server runs",
		Long: `Copy the sessions, events, queued prompts, rules and credentials (as hashes) of
the data directory into a new file, which only you can read. A running server
continues meanwhile. The backup contains everything that the server had
acknowledged before the command started.

To restore a backup, stop the server and make the backup the database of an
empty data directory, as in the examples. The backup does not contain uploaded
files: prompts that were sent no longer need them, and the server deletes them
after some time.

The definitions of MCP servers contain credentials, so they are encrypted with
the key in the file of 'runnel serve --key-file'. Copy that file to another
place: without it, restored sessions with MCP servers can be read, but not
continued.

Deleting a session removes every byte of it from the data directory, but not
from backups. Delete these backups, too, if no copy may remain.`,
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
