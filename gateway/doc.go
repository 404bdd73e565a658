// Package gateway keeps many sessions by id: it creates, loads, lists and ends
// them, passes prompts and decisions to the right one, and recovers after a
// restart what the process before it left.
//
// It names no agent. What it knows of one is what its provider reports.
//
// # Parts
//
// A Gateway consists of parts that own their state, each in a file of its name:
//
//   - sessions: the open sessions by id, and those being opened or closed
//   - opener: turns records and options into open sessions
//   - creator: new sessions, started or forked
//   - importer: copies conversations that agents keep into sessions, and adds
//     what they gained when they are loaded again
//   - promptQueue: prompts that wait for a turn to end
//   - recordWriter: writes changed records to the catalogue
//   - recovery: what a start does about the process before
//   - reaper: closes idle sessions
//   - feed: numbers the changes for watchers of the session list
//   - projects, uploads: directories and files that clients name
//
// Package prewarm keeps agents started ahead of new sessions, package detect
// knows which agents are on this machine.
//
// # Lock order
//
// A goroutine that holds a lock takes only locks that are listed below it.
//
//  1. entry.sending: the turn lock of one session. It is held while a prompt is
//     judged, and while the session waits for its agent. No goroutine holds two.
//  2. recordWriter.writing: held while a record is read and written to the
//     catalogue.
//  3. sessions.mu: the open sessions, entry.users and the state of the queue's
//     goroutines. Never held while a session, the log, the catalogue or an agent
//     is called.
//  4. entry.mu, feed.mu, recordWriter.mu: each held for a moment; nothing is
//     locked or called under them.
//
// Outside of this order, as nothing of the gateway is locked under them:
// prewarm.Pool's mu, which is held while directories are read, and
// detect.Detector's mu. A session calls entry.recorded from its own goroutine
// without a lock of the gateway.
package gateway
