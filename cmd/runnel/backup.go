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
		Long: `Copy the data directory into a new file that only you can read. It contains the
sessions, events, queued prompts, rules, and hashes of the credentials. If the
name of FILE ends in .tar, the file is an archive that also contains the
uploaded files, the images of prompts and the audit log; with any other name, it
is a copy of the database alone. The server can keep running. The backup
contains everything that the server acknowledged before the command started.

'runnel restore' makes a data directory from a backup.

Uploads matter for queued prompts only: prompts that were already sent do not
need them, and the server deletes each upload after 24 hours. A backup contains
no debug captures, no search index and no index of agents' conversations. The
server makes both indexes again.

Definitions of MCP servers can contain credentials, so the server encrypts them
with the key in the file of 'runnel serve --key-file'. Keep a copy of that file
in another place. Without the key, you can read restored sessions that have MCP
servers, but you cannot continue them.

Deleting a session removes all its data from the data directory, but not from
backups. If no copy may remain, also delete the backups that contain it.`,
		Example: `  runnel backup /backups/runnel-$(date +%F).tar
  runnel restore /backups/runnel-2026-11-21.tar --data restored
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
			copies := sqlite.Backup
			if archived(args[0]) {
				copies = archive
			}
			if err := copies(cmd.Context(), c.Data, args[0]); err != nil {
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

func (a *app) restoreCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a data directory from a backup",
		Long: `Make a data directory from a file that 'runnel backup' wrote. The directory of
--data must be empty or missing, so that nothing is overwritten. To replace the
data of a server, stop the server and move its data directory away first.

Tokens, logins of devices and rules that were revoked or removed after the
backup are valid again. Check them with 'runnel token list', 'runnel devices
list' and 'runnel rules list'. Prompts that waited in a queue when the backup was
made may have run since, so they wait until you continue the queue, on the page
or with POST /api/session/ID/queue.

Sessions that have MCP servers also need the key of the original server: the
file of 'runnel serve --key-file', which no backup contains. So does the audit
log, for 'runnel audit --verify'. The next server records in it that the log may
lack entries, because the record of its last entry is in no backup.`,
		Example: `  runnel restore /backups/runnel-2026-11-21.tar --data restored
  runnel serve --data restored`,
		Args: exactly(1, "the path of the backup is needed"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := loadConfig(cmd.Flags())
			if err != nil {
				return err
			}
			if err := refuseAgent(c.Data); err != nil {
				return err
			}
			if err := restore(cmd.Context(), args[0], c.Data); err != nil {
				return err
			}
			a.stderrf("Restored %s; start the server with: runnel serve --data %s", termtext.Clean(c.Data), termtext.Clean(c.Data))
			a.stderrf("Tokens, devices and rules that were revoked or removed after the backup are valid again: check runnel token list, runnel devices list and runnel rules list.")
			a.stderrf("Prompts that waited in a queue when the backup was made wait until you continue the queue.")
			return nil
		},
	}
	placeFlags(cmd.Flags())
	return cmd
}

func (a *app) compactCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "compact",
		Short: "Make the database of a stopped server as small as possible",
		Long: `Rewrite the database and the search index without free space, while no server
runs. The command first removes the pieces of finished items, which the items
repeat, and the rest of deleted sessions. It deletes nothing that a client can
read. It needs as much free disk space as the larger of the two has content; a
file for which the space does not suffice stays as it is.

A running server does the same in the background, in small steps, except that
it leaves up to an eighth of the database free for new events.`,
		Example: `  runnel compact
  runnel compact --data /srv/runnel`,
		Args: nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(cmd.Flags())
			if err != nil {
				return err
			}
			if !exists(c.Data) {
				return fmt.Errorf("there is nothing to compact: %s contains no database; choose the data directory of a server with --data", termtext.Clean(c.Data))
			}
			if err := refuseAgent(c.Data); err != nil {
				return err
			}
			before, after, err := sqlite.CompactDir(cmd.Context(), sqlite.Config{Dir: c.Data})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.out, "%s: %d bytes, %d bytes less\n", termtext.Clean(c.Data), after, before-after)
			return err
		},
	}
	placeFlags(cmd.Flags())
	return cmd
}
