// Package runnel runs coding agents and gives every one of them the same shape:
// a run is a live stream of typed events and a completion that resolves only
// when the stream is final.
//
//	run, err := runnel.Start(ctx, claude.New(), runnel.Options{Dir: dir}, runnel.Text("fix the test"))
//	if err != nil { … }
//	for ev, err := range run.Events(ctx) { … }
//	res, err := run.Wait(ctx)
//
// The log is the stream. A [Session] is the only writer of its log; everything
// that reads a session (an iterator, an SSE response, a history page) is a
// cursor into that log. There are no subscriber channels to fill or to close,
// so a slow reader delays nobody and loses nothing.
//
// An event is appended before anyone sees it, and a turn is over only after its
// one terminal event is in the log.
package runnel
