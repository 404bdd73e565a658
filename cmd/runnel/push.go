package main

import (
	"context"
	"log/slog"

	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/push"
	"github.com/runnel-dev/runnel/store"
)

// The values of the setting push.
const (
	pushOn       = "on"
	pushOff      = "off"
	pushLoopback = "loopback"
)

// startNotes starts to send notes to browsers that have subscribed. It returns
// nil if the setting push is off. end stops the sending and waits until no note
// is being sent.
func startNotes(ctx context.Context, c config, gw *gateway.Gateway, st store.Pushes, sealer gateway.Sealer, log *slog.Logger) (notes *push.Service, end func()) {
	if c.Push == pushOff {
		return nil, func() {}
	}
	notes = push.New(push.Config{Sessions: gw, Store: st, Sealer: sealer, Loopback: c.Push == pushLoopback, Logger: log})
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		notes.Run(ctx)
	}()
	return notes, func() {
		cancel()
		<-done
	}
}
