package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/internal/termtext"
	"github.com/runnel-dev/runnel/store"
	"github.com/runnel-dev/runnel/store/sqlite"
)

// tokenRow is what lists show of a credential.
type tokenRow struct {
	ID         string          `json:"id"`
	Kind       store.TokenKind `json:"kind"`
	Name       string          `json:"name"`
	Scopes     []string        `json:"scopes"`
	LastUsedAt time.Time       `json:"lastUsedAt"`
	ExpiresAt  *time.Time      `json:"expiresAt"`
}

// A keyring manages credentials, through the server or without one.
type keyring interface {
	create(ctx context.Context, name string, scopes []string, days int) (secret string, err error)
	list(ctx context.Context) ([]tokenRow, error)
	revoke(ctx context.Context, id string) error
}

func (a *app) tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Create, list and revoke credentials for programs",
		Long: `Create, list and revoke credentials for programs. It works with the running
server, or without one on its data directory.

Scopes: read (see sessions), send (create, prompt and end them), approve (answer
what an agent asks, also in advance by a permission mode or with MCP servers),
admin (manage credentials). They do not include one another.`,
		Example: `  runnel token create ci --scope read,send --days 30
  runnel token list
  runnel token revoke 0192f0c1-7d5e-7c3a-9d0e-2b1f6f0f6a11`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("there is no command %q; use create, list or revoke", termtext.Clean(args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.tokenCreate(), a.tokenList(), a.tokenRevoke())
	return cmd
}

func (a *app) tokenCreate() *cobra.Command {
	var scopes []string
	var days int
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a token and print it, this once",
		Long: `Make a token for a program and print it. It is shown this once; only its hash is
kept. The program sends it in the header "Authorization: Bearer TOKEN".`,
		Example: "  runnel token create dashboard\n  runnel token create ci --scope read,send --days 30",
		Args:    exactly(1, "a name is needed, such as what the token is for"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := auth.ParseScopes(scopes); err != nil {
				return usage("%s", err)
			}
			if days < 0 || days > 3650 {
				return usage("--days: 0 to 3650")
			}
			return withKeyring(cmd, func(k keyring) error {
				secret, err := k.create(cmd.Context(), args[0], scopes, days)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintln(a.out, secret)
				return err
			})
		},
	}
	placeFlags(cmd.Flags())
	cmd.Flags().StringSliceVar(&scopes, "scope", []string{string(auth.Read)}, "what it allows: read, send, approve, admin")
	cmd.Flags().IntVar(&days, "days", 0, "how long it lives; 0 until it is revoked")
	return cmd
}

func (a *app) tokenList() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List credentials, without their secrets",
		Args:  nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withKeyring(cmd, func(k keyring) error {
				rows, err := k.list(cmd.Context())
				if err != nil {
					return err
				}
				w := tabwriter.NewWriter(a.out, 0, 4, 2, ' ', 0)
				fmt.Fprintln(w, "ID\tKIND\tNAME\tSCOPES\tLAST USED\tEXPIRES")
				for _, t := range rows {
					expires := "never"
					if t.ExpiresAt != nil {
						expires = when(*t.ExpiresAt)
					}
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", t.ID, t.Kind, cell(t.Name), strings.Join(t.Scopes, ","), when(t.LastUsedAt), expires)
				}
				return w.Flush()
			})
		},
	}
	placeFlags(cmd.Flags())
	return cmd
}

func (a *app) tokenRevoke() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revoke ID",
		Short: "End a credential and every stream that relies on it",
		Args:  exactly(1, "the id of a credential is needed; 'runnel token list' shows them"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withKeyring(cmd, func(k keyring) error { return k.revoke(cmd.Context(), args[0]) })
		},
	}
	placeFlags(cmd.Flags())
	return cmd
}

// when shows a time to a person.
func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04")
}

// withKeyring calls f with the credentials of the data directory: the running
// server's, since it has locked them, or else our own.
func withKeyring(cmd *cobra.Command, f func(keyring) error) error {
	c, err := loadConfig(cmd.Flags())
	if err != nil {
		return err
	}
	ad, err := connect(cmd.Context(), c)
	if err == nil {
		return f(remoteKeyring{ad})
	}
	if !errors.Is(err, errNoServer) {
		return err
	}
	st, err := sqlite.Open(cmd.Context(), sqlite.Config{Dir: c.Data})
	if err != nil {
		return err
	}
	return errors.Join(f(localKeyring{auth.NewKeyring(st)}), st.Close())
}

type remoteKeyring struct{ ad *admin }

func (r remoteKeyring) create(ctx context.Context, name string, scopes []string, days int) (string, error) {
	in := struct {
		Name     string   `json:"name"`
		Scopes   []string `json:"scopes"`
		LifeDays int      `json:"lifeDays,omitzero"`
	}{name, scopes, days}
	var out struct {
		Token string `json:"token"`
	}
	err := r.ad.post(ctx, "/api/tokens", in, &out)
	return out.Token, err
}

func (r remoteKeyring) list(ctx context.Context) ([]tokenRow, error) {
	var out struct {
		Tokens []tokenRow `json:"tokens"`
	}
	err := r.ad.get(ctx, "/api/tokens", &out)
	return out.Tokens, err
}

func (r remoteKeyring) revoke(ctx context.Context, id string) error {
	return r.ad.post(ctx, "/api/tokens/"+url.PathEscape(id)+"/revoke", struct{}{}, nil)
}

type localKeyring struct{ keys *auth.Keyring }

func (l localKeyring) create(ctx context.Context, name string, scopes []string, days int) (string, error) {
	parsed, err := auth.ParseScopes(scopes)
	if err != nil {
		return "", err
	}
	secret, _, err := l.keys.Create(ctx, name, parsed, time.Duration(days)*24*time.Hour)
	return secret, err
}

func (l localKeyring) list(ctx context.Context) ([]tokenRow, error) {
	ts, err := l.keys.List(ctx)
	if err != nil {
		return nil, err
	}
	rows := make([]tokenRow, len(ts))
	for i, t := range ts {
		rows[i] = tokenRow{t.ID, t.Kind, t.Name, t.Scopes, t.LastUsedAt, nil}
		if !t.ExpiresAt.IsZero() {
			rows[i].ExpiresAt = &t.ExpiresAt
		}
	}
	return rows, nil
}

func (l localKeyring) revoke(ctx context.Context, id string) error {
	err := l.keys.Revoke(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return errors.New("there is no such credential")
	}
	return err
}

// exists reports whether there is a data directory at all, so that a command
// that only looks does not make one.
func exists(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "runnel.db"))
	return err == nil
}
