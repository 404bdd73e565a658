// Package gateway manages many sessions by id. It creates, loads, lists and
// ends sessions, routes prompts and decisions to them, and recovers the state
// that the previous server process left.
//
// It contains no code for a particular kind of agent: everything it knows about
// an agent comes from the agent's provider.
//
// # Parts
//
// A Gateway consists of parts. Each part owns its state and has a file of the
// same name:
//
//   - sessions: the open sessions by id, and those being opened or closed
//   - opener: opens a session from its record and its options
//   - creator: new sessions, started or forked
//   - importer: copies conversations that agents store into sessions, and adds
//     new turns of a conversation when its session is loaded again
//   - promptQueue: prompts that wait for a turn to end
//   - recordWriter: writes changed records to the catalogue
//   - recovery: cleans up after the previous process when the server starts
//   - reaper: closes idle sessions
//   - feed: numbers changes for watchers of the session list
//   - indexer: adds finished items to the search index
//   - projects, uploads: directories and files that clients name
//
// Package prewarm starts agents ahead of new sessions. Package detect finds out
// which agents are installed on this machine.
//
// # Lock order
//
// A goroutine that holds a lock takes only locks that are listed below it.
//
//  1. entry.sending: the turn lock of one session. It is held while the gateway
//     checks a prompt and while the session waits for its agent. A goroutine
//     holds at most one turn lock.
//  2. recordWriter.writing: held from reading a record until it is in the
//     catalogue.
//  3. sessions.mu: the open sessions, entry.users and the state of the queue's
//     goroutines. It is never held during a call to a session, the log, the
//     catalogue or an agent.
//  4. entry.mu: held briefly, never during a call to a session, the log, the
//     catalogue or an agent.
//  5. governor.mu, tally.mu, limiter.mu, feed.mu and recordWriter.mu: no other
//     lock is taken while one of them is held.
//
// The locks of prewarm.Pool and detect.Detector are outside of this order,
// because no lock of the gateway is taken while one of them is held. A session
// calls entry.recorded from its own goroutine, which holds no lock of the
// gateway.
package gateway
