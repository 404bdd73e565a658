// Package store defines the storage interfaces: the log of events, and the
// catalogue of sessions, queued prompts, requests, credentials, their
// subscriptions to notes, and rules.
//
// Packages store/sqlite and store/memory implement them. Package
// store/storetest tests every implementation.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/runnel-dev/runnel/event"
)

// ErrNotFound means that no such record exists.
var ErrNotFound = errors.New("store: not found")

// A Catalogue stores records. Every method that changes a record returns once
// the change survives a power loss. All methods may be called concurrently.
type Catalogue interface {
	// PutSession adds the record or replaces the one with its ID.
	PutSession(ctx context.Context, s Session) error
	// Session returns the record with this id, or ErrNotFound.
	Session(ctx context.Context, id string) (Session, error)
	// SessionsByAgent returns the sessions that continue one of the agent's
	// conversations, newest first. There may be more than one for a
	// conversation, since agents can report the same id twice.
	SessionsByAgent(ctx context.Context, cliType string, agentSessionIDs ...string) ([]Session, error)
	// Sessions returns the records that f selects, newest activity first.
	Sessions(ctx context.Context, f SessionFilter) ([]Session, error)
	// PutReport replaces the report of a session's agent about itself.
	PutReport(ctx context.Context, session string, r Report) error
	// Report returns the report of a session, or ErrNotFound if it has none.
	Report(ctx context.Context, session string) (Report, error)
	// DeleteSession removes the record, the report, the events, the queue and
	// the turn requests of a session.
	DeleteSession(ctx context.Context, id string) error
	// Unfinished returns the ids of the sessions whose log has an open turn.
	Unfinished(ctx context.Context) ([]string, error)

	// Enqueue adds a prompt to the end of its session's queue.
	Enqueue(ctx context.Context, q Queued) error
	// Requeue replaces Input and About of a queued prompt, which keeps its
	// position and time. It returns ErrNotFound if the prompt is not queued.
	Requeue(ctx context.Context, q Queued) error
	// OrderQueue puts the queued prompts of a session in the order of turns.
	// Prompts that turns does not name follow, in their previous order. Turns
	// that are not queued are ignored.
	OrderQueue(ctx context.Context, session string, turns []string) error
	// Queue returns the queued prompts of a session in their order, without their
	// Input: it may contain files. An empty session selects all sessions.
	Queue(ctx context.Context, session string) ([]Queued, error)
	// QueuedInput returns the Input of a queued prompt, or ErrNotFound.
	QueuedInput(ctx context.Context, session, turn string) (json.RawMessage, error)
	// Dequeue removes a prompt. A missing prompt is not an error.
	Dequeue(ctx context.Context, session, turn string) error

	// PutToken adds the record or replaces the one with its ID.
	PutToken(ctx context.Context, t Token) error
	// TokenByHash returns the token with this hash, or ErrNotFound.
	TokenByHash(ctx context.Context, hash [32]byte) (Token, error)
	// Tokens returns all tokens of a kind, oldest first.
	Tokens(ctx context.Context, kind TokenKind) ([]Token, error)
	// DeleteToken removes a token and all tokens that it made, directly or
	// indirectly. It returns ErrNotFound if no token has this id.
	DeleteToken(ctx context.Context, id string) error

	Requests
	Rules
	Pushes
	Usages
}

// A Session is the record of a session: the state that is available without
// reading its log.
type Session struct {
	ID             string // a UUID that the server chose
	CLIType        string // the provider's name
	ProjectID      string // stable id of ProjectDir
	ProjectDir     string // absolute
	Title          string
	AgentSessionID string // the agent's own session id, used to resume it
	ModelID        string
	PermissionMode string
	Options        json.RawMessage // as the client sent them
	State          event.SessionState
	LastTurn       event.TurnStatus // how the last turn ended; empty if none has ended
	LastLine       string           // last line of the session's text, bounded, for lists
	CreatedAt      time.Time
	LastActiveAt   time.Time

	BootedAt        time.Time // when its agent was last started; zero: never
	BootFingerprint string    // hash of the start parameters of that agent; empty: never

	SeenSeq   int64 // position up to which somebody has seen the log; 0: nobody has looked at it
	QueueHeld bool  // queued prompts wait until somebody continues the queue
}

// A Report holds data that the agent of a session reported about itself, in the
// gateway's encoding. It is separate from the Session, because it is long and
// rarely changes.
type Report struct {
	Config json.RawMessage // the options that the agent offers, as last reported
	Files  json.RawMessage // the agent's own files, as it reported them

	Commands json.RawMessage // the commands that the agent offers, as last reported; nil if an older version stored the report
}

// A SessionFilter selects sessions. The zero value selects all sessions that
// are not dead.
type SessionFilter struct {
	ProjectID  string             // "" for all
	ProjectDir string             // "" for all
	Dead       bool               // include dead sessions
	State      event.SessionState // Default: all states
	Limit      int                // Default: no limit

	// Trim replaces the Options of each record by its result, while the list is
	// being read. A caller uses it to leave out long options, so that a long
	// list fits into memory. Default: the Options are not changed.
	Trim func(options json.RawMessage) json.RawMessage
}

// A Queued prompt waits until earlier turns have ended.
type Queued struct {
	Session string
	Turn    string          // id of its future turn
	Input   json.RawMessage // the prompt, in the gateway's encoding
	About   json.RawMessage // what lists show of the prompt, in the gateway's encoding; nil if an earlier version stored the prompt
	At      time.Time
}

// Ordered returns the turns of a queue in the order of first. Turns that first
// does not name follow, in their previous order. Turns that are not in the
// queue are left out, and so are repeated ones.
func Ordered(queue, first []string) []string {
	out := make([]string, 0, len(queue))
	for _, turn := range slices.Concat(first, queue) {
		if slices.Contains(queue, turn) && !slices.Contains(out, turn) {
			out = append(out, turn)
		}
	}
	return out
}

// TokenKind is the kind of client that uses a token.
type TokenKind string

// The token kinds.
const (
	TokenAPI     TokenKind = "api"     // a program; sent as a bearer token
	TokenBrowser TokenKind = "browser" // a browser; sent as a cookie
	TokenLogin   TokenKind = "login"   // a one-time code that is exchanged for a cookie
)

// A Token is a credential. The store holds only the hash of its secret.
type Token struct {
	ID         string
	Kind       TokenKind
	Name       string   // chosen by its owner
	Hash       [32]byte // SHA-256 of the secret
	Scopes     []string // read, send, approve, admin
	Project    string   // directory whose sessions it may use, as in Session.ProjectDir; empty for all
	Parent     string   // id of the token that made it; deleting that token deletes this one; empty: none
	CreatedAt  time.Time
	LastUsedAt time.Time
	ExpiresAt  time.Time // zero: never
}
