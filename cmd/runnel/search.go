package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/termtext"
	"github.com/runnel-dev/runnel/store"
	"github.com/runnel-dev/runnel/store/sqlite"
)

// openSearch opens the search index in the data directory. Without the setting
// search it deletes the index and returns nil. The server also runs without an
// index, for example if the disk is full.
func openSearch(ctx context.Context, c config, logID string, log *slog.Logger) (store.SearchIndex, func() error) {
	none := func() error { return nil }
	if !c.Search {
		if err := sqlite.RemoveSearch(c.Data); err != nil {
			log.Warn("the search index cannot be deleted", "error", err)
		}
		return nil, none
	}
	x, err := sqlite.OpenSearch(ctx, c.Data, logID, log)
	if err != nil {
		log.Warn("the search index cannot be opened; nothing can be searched until the next start", "error", err)
		return nil, none
	}
	return x, x.Close
}

func (a *app) searchCommand() *cobra.Command {
	var f searchFlags
	cmd := &cobra.Command{
		Use:   "search WORD...",
		Short: "Search prompts, answers, commands and diffs of all sessions",
		Long: `Search the items of all sessions, also of ended and archived ones, and of the
conversations that agents have stored in files, for example from a terminal, and
print the newest first: prompts, answers, tool calls with their outputs, and
changes to files. A conversation that is no session is named AGENT:ID.

An item must contain all words. Quotation marks enclose a phrase, and a final *
finds all words that begin like this one. Case and accents do not matter. It
needs the running server.`,
		Example: `  runnel search login redirect
  runnel search '"connection refused"' --kind command --since 48h
  runnel search 'migrat*' --folder . --json | jq -r .hits[].sessionId`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("nothing to search for; give one or more words")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			query, err := f.query(args)
			if err != nil {
				return err
			}
			return a.withSessions(cmd, func(s sessions) error {
				remote, ok := s.(remoteSessions)
				if !ok {
					return errStartServer
				}
				var page gateway.SearchPage
				if err := remote.ad.get(cmd.Context(), "/api/search?"+query.Encode(), &page); err != nil {
					return err
				}
				if f.json {
					return a.printJSON(page)
				}
				return a.printHits(page)
			})
		},
	}
	placeFlags(cmd.Flags())
	cmd.Flags().StringVar(&f.kind, "kind", "", "only these `KINDS`, separated by commas: prompt, answer, command, diff")
	cmd.Flags().StringVar(&f.agent, "agent", "", "only sessions with this `AGENT`, as in 'runnel agents'")
	cmd.Flags().StringVar(&f.folder, "folder", "", "only sessions in this `DIR`")
	cmd.Flags().StringVar(&f.since, "since", "", "only items from this `TIME` on: a date, a time such as 2026-01-31T12:00:00Z, or an age such as 48h")
	cmd.Flags().StringVar(&f.until, "until", "", "only items until this `TIME`")
	cmd.Flags().StringVar(&f.before, "before", "", "continue before this `POSITION`: next of the previous page")
	cmd.Flags().IntVar(&f.limit, "limit", 20, "print at most `N` items, up to 100")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the page of the API as JSON")
	return cmd
}

// searchFlags are the flags of the search command.
type searchFlags struct {
	kind, agent, folder, since, until, before string

	limit int
	json  bool
}

// query returns the parameters of GET /api/search.
func (f searchFlags) query(args []string) (url.Values, error) {
	q := url.Values{"q": {strings.Join(args, " ")}, "limit": {strconv.Itoa(max(f.limit, 1))}}
	set := func(name, value string) {
		if value != "" {
			q.Set(name, value)
		}
	}
	set("kind", f.kind)
	set("cliType", f.agent)
	set("before", f.before)
	if f.folder != "" {
		dir, err := filepath.Abs(f.folder)
		if err != nil {
			return nil, err
		}
		q.Set("projectDir", dir)
	}
	for name, value := range map[string]string{"since": f.since, "until": f.until} {
		if value == "" {
			continue
		}
		at, err := timeOf(value, time.Now())
		if err != nil {
			return nil, usage("--%s: %s", name, err)
		}
		q.Set(name, at.Format(time.RFC3339))
	}
	return q, nil
}

// timeOf returns the time that a flag gives: a date, a time, or an age.
func timeOf(value string, now time.Time) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, value); err == nil {
		return at, nil
	}
	if at, err := time.ParseInLocation(time.DateOnly, value, time.Local); err == nil {
		return at, nil
	}
	if age, err := time.ParseDuration(value); err == nil && age >= 0 {
		return now.Add(-age), nil
	}
	return time.Time{}, fmt.Errorf("%q is no time; want a date such as 2026-01-31, a time such as 2026-01-31T12:00:00Z, or an age such as 48h", termtext.Clean(value))
}

// printHits prints a page of hits for a person.
func (a *app) printHits(page gateway.SearchPage) error {
	switch {
	case page.Disabled:
		a.stderrf("The server keeps no search index; its setting search is false, or its log has an error.")
		return nil
	case len(page.Hits) == 0:
		a.stderrf("Nothing was found.")
	}
	bold, plain := "", ""
	if a.width() > 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" {
		bold, plain = "\x1b[1m", "\x1b[0m"
	}
	for _, h := range page.Hits {
		var b strings.Builder
		for _, p := range h.Snippet {
			text := strings.ReplaceAll(termtext.Clean(p.Text), "\n", " ")
			if p.Match {
				text = bold + text + plain
			}
			b.WriteString(text)
		}
		id := h.SessionID
		if id == "" {
			id = h.CLIType + ":" + h.AgentID
		}
		_, err := fmt.Fprintf(a.out, "%s  %-7s  %s  %s  %s\n    %s\n", cell(id), cell(string(h.Kind)), when(h.At), cell(h.ProjectDir), cell(oneLine(h.Title, 60)), b.String())
		if err != nil {
			return err
		}
	}
	if page.Next != "" {
		a.stderrf("There are more; --before %s continues.", termtext.Clean(page.Next))
	}
	if page.Indexing {
		a.stderrf("The server is still adding earlier sessions to its index; search again later.")
	}
	return nil
}
