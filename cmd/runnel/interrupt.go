package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// onInterrupt calls the function first at the first Ctrl-C, and the function
// then at the next Ctrl-C or at SIGTERM. Later signals are ignored, because the
// process is about to end and its exit code should report the result of the
// run. The caller must call stop, which returns once neither function runs.
func (a *app) onInterrupt(first, then func()) (stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		asked := false
		for {
			select {
			case sig := <-signals:
				if !asked && sig == os.Interrupt {
					asked = true
					first()
					continue
				}
				then()
				return
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		<-gone
	}
}

// firstEndSignal returns a channel that receives the first interrupt or
// SIGTERM. A second signal kills the process as usual. The caller calls ignore
// when it no longer reads the channel.
func firstEndSignal() (first <-chan os.Signal, ignore func()) {
	signals, received, done := make(chan os.Signal, 1), make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		defer signal.Stop(signals)
		select {
		case sig := <-signals:
			received <- sig
		case <-done:
		}
	}()
	return received, func() { close(done) }
}

// untilInterrupted returns a context that ends at the first interrupt or
// SIGTERM, with the cause errLeft. The caller calls leave at the end, which
// ends the context, too.
func untilInterrupted(ctx context.Context) (until context.Context, leave func()) {
	ended, ignore := firstEndSignal()
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-ended:
			cancel(errLeft)
		case <-ctx.Done():
		}
	}()
	return ctx, sync.OnceFunc(func() {
		cancel(errLeft)
		ignore()
	})
}
