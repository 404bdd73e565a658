package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/audit"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/httpapi/access"
	"github.com/runnel-dev/runnel/httpapi/reply"
)

// An auditor records in the audit log what callers do with credentials and
// sessions, and which requests are refused. Its log may be nil; then it records
// nothing.
type auditor struct {
	log      *audit.Log
	errors   *slog.Logger
	refusals *rejections
}

func newAuditor(log *audit.Log, errors *slog.Logger) auditor {
	return auditor{log, errors, &rejections{seen: make(map[rejected]*refusedBefore), clock: time.Now}}
}

// recording returns the context of r, in which access.Record records with the
// address of the client.
func (a auditor) recording(r *http.Request, from netip.Addr) context.Context {
	if a.log == nil {
		return r.Context()
	}
	return access.WithRecorder(r.Context(), func(e audit.Record) error {
		e.Address = addressOf(from)
		return a.log.Append(e)
	})
}

// addressOf returns the address of a client, or "" if it has none, as on the
// unix socket.
func addressOf(from netip.Addr) string {
	if !from.IsValid() {
		return ""
	}
	return from.String()
}

// recordLogin records that a browser got the credential id.
func (g *gate) recordLogin(r *http.Request, id auth.Identity) error {
	ctx := access.WithCaller(g.audit.recording(r, g.remote(r)), id)
	return access.Record(ctx, audit.Record{Kind: audit.Login})
}

// rejected is why a request was refused, and whose credential it had, if that
// is known.
type rejected struct{ why, credential, name string }

// Refusals are recorded at most so often, because anybody can cause them and the
// size of the log is bounded. What is not recorded at once is counted, and
// recorded with the next one like it.
const (
	refusalsPerMinute = 10
	maxRefusalKinds   = 200
)

// rejections counts refusals that are not recorded yet.
type rejections struct {
	mu    sync.Mutex
	clock func() time.Time
	seen  map[rejected]*refusedBefore
	since time.Time // beginning of the present minute
	spent int       // entries in it
}

type refusedBefore struct {
	count int64     // not recorded yet
	at    time.Time // of the last entry
}

// due counts a refusal. It returns how many the entry to write now stands for,
// or 0 if none is to be written.
func (rs *rejections) due(what rejected) int64 {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	now := rs.clock()
	if now.Sub(rs.since) >= time.Minute {
		rs.since, rs.spent = now, 0
	}
	before := rs.seen[what]
	if before == nil {
		if len(rs.seen) >= maxRefusalKinds {
			clear(rs.seen)
		}
		before = new(refusedBefore)
		rs.seen[what] = before
	}
	before.count++
	if rs.spent >= refusalsPerMinute || now.Sub(before.at) < time.Minute {
		return 0
	}
	n := before.count
	rs.spent++
	before.count, before.at = 0, now
	return n
}

// refused records that a request was refused. It does not fail: the request is
// refused in any case.
func (a auditor) refused(what rejected, from netip.Addr) {
	if a.log == nil {
		return
	}
	n := a.refusals.due(what)
	if n == 0 {
		return
	}
	e := audit.Record{Kind: audit.Refusal, What: what.why, Credential: what.credential, Who: what.name, Address: addressOf(from), Count: n}
	if what.credential != "" {
		e.By = event.ByUser
	}
	if err := a.log.Append(e); err != nil && !errors.Is(err, audit.ErrClosed) {
		a.errors.LogAttrs(context.Background(), slog.LevelError, "refusal not recorded", slog.String("error", reply.Bounded(err.Error())))
	}
}

type (
	auditAnswer struct {
		Entries []audit.Record `json:"entries" doc:"Entries in the order of their numbers."`
		Last    uint64         `json:"last" doc:"Number of the newest entry of the log. 0: the log is empty."`
	}
	verifyAnswer struct {
		audit.Report
		OK bool `json:"ok" doc:"true: every entry is as it was written, and none is missing."`
	}
)

const (
	maxAuditPage = 1000
	maxAuditWait = 30 // s
)

func (a auditor) routes() []route {
	return []route{
		handle(route{path: "/api/audit", scope: auth.Admin, name: "listAudit", summary: "Read the audit log",
			about: "Returns who did what with credentials, approvals, rules and sessions. Except for decisions and refusals, an entry is written before the action, so it can be about an action that then failed. Nobody can change or remove an entry through the API.",
			params: []param{
				{name: "after", number: true, doc: "Number of the entry after which to begin. Default: 0, the beginning."},
				{name: "since", doc: "RFC 3339 time; older entries are left out. Default: none are left out."},
				{name: "limit", number: true, doc: "Maximum number of entries, at most 1000. Default: 100."},
				{name: "wait", number: true, doc: "Seconds to wait for an entry if there is none, at most 30. Default: 0."},
			}}, a.list),
		handle(route{path: "/api/audit/verify", scope: auth.Admin, name: "verifyAudit", summary: "Verify the audit log",
			about: "Checks the chain of all entries: whether one was changed or removed, and whether entries are missing at the end. Needs time in proportion to the size of the log, up to some seconds."}, a.verify),
	}
}

func (a auditor) list(r *http.Request) (auditAnswer, error) {
	out := auditAnswer{Entries: []audit.Record{}}
	if a.log == nil {
		return out, nil
	}
	q, wait, err := auditQuery(r)
	if err != nil {
		return out, err
	}
	if wait > 0 {
		ctx, cancel := context.WithTimeout(r.Context(), wait)
		_ = a.log.Wait(ctx, q.After) // an empty answer if there is none
		cancel()
	}
	entries, err := a.log.Read(q)
	if err != nil {
		return out, runnel.Fail(runnel.StoreUnavailable, "the audit log cannot be read now; see the server's log", err)
	}
	return auditAnswer{append(out.Entries, entries...), a.log.Last()}, nil
}

// auditQuery returns what a request asks for, and how long it waits for it.
func auditQuery(r *http.Request) (q audit.Query, wait time.Duration, err error) {
	numbers := map[string]int64{"after": 0, "limit": 100, "wait": 0}
	for name, absent := range numbers {
		if numbers[name], err = reply.Number(r, name, absent); err != nil {
			return q, 0, err
		}
	}
	q.After, q.Limit = uint64(numbers["after"]), int(numbers["limit"])
	switch {
	case q.Limit < 1 || q.Limit > maxAuditPage:
		return q, 0, reply.Invalid("limit: want 1 to 1000")
	case numbers["wait"] > maxAuditWait:
		return q, 0, reply.Invalid("wait: want 0 to 30 seconds")
	}
	if text := r.URL.Query().Get("since"); text != "" {
		if q.Since, err = time.Parse(time.RFC3339, text); err != nil {
			return q, 0, reply.Invalid("since: want an RFC 3339 time such as 2026-11-01T00:00:00Z")
		}
	}
	return q, time.Duration(numbers["wait"]) * time.Second, nil
}

func (a auditor) verify(r *http.Request) (verifyAnswer, error) {
	if a.log == nil {
		return verifyAnswer{OK: true}, nil
	}
	report, err := a.log.Verify()
	if err != nil {
		return verifyAnswer{}, runnel.Fail(runnel.StoreUnavailable, "the audit log cannot be read now; see the server's log", err)
	}
	return verifyAnswer{report, len(report.Problems) == 0}, nil
}
