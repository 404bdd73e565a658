package store

import (
	"context"
	"encoding/json"
	"time"
)

// A Request is a request that its sender may repeat, and what it did. It is known
// by the Idempotency-Key of a credential, or by the id that its sender chose for
// a turn.
type Request struct {
	Credential string          // id of the sender's credential; empty if Key is the id of a turn
	Key        string          // the Idempotency-Key, or the id of the turn
	Digest     [32]byte        // SHA-256 of what the request asks for
	Session    string          // the session that it makes, or in which its turn is
	Turn       string          // the id of its turn; empty if it makes a session
	Answer     json.RawMessage // nil until the request has been answered
	At         time.Time       // when it first came
}

// TurnPlace is where a turn is.
type TurnPlace struct {
	Session string
	Waiting bool  // its prompt is in the queue, and the log may not have it yet
	After   int64 // position in the log just before its first event; 0 if it waits
}

// Requests is the part of a [Catalogue] that keeps requests.
type Requests interface {
	// PutRequests adds these records, or replaces those with the same credential
	// and key: all of them or none.
	PutRequests(ctx context.Context, rs ...Request) error
	// Request returns the record of a request, or ErrNotFound.
	Request(ctx context.Context, credential, key string) (Request, error)
	// DeleteRequest removes a record; removing one that does not exist is not an
	// error.
	DeleteRequest(ctx context.Context, credential, key string) error
	// PruneRequests removes the records of credentials that are older than
	// before. Ids of turns stay until their session is deleted.
	PruneRequests(ctx context.Context, before time.Time) error
	// TurnPlaces returns the sessions whose log or queue has a turn with this id.
	TurnPlaces(ctx context.Context, turn string) ([]TurnPlace, error)
}
