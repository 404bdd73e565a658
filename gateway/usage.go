package gateway

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/store"
)

// A UsageTotal is the total usage of some turns, as their agents reported it.
type UsageTotal struct {
	Key           string `json:"key,omitempty" doc:"What the turns have in common: the id of their session, the directory of their project, the kind of their agent, or their day (UTC), such as 2026-11-24. Absent in the total, and for turns whose day is unknown."`
	Title         string `json:"title,omitempty" doc:"The session's title, if the key is the id of a session."`
	Turns         int64  `json:"turns" doc:"Number of turns whose agent reported tokens or a cost."`
	UnpricedTurns int64  `json:"unpricedTurns" doc:"Number of turns among them whose agent reported no cost. costUsd does not contain them."`

	Usage event.Usage `json:"usage" doc:"Sum of the tokens that the agents reported."`

	CostUSD float64 `json:"costUsd" doc:"Sum of the costs that the agents reported, in US dollars. Agents estimate a cost from list prices; it is no invoice."`
}

// A UsageReport is the answer to a [UsageQuery].
type UsageReport struct {
	Total  UsageTotal   `json:"total" doc:"The total of all selected turns."`
	Groups []UsageTotal `json:"groups" doc:"The totals by by: days newest first, other groups by their cost, highest first."`
	More   bool         `json:"more,omitempty" doc:"Whether there are more groups than limit. total contains them."`
}

// A UsageQuery selects and groups turns.
type UsageQuery struct {
	By         store.UsageKey
	Session    string    // our id; "" for all
	ProjectDir string    // "" for all
	CLIType    string    // name or alias of a provider; "" for all
	From, To   time.Time // From or later, and before To. Zero: no bound
	Limit      int       // maximum number of groups; at least 1
}

// UsageKeys are the properties by which a report can be grouped.
func UsageKeys() []string {
	return []string{string(store.UsageByDay), string(store.UsageBySession), string(store.UsageByProject), string(store.UsageByAgent)}
}

// Numbers of groups in a report.
const (
	usageDefault = 100
	usageMax     = 1000
)

// ParseUsageQuery returns a query from parameters in text form. get returns the
// value of a parameter, or "". The parameters are those of GET /api/usage; the
// caller resolves sessionId.
func ParseUsageQuery(get func(name string) string) (q UsageQuery, err error) {
	q = UsageQuery{By: store.UsageByDay, ProjectDir: get("projectDir"), CLIType: get("cliType"), Limit: usageDefault}
	if by := get("by"); by != "" {
		if !slices.Contains(UsageKeys(), by) {
			return q, runnel.Fail(runnel.InvalidRequest, "by: unknown value; want "+strings.Join(UsageKeys(), ", "))
		}
		q.By = store.UsageKey(by)
	}
	if text := get("limit"); text != "" {
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return q, runnel.Fail(runnel.InvalidRequest, "limit: must be a whole number of zero or more")
		}
		q.Limit = int(min(max(n, 1), usageMax))
	}
	if q.From, err = instant("from", get("from"), 0); err != nil {
		return q, err
	}
	q.To, err = instant("to", get("to"), 1)
	return q, err
}

// instant parses a UTC date, to which it adds days, or an RFC 3339 time. It
// returns the zero time for "". name is the name of the value in the error.
func instant(name, value string, days int) (time.Time, error) {
	if value == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.DateOnly, value); err == nil {
		return t.AddDate(0, 0, days), nil
	}
	t, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return time.Time{}, runnel.Fail(runnel.InvalidRequest, name+": want a date such as 2026-11-01, or a time such as 2026-11-01T12:00:00Z")
	}
	return t, nil
}

// UsageOf returns the usage of the turns that q selects. If ctx is from
// [WithProject], only turns of that project are selected.
func UsageOf(ctx context.Context, g *Gateway, q UsageQuery) (UsageReport, error) {
	out := UsageReport{Groups: []UsageTotal{}}
	dirs, ok := Filter{ProjectDir: q.ProjectDir}.within(onlyProject(ctx))
	if !ok {
		return out, nil
	}
	q.ProjectDir = dirs.ProjectDir
	if q.CLIType != "" {
		p, err := g.opener.providers.Choose(q.CLIType)
		if err != nil {
			return out, err
		}
		q.CLIType = p.Name()
	}
	return StoredUsage(ctx, g.cfg.Catalogue, q)
}

// A UsageStore is the part of a catalogue that a report about usage needs.
type UsageStore interface {
	store.Usages
	Session(ctx context.Context, id string) (store.Session, error)
}

// StoredUsage returns the usage of the turns in a catalogue that q selects.
// q.ProjectDir is canonical, and q.CLIType is the name of a provider.
func StoredUsage(ctx context.Context, c UsageStore, q UsageQuery) (UsageReport, error) {
	out := UsageReport{Groups: []UsageTotal{}}
	f := store.UsageFilter{Session: q.Session, ProjectDir: q.ProjectDir, CLIType: q.CLIType, From: q.From, To: q.To}
	total, err := c.Usage(ctx, f)
	if err != nil {
		return out, storeError(err)
	}
	for _, u := range total { // one, or none without turns
		out.Total = described(u)
	}
	f.By, f.Limit = q.By, q.Limit+1
	groups, err := c.Usage(ctx, f)
	if err != nil {
		return out, storeError(err)
	}
	if out.More = len(groups) > q.Limit; out.More {
		groups = groups[:q.Limit]
	}
	for _, u := range groups {
		d := described(u)
		if q.By == store.UsageBySession {
			if rec, err := c.Session(ctx, u.Key); err == nil { // it may be deleted meanwhile
				d.Title = text.Shorten(titleOf(rec, keptOf(rec.Options).keptCare), MaxChosenTitle)
			}
		}
		out.Groups = append(out.Groups, d)
	}
	return out, nil
}

func described(u store.Usage) UsageTotal {
	return UsageTotal{Key: u.Key, Turns: u.Turns, UnpricedTurns: u.Unpriced, Usage: u.Tokens, CostUSD: u.CostUSD}
}
