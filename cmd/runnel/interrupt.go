package main

import (
	"os"
	"os/signal"
	"syscall"
)

// onInterrupt calls first at the first Ctrl-C and then at the second, or at a
// request to terminate. The caller stops it; what comes later is ignored, since
// the process is about to end and its exit code should say how the run did.
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

// firstEndSignal returns where the first interrupt or request to terminate
// arrives; the second ends the process as usual. The caller ignores what is yet
// to come when it is done.
func firstEndSignal() (first <-chan os.Signal, ignore func()) {
	signals, told, done := make(chan os.Signal, 1), make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		defer signal.Stop(signals)
		select {
		case sig := <-signals:
			told <- sig
		case <-done:
		}
	}()
	return told, func() { close(done) }
}
