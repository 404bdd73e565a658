package main

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel/gateway"
)

func (a *app) retentionCommand() *cobra.Command {
	var age time.Duration
	var size int
	var apply, asJSON bool
	cmd := &cobra.Command{
		Use:   "retention",
		Short: "Show or delete old sessions",
		Long: `Show which sessions the running server will delete, and what that frees. The
settings retention-age and retention-mib decide, and are off by default. With
--older-than and --max-mib, the command shows what other values would delete.

With --apply, it deletes these sessions now, like 'runnel sessions delete'. This
cannot be undone. A session in which a turn runs, an approval waits or prompts
are queued is never deleted, and one that was active in the last hour is not
deleted because of its size. The agents' own transcripts stay.

A session's git worktree is removed with the session, and so are files in it that
git ignores, such as node_modules. It stays if that would lose files that are not
committed, or commits that no other branch has. The command lists these
worktrees and what becomes of each.`,
		Example: `  runnel retention
  runnel retention --older-than 2160h
  runnel retention --max-mib 5000 --json | jq .freedBytes
  runnel retention --older-than 2160h --apply`,
		Args: nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if apply && age <= 0 && size <= 0 {
				return usage("--apply needs --older-than, --max-mib or both")
			}
			c, err := loadConfig(cmd.Flags())
			if err != nil {
				return err
			}
			ad, err := connect(cmd.Context(), c)
			if errors.Is(err, errNoServer) {
				return errStartServer
			}
			if err != nil {
				return err
			}
			query, body := url.Values{}, map[string]any{}
			if age > 0 {
				query.Set("olderThan", age.String())
				body["olderThan"] = age.String()
			}
			if size > 0 {
				query.Set("maxMib", strconv.Itoa(size))
				body["maxMib"] = size
			}
			var x gateway.Expiry
			if apply {
				err = ad.post(cmd.Context(), "/api/retention", body, &x)
			} else {
				err = ad.get(cmd.Context(), "/api/retention?"+query.Encode(), &x)
			}
			switch {
			case err != nil:
				return err
			case asJSON:
				return a.printJSON(x)
			}
			return a.printExpiry(x, apply)
		},
	}
	placeFlags(cmd.Flags())
	cmd.Flags().DurationVar(&age, "older-than", 0, "sessions that were not active for this long")
	cmd.Flags().IntVar(&size, "max-mib", 0, "the oldest sessions beyond `N` MiB in total")
	cmd.Flags().BoolVar(&apply, "apply", false, "delete the sessions now")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, in the format of GET /api/retention")
	return cmd
}

func (a *app) printExpiry(x gateway.Expiry, applied bool) error {
	if x.IndexBytes > 0 {
		defer a.stderrf("The indexes of the search and of stored conversations have %d bytes more.", x.IndexBytes)
	}
	switch {
	case x.OlderThan == "" && x.MaxBytes == 0:
		a.stderrf("No session is deleted: retention-age and retention-mib are not set. All sessions together have about %d bytes.", x.StoredBytes)
		return nil
	case x.Count == 0:
		a.stderrf("No session is old enough to be deleted. All sessions together have about %d bytes.", x.StoredBytes)
		return nil
	}
	t := table{columns: []column{{"ID", whole}, {"LAST ACTIVE", whole}, {"BYTES", whole}, {"REASON", whole}, {"FOLDER", cutStart}, {"TITLE", cutEnd}}}
	for _, s := range x.Sessions {
		t.add(cell(s.SessionID), when(s.LastActiveAt), strconv.FormatInt(s.Bytes, 10), cell(s.Reason), cell(s.ProjectDir), cell(oneLine(s.Title, 60)))
	}
	if err := t.write(a.out, a.width()); err != nil {
		return err
	}
	if err := a.printExpiredWorktrees(x.Sessions, applied); err != nil {
		return err
	}
	verb := "would be deleted, which frees"
	if applied {
		verb = "deleted, which freed"
	}
	a.stderrf("%s %s about %d of %d bytes.", plural(x.Count, "session"), verb, x.FreedBytes, x.StoredBytes)
	return nil
}

// printExpiredWorktrees prints what becomes of the worktrees of sessions.
func (a *app) printExpiredWorktrees(list []gateway.Expired, applied bool) error {
	t := table{columns: []column{{"WORKTREE", cutStart}, {"SESSION", whole}, {"NOT COMMITTED", whole}, {"WHAT HAPPENS", cutEnd}}}
	shown := 0
	for _, s := range list {
		if w := s.Worktree; w != nil {
			shown++
			t.add(cell(w.Root), cell(s.SessionID), strconv.Itoa(w.Uncommitted), cell(oneLine(worktreeFate(*w, applied), 600)))
		}
	}
	if shown == 0 {
		return nil
	}
	fmt.Fprintln(a.out)
	return t.write(a.out, a.width())
}

// worktreeFate says what becomes of the worktree of a deleted session.
func worktreeFate(w gateway.DeletedWorktree, applied bool) string {
	removed := "is removed"
	if applied {
		removed = "removed"
	}
	switch {
	case w.Unexamined:
		return "not examined: is removed unless that loses work"
	case w.Stays:
		return "stays: " + w.Why
	case len(w.Ignored) > 0:
		return removed + " with the ignored files " + strings.Join(w.Ignored, ", ")
	}
	return removed
}
