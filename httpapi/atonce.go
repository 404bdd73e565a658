package httpapi

import (
	"context"
	"net/http"
	"sync"

	"github.com/runnel-dev/runnel/httpapi/access"
)

// maxFilesAtOnce is how many requests for files, and how many for changes, one
// credential has at the same time. Each may need tens of megabytes, or seconds
// of CPU time.
const maxFilesAtOnce = 4

// An atOnce bounds the requests of one credential that run at the same time.
// Further ones wait.
type atOnce struct {
	most int

	mu    sync.Mutex
	lines map[string]*line // by credential
}

// A line is the requests of one credential.
type line struct {
	running chan struct{} // has an element for each request that runs
	all     int           // requests that run or wait; guarded by atOnce.mu
}

// limit makes the requests that change nothing wait for their turn. A request
// ends its turn when its answer is written, because the answer is in memory
// until then.
func (a *atOnce) limit(list []route) []route {
	for i, rt := range list {
		if rt.method != http.MethodGet {
			continue
		}
		list[i].serve = func(w http.ResponseWriter, r *http.Request) error {
			leave, err := a.enter(r.Context(), access.Caller(r.Context()).ID)
			if err != nil {
				return err
			}
			defer leave()
			return rt.serve(w, r)
		}
	}
	return list
}

// enter waits until a request of the credential may run. It returns the cause of
// ctx if ctx ends before.
func (a *atOnce) enter(ctx context.Context, credential string) (leave func(), err error) {
	a.mu.Lock()
	l := a.lines[credential]
	if l == nil {
		if a.lines == nil {
			a.lines = make(map[string]*line)
		}
		l = &line{running: make(chan struct{}, a.most)}
		a.lines[credential] = l
	}
	l.all++
	a.mu.Unlock()
	left := func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if l.all--; l.all == 0 {
			delete(a.lines, credential)
		}
	}
	select {
	case l.running <- struct{}{}:
		return func() { <-l.running; left() }, nil
	case <-ctx.Done():
		left()
		return nil, context.Cause(ctx)
	}
}
