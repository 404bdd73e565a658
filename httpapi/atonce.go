package httpapi

import (
	"net/http"

	"github.com/runnel-dev/runnel/httpapi/access"
	"github.com/runnel-dev/runnel/internal/atonce"
)

// maxFilesAtOnce is how many requests for files, and how many for changes, one
// credential has at the same time. Each may need tens of megabytes, or seconds
// of CPU time.
const maxFilesAtOnce = 4

// maxSearchesAtOnce is how many searches one credential has at the same time.
// The index runs two, each for up to ten seconds, so one credential leaves a
// place to the others.
const maxSearchesAtOnce = 1

// maxTotalsAtOnce is how many requests for totals one credential has at the same
// time. Each may read all turns, or all events, through one of the few
// connections with which everything is read from the database.
const maxTotalsAtOnce = 1

// maxListsAtOnce is how many lists of sessions one credential has at the same
// time. With many sessions, each may have tens of megabytes.
const maxListsAtOnce = 4

// inTurn makes those of the routes that change nothing wait, if the caller's
// credential has too many such requests at the same time. A request counts
// until its answer is written, because the answer is in memory until then.
func inTurn(limit *atonce.Limit, list []route) []route {
	for i, rt := range list {
		if rt.method != http.MethodGet {
			continue
		}
		list[i].serve = func(w http.ResponseWriter, r *http.Request) error {
			leave, err := limit.Enter(r.Context(), access.Caller(r.Context()).ID)
			if err != nil {
				return err
			}
			defer leave()
			return rt.serve(w, r)
		}
	}
	return list
}
