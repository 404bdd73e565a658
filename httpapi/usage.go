package httpapi

import (
	"net/http"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
)

func (s *sessions) usageRoutes() []route {
	return inTurn(&s.totals, []route{
		handle(route{path: "/api/usage", scope: auth.Read, bound: true, name: "usage",
			summary: "Get totals of tokens and costs", about: "Totals what the agents have reported about their turns, for all sessions that still exist: also ended and archived ones, and running turns. A turn that a fork copied counts once, for the original. A token that is limited to a project gets the totals of that project.",
			params: []param{
				{name: "by", values: gateway.UsageKeys(), doc: "How the totals are grouped. Default: day."},
				{name: "sessionId", doc: "Id of a session. Default: all sessions."},
				{name: "projectDir", doc: "Absolute path of a project's directory. Default: all projects."},
				{name: "cliType", doc: "Kind of agent. Default: all kinds."},
				{name: "from", doc: "Beginning of the time span, as a UTC date (2026-11-01) or an RFC 3339 time. A turn belongs to the time of its last report. Default: no bound."},
				{name: "to", doc: "End of the time span, in the same form. A date includes the whole day; a time is excluded. Default: no bound."},
				{name: "limit", number: true, doc: "Maximum number of groups, at most 1000. Default: 100."},
			}, fails: []runnel.Code{runnel.UnsupportedCLIType, runnel.SessionNotFound}}, s.usage),
	})
}

func (s *sessions) usage(r *http.Request) (gateway.UsageReport, error) {
	q, err := gateway.ParseUsageQuery(r.URL.Query().Get)
	if err != nil {
		return gateway.UsageReport{}, err
	}
	if ref := r.URL.Query().Get("sessionId"); ref != "" {
		if q.Session, err = s.visible.Resolve(r.Context(), ref); err != nil {
			return gateway.UsageReport{}, err
		}
	}
	return gateway.UsageOf(r.Context(), s.gw, q)
}
