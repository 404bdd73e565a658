package httpapi

import (
	"net/http"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/audit"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/access"
	"github.com/runnel-dev/runnel/httpapi/reply"
)

// applyRequest is the body of POST /api/retention.
type applyRequest struct {
	OlderThan string `json:"olderThan,omitempty" doc:"Delete sessions that were not active for this long, such as 720h. Default: none by their age."`
	MaxMiB    int64  `json:"maxMib,omitempty" doc:"Delete the sessions with the oldest activity while all sessions together are larger than this many MiB. Default: none by their size."`
}

func (s *sessions) retentionRoutes() []route {
	const rest = "A session in which a turn runs, an approval waits or prompts are queued is never deleted. A session that was active in the last hour is not deleted because of its size."
	return inTurn(&s.totals, []route{
		handle(route{path: "/api/retention", scope: auth.Read, name: "previewRetention",
			summary: "Preview which old sessions would be deleted", about: "Returns what the server's settings retention-age and retention-mib would delete now, or what other values would delete. Changes nothing. The server applies the settings once an hour, the first time an hour after its start. " + rest,
			params: []param{
				{name: "olderThan", doc: "Age instead of the setting, such as 720h. Default, if maxMib is absent: the setting."},
				{name: "maxMib", number: true, doc: "Size instead of the setting, in MiB. Default, if olderThan is absent: the setting."},
			}}, s.previewRetention),
		handleJSON(route{path: "/api/retention", scope: auth.Admin, name: "applyRetention",
			summary: "Delete old sessions", about: "Deletes sessions by age, by size or both, as DELETE /api/session/{id} does, and returns what it deleted. If that route fails with AGENT_ERROR for a session, this one deletes the others and fails; the server's log names the session. " + rest,
			fails: []runnel.Code{runnel.AgentError}}, s.applyRetention),
	})
}

func (s *sessions) previewRetention(r *http.Request) (gateway.Expiry, error) {
	h := gateway.RetentionOf(s.gw)
	q := r.URL.Query()
	mib, err := reply.Number(r, "maxMib", 0)
	if err != nil {
		return gateway.Expiry{}, err
	}
	p, err := policyOf(q.Get("olderThan"), mib)
	if err != nil {
		return gateway.Expiry{}, err
	}
	if p == (gateway.RetentionPolicy{}) {
		p = h.Policy()
	}
	return h.Preview(r.Context(), p)
}

func (s *sessions) applyRetention(r *http.Request, in applyRequest) (gateway.Expiry, error) {
	p, err := policyOf(in.OlderThan, in.MaxMiB)
	if err != nil {
		return gateway.Expiry{}, err
	}
	if p == (gateway.RetentionPolicy{}) {
		return gateway.Expiry{}, reply.Invalid("olderThan: is missing; give olderThan, maxMib or both")
	}
	return gateway.RetentionOf(s.gw).ApplyRecorded(r.Context(), p, func(e audit.Record) error { return access.Record(r.Context(), e) })
}

// policyOf returns the policy that a client describes.
func policyOf(olderThan string, mib int64) (p gateway.RetentionPolicy, err error) {
	const mostMiB = 1 << 40 // so that the number of bytes fits
	if olderThan != "" {
		if p.Age, err = time.ParseDuration(olderThan); err != nil || p.Age <= 0 {
			return p, reply.Invalid("olderThan: want a positive duration such as 720h")
		}
	}
	if mib < 0 || mib > mostMiB {
		return p, runnel.Fail(runnel.InvalidRequest, "maxMib: must be a whole number of zero or more")
	}
	p.Bytes = mib << 20
	return p, nil
}
