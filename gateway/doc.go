// Package gateway manages many sessions by id. It creates, loads, lists and
// ends sessions, routes prompts and decisions to them, and recovers the state
// that the previous server process left.
//
// It contains no code for a particular kind of agent: everything it knows about
// an agent comes from the agent's provider.
//
// # Parts
//
// A Gateway consists of parts. Each part owns its state and has a file that is
// called like it:
//
//   - sessions: the open sessions by id, and those being opened or closed
//   - opener: opens a session from its record and its options
//   - creator: new sessions, started or forked
//   - importer: copies conversations that agents store into sessions, and adds
//     new turns of a conversation when its session is loaded again
//   - follows: appends to the log of a session what a process outside of Runnel
//     writes into its conversation
//   - writers: finds the processes outside of Runnel that have conversations
//     open
//   - promptQueue: prompts that wait for a turn to end
//   - rulebook: the stored rules that decide approvals
//   - recordWriter: writes changed records to the catalogue
//   - checkpoints: writes checkpoints into the logs of long turns
//   - recovery: cleans up after the previous process when the server starts
//   - reaper: closes idle sessions
//   - roster: keeps the entries of the session list in memory
//   - feed: numbers changes for watchers of the session list
//   - indexer: adds finished items to the search index
//   - unknowns: keeps messages of agents of unknown types
//   - natives: adds the stored conversations that are no sessions to that index
//   - projects, uploads: directories and files that clients name
//   - hiddenList: the conversations whose sessions were deleted (hidden.go)
//   - sessionPictures: stores the images of prompts (pictures.go)
//
// Each open session has an entry, with a governor that enforces its profile.
// All sessions share the limiter (limits.go), the captures (capture.go), the
// records of what sandboxes reached in the network (egress.go), the records of
// what they denied (denials.go, which one goroutine writes) and the tally. Rules
// about paths of sandboxes take effect in allowances.go.
//
// Package prewarm starts agents ahead of new sessions. Package detect finds out
// which agents are installed on this machine.
//
// # Lock order
//
// A goroutine that holds a lock takes only locks that are listed below it, and
// calls only what is listed below it.
//
//  1. roster.reading: held while the entries of the session list are read.
//  2. rulebook.changing: held while a rule is changed in the catalogue and in
//     memory, and while a session makes the decision that creates a rule.
//  3. entry.sending: the turn lock of one session. It is held while the gateway
//     checks a prompt and while the session waits for its agent. A goroutine
//     holds at most one turn lock.
//  4. follow.mu: held while a followed conversation is read and while the
//     session appends the events.
//  5. recordWriter.writing: held from reading a record until it is in the
//     catalogue.
//  6. Gateway.mcpWrites: held while a command of an agent changes the MCP servers
//     of the agent.
//  7. the session: most of its methods wait until no other goroutine acts for
//     it. Meanwhile the session calls the functions of its runnel.Config, such
//     as entry.recorded, in the goroutine of its caller or of its agent. They
//     take only the locks below.
//  8. sessions.mu: the open sessions, entry.users and the state of the queue's
//     goroutines.
//  9. entry.mu: held briefly.
//  10. capture.mu, checkpoints.mu, deletionHook.mu, egressRecords.mu, denialRecords.mu, feed.mu,
//     follows.mu, governor.mu, hiddenList.mu, limiter.mu, natives.mu, recordWriter.mu,
//     roster.mu, rulebook.mu, tally.mu, tapFilter.mu, unknowns.mu and writers.mu: no other
//     lock is taken while one of them is held.
//
// Only the locks 1 to 6 are held during a call to a session, the log, the
// catalogue or an agent.
//
// The locks of once.Requests, conversations.Index, prewarm.Pool and
// detect.Detector are outside of this order, because no lock of the gateway is
// taken while one of them is held.
package gateway
