package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel/audit"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/internal/termtext"
	"github.com/runnel-dev/runnel/store"
	"github.com/runnel-dev/runnel/store/sqlite"
)

// tokenRow is a credential as lists show it.
type tokenRow struct {
	ID         string          `json:"id"`
	Kind       store.TokenKind `json:"kind"`
	Name       string          `json:"name"`
	Scopes     []string        `json:"scopes"`
	ProjectDir string          `json:"projectDir"`
	CreatedAt  time.Time       `json:"createdAt"`
	LastUsedAt time.Time       `json:"lastUsedAt"`
	ExpiresAt  *time.Time      `json:"expiresAt"`
}

// tokenRequest describes the token to create.
type tokenRequest struct {
	Name       string   `json:"name"`
	Scopes     []string `json:"scopes"`
	LifeDays   int      `json:"lifeDays,omitzero"`
	ProjectDir string   `json:"projectDir,omitzero"`
}

func (in tokenRequest) life() time.Duration { return time.Duration(in.LifeDays) * 24 * time.Hour }

// A keyring manages credentials, through the server or in the data directory.
type keyring interface {
	// create returns the secret and its expiry; nil means never.
	create(ctx context.Context, in tokenRequest) (secret string, expires *time.Time, err error)
	list(ctx context.Context) ([]tokenRow, error)
	rename(ctx context.Context, id, name string) error
	revoke(ctx context.Context, id string) error
}

func (a *app) tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Create, list and revoke credentials for programs",
		Long: `Create, list and revoke the credentials of programs and browsers. The commands
use the running server, or the data directory if no server runs.

A token has one or more scopes. No scope includes another one:

  read     read sessions and their events
  send     create, prompt, cancel, end and delete sessions
  approve  answer approvals, manage rules, and choose settings that let an agent
           act without asking: a permission mode, an option or an MCP server
  admin    create, list and revoke credentials`,
		Example: `  runnel token create ci --scope read,send --days 30
  runnel token list
  runnel token revoke 0192f0c1-7d5e-7c3a-9d0e-2b1f6f0f6a11`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("unknown command %q; use create, list or revoke", termtext.Clean(args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.tokenCreate(), a.tokenList(), a.tokenRevoke())
	return cmd
}

func (a *app) tokenCreate() *cobra.Command {
	var in tokenRequest
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a token and print it",
		Long: `Create a token for a program and print it. Save the token: runnel stores only
its hash and cannot show it again. The program sends the token in the header
"Authorization: Bearer TOKEN".

A token with the scope admin can create other tokens. They expire or are revoked
together with it. A token created with --project can see and use only the
sessions in one directory.

Processes that an agent started cannot answer approvals or manage credentials,
whatever scopes their token has.`,
		Example: "  runnel token create dashboard\n  runnel token create ci --scope read,send --days 30\n  runnel token create bot --scope read,send --project ~/src/site",
		Args:    exactly(1, "a name is needed, which says what the token is for"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Name = args[0]
			if err := in.check(); err != nil {
				return err
			}
			return a.withKeyring(cmd, func(k keyring) error {
				secret, expires, err := k.create(cmd.Context(), in)
				if err != nil {
					return err
				}
				if expires != nil && (in.LifeDays == 0 || time.Until(*expires) < in.life()-time.Hour) {
					a.stderrf("runnel: this token expires on %s, together with the credential that created it", when(*expires))
				}
				_, err = fmt.Fprintln(a.out, secret)
				return err
			})
		},
	}
	placeFlags(cmd.Flags())
	cmd.Flags().StringSliceVar(&in.Scopes, "scope", []string{string(auth.Read)}, "`SCOPES` of the token: read, send, approve, admin")
	cmd.Flags().IntVar(&in.LifeDays, "days", 0, "expire the token after `N` days; 0: never")
	cmd.Flags().StringVar(&in.ProjectDir, "project", "", "`DIR` whose sessions the token can use; default: all sessions")
	return cmd
}

// check completes what the user typed, or returns what is wrong with it.
func (in *tokenRequest) check() error {
	scopes, err := auth.ParseScopes(in.Scopes)
	if err != nil {
		return usage("%s", err)
	}
	if err := auth.CheckName(in.Name); err != nil {
		return usage("the name %q: %s", in.Name, err)
	}
	if in.LifeDays < 0 || in.LifeDays > 3650 {
		return usage("--days: %d is out of range; want 0 to 3650", in.LifeDays)
	}
	if in.ProjectDir == "" {
		return nil
	}
	if slices.Contains(scopes, auth.Admin) {
		return usage("--project: %s", auth.ErrBoundAdmin)
	}
	dir, err := filepath.Abs(in.ProjectDir)
	if err == nil {
		in.ProjectDir, err = auth.ProjectDir(dir)
	}
	if err != nil {
		return usage("--project: %s", err)
	}
	return nil
}

func (a *app) tokenList() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List credentials, without their secrets",
		Long: `List the credentials of programs and browsers, without their secrets. On a
terminal, ids and long columns are shortened; 'runnel token revoke' accepts the
beginning of an id.`,
		Example: "  runnel token list",
		Args:    nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withKeyring(cmd, func(k keyring) error {
				rows, err := k.list(cmd.Context())
				if err != nil {
					return err
				}
				if len(rows) == 0 {
					a.stderrf("There are no credentials; 'runnel token create' creates one.")
					return nil
				}
				list := table{columns: []column{{"ID", whole}, {"KIND", whole}, {"NAME", cutEnd}, {"SCOPES", cutEnd}, {"PROJECT", cutStart}, {"LAST USED", whole}, {"EXPIRES", whole}}}
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
					project := "all"
					if t.ProjectDir != "" {
						project = t.ProjectDir
					}
					list.add(cell(ids[i]), cell(string(t.Kind)), cell(t.Name), cell(strings.Join(t.Scopes, ",")), cell(project), when(t.LastUsedAt), expires)
				}
				return list.write(a.out, width)
			})
		},
	}
	placeFlags(cmd.Flags())
	return cmd
}

func (a *app) tokenRevoke() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revoke ID",
		Short: "Revoke a credential",
		Long: `Revoke a credential and all credentials that were created with it, and close
their streams. ID may be the beginning of an id.`,
		Example: "  runnel token list\n  runnel token revoke 0192f0c1-7d5e",
		Args:    exactly(1, "the id of a credential is needed; 'runnel token list' shows the ids"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withKeyring(cmd, func(k keyring) error {
				id, err := pickToken(cmd.Context(), k, args[0])
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

// pickToken returns the id of the credential whose id is given, or of the only
// one whose id begins with it.
func pickToken(ctx context.Context, k keyring, given string) (string, error) {
	return pickCredential(ctx, k, given, "there is no such credential; 'runnel token list' lists all")
}

// pickCredential is pickToken with the error for an id of nothing in the list.
func pickCredential(ctx context.Context, k keyring, given, none string) (string, error) {
	rows, err := k.list(ctx)
	if err != nil {
		return "", err
	}
	var found []string
	for _, t := range rows {
		if given != "" && strings.HasPrefix(t.ID, given) {
			found = append(found, t.ID)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", errors.New(none)
	}
	return "", usage("%d credentials have ids that begin with %s; give more of the id", len(found), termtext.Clean(given))
}

// when formats a time for a person.
func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04")
}

// withKeyring calls f with the credentials of the data directory.
func (a *app) withKeyring(cmd *cobra.Command, f func(keyring) error) error {
	return a.withRecords(cmd,
		func(ad *admin) error { return f(remoteKeyring{ad}) },
		func(st *sqlite.Store, l localAudit) error { return f(localKeyring{auth.NewKeyring(st), l}) })
}

type remoteKeyring struct{ ad *admin }

func (r remoteKeyring) create(ctx context.Context, in tokenRequest) (string, *time.Time, error) {
	var out struct {
		Token     string     `json:"token"`
		ExpiresAt *time.Time `json:"expiresAt"`
	}
	err := r.ad.post(ctx, "/api/tokens", in, &out)
	if err == nil && !auth.IsSecret(out.Token) { // another program than runnel may have answered
		err = errors.New("the server's response contains no token; check that RUNNEL_URL is the address of a runnel server")
	}
	return out.Token, out.ExpiresAt, err
}

func (r remoteKeyring) list(ctx context.Context) ([]tokenRow, error) {
	var out struct {
		Tokens []tokenRow `json:"tokens"`
	}
	err := r.ad.get(ctx, "/api/tokens", &out)
	return out.Tokens, err
}

func (r remoteKeyring) rename(ctx context.Context, id, name string) error {
	return r.ad.post(ctx, "/api/tokens/"+url.PathEscape(id)+"/rename", map[string]string{"name": name}, nil)
}

func (r remoteKeyring) revoke(ctx context.Context, id string) error {
	return r.ad.post(ctx, "/api/tokens/"+url.PathEscape(id)+"/revoke", struct{}{}, nil)
}

type localKeyring struct {
	keys  *auth.Keyring
	audit localAudit
}

func (l localKeyring) create(ctx context.Context, in tokenRequest) (string, *time.Time, error) {
	scopes, err := auth.ParseScopes(in.Scopes)
	if err != nil {
		return "", nil, err
	}
	grant := auth.Grant{Name: in.Name, Scopes: scopes, Life: in.life(), Project: in.ProjectDir}
	if err := l.audit.record(audit.Record{Kind: audit.TokenCreated, What: grant.String()}); err != nil {
		return "", nil, err
	}
	secret, t, err := l.keys.Create(ctx, grant)
	if err != nil || t.ExpiresAt.IsZero() {
		return secret, nil, err
	}
	return secret, &t.ExpiresAt, nil
}

func (l localKeyring) list(ctx context.Context) ([]tokenRow, error) {
	ts, err := l.keys.List(ctx)
	if err != nil {
		return nil, err
	}
	rows := make([]tokenRow, len(ts))
	for i, t := range ts {
		rows[i] = tokenRow{t.ID, t.Kind, t.Name, t.Scopes, t.Project, t.CreatedAt, t.LastUsedAt, nil}
		if !t.ExpiresAt.IsZero() {
			rows[i].ExpiresAt = &t.ExpiresAt
		}
	}
	return rows, nil
}

func (l localKeyring) rename(ctx context.Context, id, name string) error {
	if err := l.audit.record(audit.Record{Kind: audit.Renamed, What: id + ": " + name}); err != nil {
		return err
	}
	_, err := l.keys.Rename(ctx, id, name)
	if errors.Is(err, store.ErrNotFound) {
		return errors.New("there is no such credential")
	}
	return err
}

func (l localKeyring) revoke(ctx context.Context, id string) error {
	if err := l.audit.record(audit.Record{Kind: audit.Revoked, What: id}); err != nil {
		return err
	}
	err := l.keys.Revoke(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return errors.New("there is no such credential")
	}
	return err
}

// exists reports whether the data directory contains a database. Commands that
// only read check it first, because opening the store would create one.
func exists(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "runnel.db"))
	return err == nil
}
