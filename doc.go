// Package runnel runs coding agents and gives every one of them the same shape:
// a run is a live stream of typed events and a completion that resolves only
// when the stream is final.
//
//	run, err := runnel.Start(ctx, claude.New(), runnel.Options{Dir: dir}, runnel.Text("fix the test"))
//	if err != nil { … }
//	for ev, err := range run.Events(ctx) { … }
//	res, err := run.Wait(ctx)
//
// # Runs and sessions
//
// [Start] runs one prompt and then ends the agent. What the agent asks is denied,
// unless Options.Approve answers. [Run.Cancel] asks the agent to stop,
// [Run.Close] ends it, and [Run.Detach] lets the run go on by itself.
//
// [Open] begins a conversation of many turns, a [Session]. Its agent may come and
// go: the next [Session.Send] starts it again and resumes the conversation.
//
// Options.Resume goes on with a conversation that the agent has kept, by the
// agent's own id or as [ResumeLast], and Options.Fork begins with a copy of it.
// A [Registry] has providers by the kinds of their agents, with [Defaults] for
// what a request leaves out.
//
// # Three ways to read
//
// Canonical events ([Run.Events], [Turn.Events], [Follow]) are everything that
// happens, in the words of package event.
//
// Whole items ([Run.Upserts], [Turn.Upserts], [Session.Upserts]) are for a reader
// that redraws an item each time it gets one. [Run.Handle] and [Session.Handle]
// call the functions OnUpsert and OnTurn of [Handlers] instead. See package
// upsert.
//
// The universal envelope ([Run.Universal]) has finished pieces and no deltas; its
// options are [Extensions]. See package universal.
//
// # The log is the stream
//
// A [Session] is the only writer of its log; everything that reads a session (an
// iterator, an SSE response, a history page) is a cursor into that log. There
// are no subscriber channels to fill or to close, so a slow reader delays nobody
// and loses nothing.
//
// An event is appended before anyone sees it, and a turn is over only after its
// one terminal event is in the log.
//
// # Errors
//
// Every error is an [*Error], but for the cause of a context that has ended. Its
// Code is part of the wire protocol, and its message is safe to show.
package runnel
