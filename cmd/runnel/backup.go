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
		Short: "Copy everything that is kept into a file, while the server runs",
		Long: `Copy the sessions, their events, waiting prompts and credentials (as hashes) of
a data directory into a new file. It works while a server uses the directory,
which goes on, and without one. The copy has everything that was acknowledged
before, and only this user can read it.

To restore, stop the server and make the copy the database of an empty data
directory; see the examples. Files that clients uploaded are not copied:
the server forgets them after some time, and a prompt that was sent has them.

The definitions of MCP servers, which hold credentials, are encrypted in it with
the key of --key-file. Keep a copy of that file elsewhere: without it restored
sessions can be read, but those with MCP servers cannot go on.

A session that is deleted leaves the data directory, to the last byte, but not
the copies that were made before: delete those, too.`,
		Example: `  runnel backup /backups/runnel-$(date +%F).db
  mkdir -m 700 restored && cp /backups/runnel-2026-11-21.db restored/runnel.db
  runnel serve --data restored`,
		Args: exactly(1, "the name of the new file is needed"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := loadConfig(cmd.Flags())
			if err != nil {
				return err
			}
			if !exists(c.Data) {
				return fmt.Errorf("there is nothing to copy: nothing is kept in %s yet", termtext.Clean(c.Data))
			}
			if err := refuseAgent(c.Data); err != nil {
				return err
			}
			if err := sqlite.Backup(cmd.Context(), c.Data, args[0]); err != nil {
				return err
			}
			info, err := os.Stat(args[0])
			if err != nil {
				return errors.New("the copy was removed at once")
			}
			_, err = fmt.Fprintf(a.out, "%s: %d bytes\n", termtext.Clean(args[0]), info.Size())
			return err
		},
	}
	placeFlags(cmd.Flags())
	return cmd
}
