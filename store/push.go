package store

import (
	"context"
	"time"
)

// A PushSubscription is the wish of a credential's owner to receive notes
// through a push service.
type PushSubscription struct {
	Credential string   // id of the credential
	Endpoint   [32]byte // SHA-256 of the address at the push service
	Sealed     string   // the address and its keys, encrypted by the caller
	Kinds      []string // kinds of notes to send
	CreatedAt  time.Time

	// Of the credential. PutPushSubscription ignores both.
	Project   string    // as in Token
	ExpiresAt time.Time // as in Token
}

// Pushes is the part of a [Catalogue] that stores subscriptions to notes, and
// the key that identifies this server to push services.
type Pushes interface {
	// PutPushKey replaces the key, which the caller has encrypted, and removes
	// all subscriptions, because they are valid for the old key only.
	PutPushKey(ctx context.Context, sealed string) error
	// PushKey returns the key, or ErrNotFound.
	PushKey(ctx context.Context) (sealed string, err error)
	// PutPushSubscription adds a subscription. It replaces that of the same
	// credential and that with the same endpoint. It returns ErrNotFound if the
	// credential does not exist. Deleting a credential deletes its subscription.
	PutPushSubscription(ctx context.Context, s PushSubscription) error
	// PushSubscriptions returns all subscriptions, oldest first.
	PushSubscriptions(ctx context.Context) ([]PushSubscription, error)
	// DeletePushSubscription removes the subscription of a credential. A missing
	// subscription is not an error.
	DeletePushSubscription(ctx context.Context, credential string) error
}
