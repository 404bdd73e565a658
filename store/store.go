// Package store holds the contracts of what is kept: the log of events, and
// beside it the catalogue of sessions, the prompts that wait, the credentials and
// the rules.
//
// store/sqlite and store/memory implement them, and store/storetest checks what
// every implementation must do.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/runnel-dev/runnel/event"
)

// ErrNotFound means that there is no such record.
var ErrNotFound = errors.New("store: not found")

// A Catalogue keeps records. Every method that changes something returns once
// the change survives the loss of power. Its methods may be called from anywhere.
type Catalogue interface {
	// PutSession adds the record or replaces the one with its ID.
	PutSession(ctx context.Context, s Session) error
	// Session returns the record with this id, or ErrNotFound.
	Session(ctx context.Context, id string) (Session, error)
	// SessionsByAgent returns the sessions that continue the agent's conversation,
	// newest first. There is more than one if agents have said the same id.
	SessionsByAgent(ctx context.Context, cliType, agentSessionID string) ([]Session, error)
	// Sessions returns the records that f selects, newest activity first.
	Sessions(ctx context.Context, f SessionFilter) ([]Session, error)
	// PutReport replaces what the agent of a session reported about itself.
	PutReport(ctx context.Context, session string, r Report) error
	// Report returns it, or ErrNotFound if nothing was put.
	Report(ctx context.Context, session string) (Report, error)
	// DeleteSession removes the record, the report, the events, the queue and the
	// requests for turns of a session.
	DeleteSession(ctx context.Context, id string) error
	// Unfinished returns the ids of sessions whose log has a turn without end.
	Unfinished(ctx context.Context) ([]string, error)

	// Enqueue adds a prompt to the end of its session's queue.
	Enqueue(ctx context.Context, q Queued) error
	// Queue returns the prompts that wait, oldest first; of all sessions if
	// session is empty.
	Queue(ctx context.Context, session string) ([]Queued, error)
	// Dequeue removes a prompt; removing one that is not there is not an error.
	Dequeue(ctx context.Context, session, turn string) error

	// PutToken adds the record or replaces the one with its ID.
	PutToken(ctx context.Context, t Token) error
	// TokenByHash returns the token with this hash, or ErrNotFound.
	TokenByHash(ctx context.Context, hash [32]byte) (Token, error)
	// Tokens returns all tokens of a kind, oldest first.
	Tokens(ctx context.Context, kind TokenKind) ([]Token, error)
	// DeleteToken removes a token and every token that it made, directly or not.
	// It returns ErrNotFound if there is no token with this id.
	DeleteToken(ctx context.Context, id string) error

	Requests
	Rules
}

// A Session is what is known of a session without reading its log.
type Session struct {
	ID             string // ours, a UUID
	CLIType        string // the provider's name
	ProjectID      string // stable id of ProjectDir
	ProjectDir     string // absolute
	Title          string
	AgentSessionID string // the agent's own id, for resuming
	ModelID        string
	PermissionMode string
	Options        json.RawMessage // as the client gave them
	State          event.SessionState
	LastTurn       event.TurnStatus // how the last turn ended; empty before that
	LastLine       string           // last line of what happened, bounded, for lists
	CreatedAt      time.Time
	LastActiveAt   time.Time

	BootedAt        time.Time // when its agent was last started; zero: never
	BootFingerprint string    // hash of what that agent was started with; empty: never
}

// A Report is what the agent of a session reported about itself, as the gateway
// encodes it. It is apart from the Session, because it is long and changes rarely.
type Report struct {
	Config json.RawMessage // what it offers to set, as of its last report
	Files  json.RawMessage // files of its own that it named
}

// A SessionFilter selects sessions. The zero value selects those that are not dead.
type SessionFilter struct {
	ProjectID  string // "" for all
	ProjectDir string // "" for all
	Dead       bool   // ended ones too
	Limit      int    // Default: no limit
}

// A Queued prompt waits for the turn before it.
type Queued struct {
	Session string
	Turn    string          // id its turn will have
	Input   json.RawMessage // the prompt, as the gateway encodes it
	At      time.Time
}

// TokenKind says who carries a token.
type TokenKind string

// The token kinds.
const (
	TokenAPI     TokenKind = "api"     // a program, as bearer token
	TokenBrowser TokenKind = "browser" // a page, as cookie
	TokenLogin   TokenKind = "login"   // a one-time code that becomes a cookie
)

// A Token is a credential. Only its hash is kept.
type Token struct {
	ID         string
	Kind       TokenKind
	Name       string   // chosen by its owner
	Hash       [32]byte // SHA-256 of the secret
	Scopes     []string // read, send, approve, admin
	Project    string   // directory whose sessions it is for, as their records name it; empty for all
	Parent     string   // id of the token that made it, with which it ends; empty: none did
	CreatedAt  time.Time
	LastUsedAt time.Time
	ExpiresAt  time.Time // zero: never
}
