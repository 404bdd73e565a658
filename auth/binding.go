package auth

import (
	"context"
	"errors"
	"time"
)

// A binding connects an open stream to the credential with which it was opened.
type binding struct {
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

// Bind returns a context that ends with [ErrEnded] once id's credential is
// revoked or has expired. It ends at once if k revokes the credential, and
// within a minute if another process does. The caller must call stop at the end
// of the stream.
func (k *Keyring) Bind(ctx context.Context, id Identity) (bound context.Context, stop func()) {
	bound, cancel := context.WithCancelCause(ctx)
	if id.Kind == KindLocal { // it has no credential
		return bound, func() { cancel(context.Canceled) }
	}
	b := &binding{cancel: cancel}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.bound[id.ID] == nil {
		k.bound[id.ID] = make(map[*binding]struct{})
	}
	k.bound[id.ID][b] = struct{}{}
	b.timer = time.AfterFunc(recheck, func() { k.judge(bound, id, b) })
	if v, ok := k.verified[id.hash]; !ok || v.id.ID != id.ID { // the credential may have been revoked since it was checked
		k.check(bound, id, b)
	}
	return bound, func() { k.unbind(id, b) }
}

// judge checks whether the credential of an open stream is still valid.
func (k *Keyring) judge(ctx context.Context, id Identity, b *binding) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.bound[id.ID][b]; ok {
		k.check(ctx, id, b)
	}
}

func (k *Keyring) check(ctx context.Context, id Identity, b *binding) { // k.mu is held
	if _, err := k.valid(ctx, id.hash, id.Kind, time.Now()); errors.Is(err, ErrInvalid) {
		b.cancel(ErrEnded)
		return
	}
	b.timer.Reset(recheck)
}

func (k *Keyring) unbind(id Identity, b *binding) {
	k.mu.Lock()
	defer k.mu.Unlock()
	b.timer.Stop()
	delete(k.bound[id.ID], b)
	if len(k.bound[id.ID]) == 0 {
		delete(k.bound, id.ID)
	}
	b.cancel(context.Canceled)
}
