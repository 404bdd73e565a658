package main

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/gateway/detect"
)

func (a *app) usageCommand() *cobra.Command {
	var asJSON bool
	query := map[string]*string{"by": nil, "from": nil, "to": nil, "cliType": nil, "projectDir": nil, "sessionId": nil, "limit": nil}
	for name := range query {
		query[name] = new(string)
	}
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Total the tokens and costs of sessions",
		Long: `Total the tokens and costs that agents have reported about their turns, grouped
by day (UTC), session, project folder or agent. The totals contain all sessions
that still exist. A turn that a fork copied counts once.

COST is what the agents reported, in US dollars. It is an estimate from list
prices and no invoice: a subscription has no price per turn. Turns whose agent
reported no cost are in TURNS and in the tokens only; UNPRICED counts them.

The command uses the running server, or the data directory if no server runs.`,
		Example: `  runnel usage
  runnel usage --by agent --from 2026-11-01 --to 2026-11-30
  runnel usage --by session --dir ~/app --json | jq .total.costUsd`,
		Args: nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			get := func(name string) string {
				if v := query[name]; v != nil {
					return *v
				}
				return ""
			}
			if dir := query["projectDir"]; *dir != "" {
				path, err := filepath.Abs(*dir)
				if err != nil {
					return err
				}
				*dir = path
			}
			q, err := gateway.ParseUsageQuery(get)
			if err != nil {
				return usage("--%s", explain(err))
			}
			return a.withSessions(cmd, func(s sessions) error {
				if ref := get("sessionId"); ref != "" {
					row, err := pick(cmd.Context(), s, ref)
					if err != nil {
						return err
					}
					q.Session, *query["sessionId"] = row.SessionID, row.SessionID
				}
				report, err := a.usageReport(cmd.Context(), s, q, get)
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(report)
				}
				return a.printUsage(report, get("by"))
			})
		},
	}
	placeFlags(cmd.Flags())
	fl := cmd.Flags()
	fl.StringVar(query["by"], "by", "day", "group by `KEY`: day, session, project or agent")
	fl.StringVar(query["from"], "from", "", "only turns from this UTC `DATE` or time on, such as 2026-11-01")
	fl.StringVar(query["to"], "to", "", "only turns until the end of this `DATE`, or before this time")
	fl.StringVar(query["cliType"], "agent", "", "only turns of this `AGENT`")
	fl.StringVar(query["projectDir"], "dir", "", "only turns of sessions in this `DIR`")
	fl.StringVar(query["sessionId"], "session", "", "only turns of the session with this `ID`")
	fl.StringVar(query["limit"], "limit", "100", "print at most `N` groups, up to 1000")
	fl.BoolVar(&asJSON, "json", false, "print JSON, in the format of GET /api/usage")
	return cmd
}

// usageReport returns the report of the server, or of the data directory.
func (a *app) usageReport(ctx context.Context, s sessions, q gateway.UsageQuery, get func(string) string) (report gateway.UsageReport, err error) {
	switch s := s.(type) {
	case remoteSessions:
		v := make(url.Values)
		for _, name := range []string{"by", "from", "to", "cliType", "projectDir", "sessionId", "limit"} {
			if text := get(name); text != "" {
				v.Set(name, text)
			}
		}
		err = s.ad.get(ctx, "/api/usage?"+v.Encode(), &report)
	case localSessions:
		if q.CLIType != "" {
			if p := detect.NewIndex(a.providers).Find(q.CLIType); p != nil { // else the name of an agent of the configuration
				q.CLIType = p.Name()
			}
		}
		if q.ProjectDir != "" {
			if real, err := filepath.EvalSymlinks(q.ProjectDir); err == nil {
				q.ProjectDir = real // records name directories without symbolic links
			}
		}
		report, err = gateway.StoredUsage(ctx, s.st, q)
	}
	return report, err
}

func (a *app) printUsage(r gateway.UsageReport, by string) error {
	if r.Total.Turns == 0 {
		a.stderrf("No agent has reported usage.")
		return nil
	}
	heading := map[string]string{"session": "SESSION", "project": "FOLDER", "agent": "AGENT"}[by]
	if heading == "" {
		heading = "DAY (UTC)"
	}
	columns := []column{{heading, whole}, {"TURNS", whole}, {"UNPRICED", whole}, {"INPUT", whole}, {"CACHED", whole}, {"OUTPUT", whole}, {"COST", whole}}
	if by == "project" {
		columns[0].cut = cutStart
	}
	if by == "session" {
		columns = append(columns, column{"TITLE", cutEnd})
	}
	t := table{columns: columns}
	add := func(name, title string, u gateway.UsageTotal) {
		row := []string{cell(name)}
		for _, n := range []int64{u.Turns, u.UnpricedTurns, u.Usage.InputTokens, u.Usage.CacheReadInputTokens, u.Usage.OutputTokens} {
			row = append(row, strconv.FormatInt(n, 10))
		}
		row = append(row, fmt.Sprintf("$%.2f", u.CostUSD))
		if by == "session" {
			row = append(row, title)
		}
		t.add(row...)
	}
	for _, u := range r.Groups {
		add(u.Key, cell(oneLine(u.Title, 60)), u)
	}
	add("total", "", r.Total)
	if err := t.write(a.out, a.width()); err != nil {
		return err
	}
	if r.More {
		a.stderrf("There are more groups, which the total contains; --limit prints more.")
	}
	return nil
}
