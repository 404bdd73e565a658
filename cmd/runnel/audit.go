package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel/audit"
	"github.com/runnel-dev/runnel/internal/termtext"
)

// auditFlags are the flags of `audit`.
type auditFlags struct {
	follow, verify, asJSON bool
	since                  string
}

func (a *app) auditCommand() *cobra.Command {
	var f auditFlags
	cmd := &cobra.Command{
		Use:   "audit [--follow] [--verify] [--since TIME] [--json]",
		Short: "Print who did what with credentials, approvals, rules and sessions",
		Long: `Print the audit log: logins, tokens, decisions about approvals with the person or
the rule behind each, changes of rules, sessions that may act without asking,
deletions, refused requests, and starts and stops of the server. Nobody can
change or remove entries through Runnel.

Each entry has a code that covers it and all entries before it, made with the
key in the file of 'runnel serve --key-file'. --verify checks all of them and
reports a changed, removed or inserted entry, and entries missing at the end. A
program that can read that key can forge the log; agents in a sandbox cannot.

The command uses the running server, or the data directory if no server runs.
--follow continues when the server restarts, and prints each entry once.`,
		Example: `  runnel audit --since 24h
  runnel audit --follow
  runnel audit --verify
  runnel audit --json > audit.jsonl`,
		Args: nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var since time.Time
			if f.since != "" {
				var err error
				if since, err = timeOf(f.since, time.Now()); err != nil {
					return usage("--since: %s", err)
				}
			}
			if f.verify && (f.follow || f.since != "") {
				return usage("--verify checks the whole log; leave out --follow and --since")
			}
			trail, err := a.findAudit(cmd, f.follow)
			if err != nil {
				return err
			}
			if f.verify {
				return a.verifyAudit(cmd.Context(), trail, f.asJSON)
			}
			return a.printAudit(cmd.Context(), trail, since, f)
		},
	}
	placeFlags(cmd.Flags())
	cmd.Flags().BoolVarP(&f.follow, "follow", "f", false, "also print entries to come, until Ctrl-C; needs the server")
	cmd.Flags().BoolVar(&f.verify, "verify", false, "check that no entry was changed or removed; exit status 1 if one was")
	cmd.Flags().StringVar(&f.since, "since", "", "leave out entries before `TIME`: a date, an RFC 3339 time, or an age such as 2h or 7d")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print JSON, one entry per line")
	return cmd
}

// A trail is an audit log, read through the server or without one.
type trail interface {
	// read returns the next entries. It waits up to wait for one.
	read(ctx context.Context, q audit.Query, wait time.Duration) ([]audit.Record, error)
	verify(ctx context.Context) (audit.Report, error)
}

// findAudit returns the audit log. If follow is set, reads from the server wait
// for a server that is away, once one read has succeeded.
func (a *app) findAudit(cmd *cobra.Command, follow bool) (trail, error) {
	c, err := loadConfig(cmd.Flags())
	if err != nil {
		return nil, err
	}
	ad, err := connect(cmd.Context(), c)
	if err == nil {
		t := &remoteTrail{ad: ad}
		if follow {
			t.link = &serverLink{ad: ad, say: a.stderrf}
		}
		return t, nil
	}
	if !errors.Is(err, errNoServer) {
		return nil, err
	}
	if err := refuseAgent(c.Data); err != nil {
		return nil, err
	}
	if _, err := os.Stat(c.KeyFile); errors.Is(err, fs.ErrNotExist) { // reading must not create a key
		return nil, fmt.Errorf("there is no audit log yet: %s does not exist; the first 'runnel serve' creates it", termtext.Clean(c.KeyFile))
	}
	key, err := a.loadKey(c)
	if err != nil {
		return nil, err
	}
	return localTrail{auditPlace(c, key)}, nil
}

type remoteTrail struct {
	ad    *admin
	link  *serverLink // of a reader that waits for the server. Default: none
	begun bool        // a read has succeeded
}

// errOtherLog is returned if the entries that follow cannot be known.
var errOtherLog = errors.New("the server's audit log was replaced: it ends before the last entry that was printed; start the command again to read it from its beginning")

func (r *remoteTrail) read(ctx context.Context, q audit.Query, wait time.Duration) ([]audit.Record, error) {
	v := url.Values{"after": {strconv.FormatUint(q.After, 10)}, "limit": {strconv.Itoa(q.Limit)}}
	if !q.Since.IsZero() {
		v.Set("since", q.Since.UTC().Format(time.RFC3339))
	}
	if wait > 0 {
		v.Set("wait", strconv.Itoa(int(wait.Seconds())))
	}
	var out struct {
		Entries []audit.Record `json:"entries"`
		Last    uint64         `json:"last"`
	}
	get := func() error {
		err := r.ad.get(ctx, "/api/audit?"+v.Encode(), &out)
		v.Del("wait") // a repetition finds out at once which log the server has
		return err
	}
	var err error
	if r.link != nil && r.begun {
		err = r.link.retryBusy(ctx, get)
	} else {
		err = get()
	}
	switch {
	case err != nil:
		return nil, err
	case out.Last < q.After:
		return nil, errOtherLog
	}
	r.begun = true
	return out.Entries, nil
}

func (r *remoteTrail) verify(ctx context.Context) (out audit.Report, err error) {
	err = r.ad.get(ctx, "/api/audit/verify", &out)
	return out, err
}

type localTrail struct{ place audit.Place }

func (l localTrail) read(_ context.Context, q audit.Query, wait time.Duration) ([]audit.Record, error) {
	if wait > 0 {
		return nil, errStartServer
	}
	return audit.Read(l.place.Dir, q)
}

func (l localTrail) verify(context.Context) (audit.Report, error) { return audit.Verify(l.place) }

const auditPage = 1000

func (a *app) printAudit(ctx context.Context, t trail, since time.Time, f auditFlags) error {
	q := audit.Query{Since: since, Limit: auditPage}
	wait := time.Duration(0)
	for {
		entries, err := t.read(ctx, q, wait)
		switch {
		case ctx.Err() != nil:
			return nil // Ctrl-C ends --follow
		case err != nil:
			return err
		}
		for _, e := range entries {
			if err := a.printAuditEntry(e, f.asJSON); err != nil {
				return err
			}
			q.After = e.N
		}
		switch {
		case len(entries) == auditPage:
		case !f.follow:
			return nil
		default:
			wait = adminTimeout - 5*time.Second
		}
	}
}

func (a *app) printAuditEntry(e audit.Record, asJSON bool) error {
	if asJSON {
		return a.encoder().Encode(e)
	}
	parts := []string{e.At.Local().Format(time.DateTime), string(e.Kind)}
	if who := cmp.Or(e.Who, string(e.By)); who != "" {
		parts = append(parts, "by", who)
	}
	if e.Address != "" {
		parts = append(parts, "from", e.Address)
	}
	if e.Choice != "" {
		parts = append(parts, e.Choice)
	}
	if e.What != "" {
		parts = append(parts, "–", e.What)
	}
	if e.Why != "" {
		parts = append(parts, "("+e.Why+")")
	}
	if e.Rule != 0 {
		parts = append(parts, "rule "+strconv.FormatInt(e.Rule, 10))
	}
	if e.Count > 1 {
		parts = append(parts, "× "+strconv.FormatInt(e.Count, 10))
	}
	if e.Session != "" {
		parts = append(parts, "in session", e.Session)
	}
	_, err := fmt.Fprintf(a.out, "%6d  %s\n", e.N, termtext.Clean(strings.Join(parts, " ")))
	return err
}

// errAuditDamaged is returned after the problems were printed.
var errAuditDamaged = errors.New("the audit log is not as it was written; compare it with a backup or an export, and find out who can write to the data directory")

func (a *app) verifyAudit(ctx context.Context, t trail, asJSON bool) error {
	report, err := t.verify(ctx)
	if err != nil {
		return err
	}
	damaged := func() error {
		if len(report.Problems) > 0 {
			return errAuditDamaged
		}
		return nil
	}
	if asJSON {
		return errors.Join(a.printJSON(report), damaged())
	}
	for _, p := range report.Problems {
		if _, err := fmt.Fprintln(a.out, termtext.Clean(p.String())); err != nil {
			return err
		}
	}
	if err := damaged(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.out, "%d entries, all as they were written\n", report.Entries)
	return err
}
