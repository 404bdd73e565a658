package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
)

// A serverLink sends requests to the running server. It repeats a request that the
// server did not answer, because the server may be restarting. The methods of a
// serverLink may be called by several goroutines.
type serverLink struct {
	ad   *admin
	wait time.Duration                    // how long to wait for a server that does not answer. Default: without limit
	say  func(format string, args ...any) // tells the user something about the connection

	mu   sync.Mutex
	lost bool // the user knows that the connection was lost
}

// restartWait is how long a command waits for a server that restarts. Agents of
// running turns wait for a minute, unless the server has another
// reattach-window.
const restartWait = 2 * time.Minute

// The pauses between two attempts to reach the server double from firstPause to
// longestPause.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 2 * time.Second
)

// An outage is a time without an answer of the server.
type outage struct {
	since time.Time
	pause time.Duration
}

// retry calls f until f succeeds, or fails with an error that a repetition does
// not change. It returns the last error of f.
func (l *serverLink) retry(ctx context.Context, f func() error) error {
	return l.retryUnless(ctx, answered, f)
}

// retryBusy is retry for a reader: it also calls f again after an answer of a
// server that is busy.
func (l *serverLink) retryBusy(ctx context.Context, f func() error) error {
	return l.retryUnless(ctx, func(err error) bool { return answered(err) && !busy(err) }, f)
}

// retryUnless calls f until f succeeds or fails with a final error.
func (l *serverLink) retryUnless(ctx context.Context, final func(error) bool, f func() error) error {
	var out outage
	for {
		err := f()
		if err == nil || final(err) || !l.pause(ctx, &out, err) {
			l.found(err == nil || answered(err))
			return err
		}
	}
}

// pause waits before the next attempt. It reports false if there should be no
// further attempt. It does not wait before the first repetition.
func (l *serverLink) pause(ctx context.Context, out *outage, err error) bool {
	now := time.Now()
	if out.since.IsZero() {
		out.since = now
		return ctx.Err() == nil
	}
	if l.wait > 0 && now.Sub(out.since) >= l.wait {
		return false
	}
	l.mu.Lock()
	if !l.lost {
		l.lost = true
		why := "the server does not answer"
		if answered(err) || errors.Is(err, auth.ErrServerAgent) || errors.Is(err, auth.ErrServerUser) {
			why = explain(err)
		}
		l.say("runnel: %s; waiting for the server", why)
	}
	l.mu.Unlock()
	out.pause = min(max(2*out.pause, firstPause), longestPause)
	select {
	case <-ctx.Done():
		return false
	case <-time.After(out.pause):
		return true
	}
}

// found tells the user that the server answers again.
func (l *serverLink) found(yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if yes && l.lost {
		l.lost = false
		l.say("runnel: the server answers again")
	}
}

// answered reports whether err is an answer of the server. Other errors may
// pass: also the one about a process that listens at the server's address and
// that must not get the request, because a server that ends looks like that for
// a moment.
func answered(err error) bool {
	_, ok := errors.AsType[*runnel.Error](err)
	return ok
}

// busy reports whether an answer means that the server cannot serve a reader
// now, but may do so later.
func busy(err error) bool {
	switch runnel.CodeOf(err) {
	case runnel.RateLimited, runnel.Overloaded, runnel.StoreUnavailable:
		return true
	}
	return false
}

func (l *serverLink) get(ctx context.Context, path string, out any) error {
	return l.retry(ctx, func() error { return l.ad.get(ctx, path, out) })
}

// post sends a request that may be repeated.
func (l *serverLink) post(ctx context.Context, path string, in, out any) error {
	return l.retry(ctx, func() error { return l.ad.post(ctx, path, in, out) })
}

// create sends a request that creates something. key marks the repetitions of
// the request.
func (l *serverLink) create(ctx context.Context, path, key string, in, out any) error {
	return l.retry(ctx, func() error { return l.ad.create(ctx, path, key, in, out) })
}
