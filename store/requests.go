package store

import (
	"context"
	"encoding/json"
	"time"
)

// A Request records a request that its sender may repeat, and its answer. Its
// key is either an Idempotency-Key together with the sender's credential, or
// the turn id that the sender chose.
type Request struct {
	Credential string          // id of the sender's credential; empty if Key is a turn id
	Key        string          // the Idempotency-Key, or the id of the turn
	Digest     [32]byte        // SHA-256 of the content of the request
	Session    string          // the session that it creates or to which its turn belongs
	Turn       string          // the id of its turn; empty if it creates a session
	Answer     json.RawMessage // nil until the request is answered
	At         time.Time       // when the server first received it
}

// TurnLocation is the session that has a turn, and the turn's position there.
type TurnLocation struct {
	Session string
	Waiting bool  // the prompt is in the queue; the log may not have the turn yet
	After   int64 // position in the log just before its first event; 0 if the log has none
}

// Requests is the part of a [Catalogue] that stores requests.
type Requests interface {
	// PutRequests adds these records. It replaces records with the same
	// credential and key. It stores all of them or none.
	PutRequests(ctx context.Context, rs ...Request) error
	// Request returns the record of a request, or ErrNotFound.
	Request(ctx context.Context, credential, key string) (Request, error)
	// DeleteRequest removes a record. A missing record is not an error.
	DeleteRequest(ctx context.Context, credential, key string) error
	// PruneRequests removes the records that belong to a credential and are
	// older than before. Records of turn ids stay until their session is
	// deleted.
	PruneRequests(ctx context.Context, before time.Time) error
	// TurnLocations returns the sessions whose log or queue has a turn with
	// this id.
	TurnLocations(ctx context.Context, turn string) ([]TurnLocation, error)
}
