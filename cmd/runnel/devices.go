package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/internal/termtext"
	"github.com/runnel-dev/runnel/store"
)

func (a *app) devicesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "devices",
		Short: "List, rename and revoke the logins of browsers",
		Long: `List, rename and revoke the devices that are logged in to the page. The commands
use the running server, or the data directory if no server runs.

Each login is a device. Its first name is made from what the browser says about
itself, such as "Safari on iPhone". A login ends after 30 days without use, and
each use renews it. 'runnel token' manages the credentials of programs, too.`,
		Example: `  runnel devices list
  runnel devices rename 0192f0c1 "Anna's phone"
  runnel devices revoke 0192f0c1`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("unknown command %q; use list, rename or revoke", termtext.Clean(args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.devicesList(), a.devicesRename(), a.devicesRevoke())
	return cmd
}

// A deviceKeyring lists only the credentials of browsers.
type deviceKeyring struct{ keyring }

func (d deviceKeyring) list(ctx context.Context) ([]tokenRow, error) {
	all, err := d.keyring.list(ctx)
	var devices []tokenRow
	for _, t := range all {
		if t.Kind == store.TokenBrowser {
			devices = append(devices, t)
		}
	}
	return devices, err
}

func (a *app) devicesList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the devices that are logged in to the page",
		Long: `List the devices that are logged in to the page. On a terminal, ids and long
names are shortened; the other commands accept the beginning of an id. The time
of the last use is recorded at most once an hour.`,
		Example: "  runnel devices list",
		Args:    nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withKeyring(cmd, func(k keyring) error {
				rows, err := deviceKeyring{k}.list(cmd.Context())
				if err != nil {
					return err
				}
				if asJSON {
					for _, t := range rows {
						if err := a.encoder().Encode(t); err != nil {
							return err
						}
					}
					return nil
				}
				if len(rows) == 0 {
					a.stderrf("No device is logged in; 'runnel login' prints a link.")
					return nil
				}
				return a.printDevices(rows)
			})
		},
	}
	placeFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per line")
	return cmd
}

func (a *app) printDevices(rows []tokenRow) error {
	list := table{columns: []column{{"ID", whole}, {"NAME", cutEnd}, {"SCOPES", cutEnd}, {"CREATED", whole}, {"LAST USED", whole}, {"EXPIRES", whole}}}
	var ids []string
	for _, t := range rows {
		ids = append(ids, t.ID)
	}
	width := a.width()
	if width > 0 {
		ids = beginnings(ids)
	}
	for i, t := range rows {
		expires := "never"
		if t.ExpiresAt != nil {
			expires = when(*t.ExpiresAt)
		}
		list.add(cell(ids[i]), cell(t.Name), cell(strings.Join(t.Scopes, ",")), when(t.CreatedAt), when(t.LastUsedAt), expires)
	}
	return list.write(a.out, width)
}

func (a *app) devicesRename() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "rename ID NAME",
		Short:   "Rename a device",
		Long:    `Give a device another name. ID may be the beginning of an id.`,
		Example: `  runnel devices rename 0192f0c1 "Anna's phone"`,
		Args:    exactly(2, "the id of a device and a name are needed; 'runnel devices list' shows the ids"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := auth.CheckName(args[1]); err != nil {
				return usage("the name %q: %s", args[1], err)
			}
			return a.withKeyring(cmd, func(k keyring) error {
				id, err := pickDevice(cmd.Context(), k, args[0])
				if err != nil {
					return err
				}
				return k.rename(cmd.Context(), id, args[1])
			})
		},
	}
	placeFlags(cmd.Flags())
	return cmd
}

func (a *app) devicesRevoke() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revoke ID",
		Short: "Log a device out",
		Long: `Log a device out, and revoke all credentials that were created with its login.
Their streams end at once. ID may be the beginning of an id.`,
		Example: "  runnel devices list\n  runnel devices revoke 0192f0c1",
		Args:    exactly(1, "the id of a device is needed; 'runnel devices list' shows the ids"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withKeyring(cmd, func(k keyring) error {
				id, err := pickDevice(cmd.Context(), k, args[0])
				if err != nil {
					return err
				}
				return k.revoke(cmd.Context(), id)
			})
		},
	}
	placeFlags(cmd.Flags())
	return cmd
}

// pickDevice returns the id of the device whose id, or its beginning, is given.
func pickDevice(ctx context.Context, k keyring, given string) (string, error) {
	return pickCredential(ctx, deviceKeyring{k}, given, "there is no such device; 'runnel devices list' lists all")
}
