// Package runnel runs coding agents of different kinds through one interface. A
// run is a live stream of typed events and one result. The result is available
// once the last event is in the log.
//
//	run, err := runnel.Start(ctx, claude.New(), runnel.Options{Dir: dir}, runnel.Text("fix the test"))
//	if err != nil { … }
//	for ev, err := range run.Events(ctx) { … }
//	res, err := run.Wait(ctx)
//
// # Runs and sessions
//
// [Start] runs one prompt and then stops the agent. The run denies every
// approval that neither Options.Judge nor Options.Approve answers. [Run.Cancel]
// asks the agent to end the turn, [Run.Close] stops the agent, and [Run.Detach]
// lets the run continue without its caller.
//
// [Open] starts a conversation of many turns, a [Session]. If its agent exits,
// the next [Session.Send] starts the agent again and resumes the conversation.
//
// Options.Resume names a conversation that the agent has stored, by the agent's
// own id or as [ResumeLast]. Options.Fork starts with a copy of that
// conversation. A [Registry] maps agent kinds to providers, with [Defaults] for
// the options that a request does not set.
//
// # Three ways to read
//
// Canonical events ([Run.Events], [Turn.Events], [Follow]) are all events of
// the log, in the types of package event.
//
// Whole items ([Run.Upserts], [Turn.Upserts], [Session.Upserts]) are for a
// reader that redraws an item each time the item changes. [Run.Handle] and
// [Session.Handle] call the functions OnUpsert and OnTurn of [Handlers]
// instead. See package upsert.
//
// The universal envelope ([Run.Universal]) has finished items and no deltas.
// Its options are [Extensions]. See package universal.
//
// # The log is the stream
//
// A [Session] is the only writer of its log. Every reader of a session (an
// iterator, an SSE response, a history page) has a cursor into that log. No
// events travel over subscriber channels, so a slow reader loses no event and
// delays no other reader.
//
// The session appends an event to the log before a reader can receive it. A
// turn is over once its one terminal event is in the log.
//
// # Errors
//
// Every error is an [*Error], except the cause of a context that has ended. The
// Code of an [*Error] is part of the wire protocol, and its Message is safe to
// show.
package runnel
