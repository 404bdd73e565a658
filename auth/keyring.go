package auth

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel/store"
)

// A Keyring creates, checks and revokes credentials. Its methods may be called
// concurrently.
type Keyring struct {
	// Seen is called with every secret that is created or successfully checked,
	// for example to redact it from logs. Set Seen before the first use of the
	// Keyring. Default: none.
	Seen func(secret string)

	tokens Tokens

	// Each kind of credential has its own throttle, so that guesses of one kind
	// do not lock out users of another, such as the owner who logs in.
	api, browser, login throttle

	// mu prevents a renewal from restoring a credential that is being revoked,
	// and guards the fields below.
	mu       sync.Mutex
	verified map[[32]byte]verdict
	bound    map[string]map[*binding]struct{} // by id of the credential
}

type verdict struct {
	id    Identity
	until time.Time // when the credential must be checked again
	used  time.Time // last recorded use
}

// NewKeyring returns a Keyring of the credentials in tokens.
func NewKeyring(tokens Tokens) *Keyring {
	return &Keyring{
		tokens:   tokens,
		verified: make(map[[32]byte]verdict),
		bound:    make(map[string]map[*binding]struct{}),
	}
}

// Create creates a credential for a program. The secret is returned only here
// and is not stored. Create fails with [ErrBoundAdmin] if a credential that is
// limited to a project would get the scope admin, because admin covers the
// credentials of all projects.
func (k *Keyring) Create(ctx context.Context, g Grant) (secret string, t store.Token, err error) {
	if g.Project != "" && slices.Contains(g.Scopes, Admin) {
		return "", t, ErrBoundAdmin
	}
	secret = newSecret()
	if t, err = k.keep(ctx, secret, store.TokenAPI, g); err != nil {
		return "", t, err
	}
	return secret, t, nil
}

// LoginCode creates a code that can be exchanged once, within [CodeLife], for a
// browser's credential. It acts for the owner of the data directory.
func (k *Keyring) LoginCode(ctx context.Context, scopes []Scope) (string, error) {
	return k.LoginCodeBy(ctx, Identity{Scopes: scopes})
}

// LoginCodeBy is [Keyring.LoginCode] for the caller by. The browser gets the
// scopes of by, and its credential ends no later than that of by.
func (k *Keyring) LoginCodeBy(ctx context.Context, by Identity) (string, error) {
	if err := k.Purge(ctx); err != nil {
		return "", err
	}
	code := newSecret()
	if _, err := k.keep(ctx, code, store.TokenLogin, Grant{Name: "login", Scopes: by.Scopes, Life: CodeLife, By: by}); err != nil {
		return "", err
	}
	return code, nil
}

// Purge removes expired login codes and expired credentials of browsers. The
// creation of a login code does the same.
func (k *Keyring) Purge(ctx context.Context) error {
	k.mu.Lock() // prevents concurrent renewals
	defer k.mu.Unlock()
	now := time.Now()
	for _, kind := range []store.TokenKind{store.TokenLogin, store.TokenBrowser} {
		ts, err := k.tokens.Tokens(ctx, kind)
		if err != nil {
			return fmt.Errorf("look up expired logins: %w", err)
		}
		for _, t := range ts {
			if !expired(t, now) {
				continue
			}
			if err := k.tokens.DeleteToken(ctx, t.ID); err != nil && !errors.Is(err, store.ErrNotFound) { // it was deleted with its parent
				return fmt.Errorf("remove an expired login: %w", err)
			}
		}
	}
	return nil
}

// Redeem exchanges a login code for the credential of a browser with this name.
// Of several callers with the same code exactly one succeeds.
func (k *Keyring) Redeem(ctx context.Context, code, name string, from netip.Addr) (secret Halves, id Identity, err error) {
	now := time.Now()
	t, err := k.find(ctx, store.TokenLogin, code, now)
	if err == nil {
		err = k.tokens.DeleteToken(ctx, t.ID) // the caller that deletes the code wins
		if errors.Is(err, store.ErrNotFound) {
			err = ErrInvalid
		}
	}
	if err != nil {
		return Halves{}, Identity{}, k.failed(store.TokenLogin, code, from, now, err)
	}
	secret = Halves{newSecret(), newSecret()}
	t, err = k.keep(ctx, secret.Secret(), store.TokenBrowser, Grant{Name: name, Scopes: identify(t).Scopes, Life: BrowserLife, By: Identity{ID: t.Parent}})
	if errors.Is(err, ErrMakerEnded) {
		err = ErrInvalid
	}
	if err == nil { // cached for the browser's next request, which follows soon
		k.mu.Lock()
		k.remember(t, now)
		k.mu.Unlock()
		k.seen(ProofKey(identify(t)))
	}
	return secret, identify(t), err
}

// maxKnown is the maximum number of secrets that Known looks up. It is more
// than the number of cookies that browsers store for one host. There must be a
// maximum, because each secret takes a query, even if the caller has no
// credential.
const maxKnown = 200

// Known returns the first of several secrets that is a valid credential, or
// secrets[0] if none is. It looks up at most 200. The caller must still call
// [Keyring.Check] with the result.
func (k *Keyring) Known(ctx context.Context, kind store.TokenKind, secrets []string) string {
	if len(secrets) > 1 {
		for _, secret := range secrets[:min(len(secrets), maxKnown)] {
			if _, err := k.find(ctx, kind, secret, time.Now()); err == nil {
				return secret
			}
		}
	}
	return secrets[0]
}

// Check returns the identity of the caller who presented a secret. It looks the
// secret up before throttling: only wrong secrets are throttled, so guesses
// never lock out a valid credential.
func (k *Keyring) Check(ctx context.Context, kind store.TokenKind, secret string, from netip.Addr) (Identity, error) {
	now := time.Now()
	if id, ok := k.recent(kind, secret, now); ok {
		return id, nil
	}
	if _, err := k.find(ctx, kind, secret, now); err != nil { // without the lock, so that guesses do not delay other callers
		return Identity{}, k.failed(kind, secret, from, now, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	t, err := k.find(ctx, kind, secret, now)
	if err != nil {
		return Identity{}, k.failed(kind, secret, from, now, err)
	}
	k.remember(t, now)
	k.seen(secret)
	return identify(t), nil
}

// failed counts a wrong secret. It returns ErrThrottled if there were too many,
// and err otherwise. It does not count failures of the store.
func (k *Keyring) failed(kind store.TokenKind, secret string, from netip.Addr, now time.Time, err error) error {
	if errors.Is(err, ErrInvalid) && k.guesses(kind).failed(from, secret, now) {
		return ErrThrottled
	}
	return err
}

// Renew records the use of a credential and extends the lifetime of a
// browser's. It reports whether the cookie must be sent again. It writes at
// most once an hour for each credential; other calls are cheap.
func (k *Keyring) Renew(ctx context.Context, id Identity) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if v, ok := k.verified[id.hash]; ok && now.Sub(v.used) < renewEvery {
		return false, nil
	}
	t, err := k.valid(ctx, id.hash, id.Kind, now)
	if err != nil || now.Sub(t.LastUsedAt) < renewEvery {
		return false, err
	}
	t.LastUsedAt = now
	if t.Kind == store.TokenBrowser {
		t.ExpiresAt = now.Add(BrowserLife)
		if err := k.inherit(ctx, &t, now); err != nil {
			return false, err
		}
	}
	if err := k.tokens.PutToken(ctx, t); err != nil {
		return false, fmt.Errorf("renew credential: %w", err)
	}
	k.remember(t, now)
	return t.Kind == store.TokenBrowser, nil
}

// Rename gives a credential of a program or a browser another name, which
// [CheckName] must accept. It returns [store.ErrNotFound] if there is no such
// credential.
func (k *Keyring) Rename(ctx context.Context, id, name string) (store.Token, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	all, err := k.all(ctx)
	if err != nil {
		return store.Token{}, err
	}
	i := slices.IndexFunc(all, func(t store.Token) bool { return t.ID == id && !expired(t, time.Now()) })
	if i < 0 {
		return store.Token{}, store.ErrNotFound
	}
	t := all[i]
	t.Name = name
	if err := k.tokens.PutToken(ctx, t); err != nil {
		return store.Token{}, fmt.Errorf("rename credential: %w", err)
	}
	if v, ok := k.verified[t.Hash]; ok {
		v.id.Name = name
		k.verified[t.Hash] = v
	}
	return t, nil
}

// Revoke ends a credential, all credentials that its holder created with it,
// and every stream that uses one of them.
func (k *Keyring) Revoke(ctx context.Context, id string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	ended, err := k.family(ctx, id)
	if err != nil {
		return err
	}
	err = k.tokens.DeleteToken(ctx, id)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	for hash, v := range k.verified {
		if slices.Contains(ended, v.id.ID) {
			delete(k.verified, hash)
		}
	}
	for _, id := range ended {
		for b := range k.bound[id] {
			b.cancel(ErrEnded)
		}
	}
	return err
}

// family returns the id of a credential and the ids of all credentials that its
// holder created with it, directly or indirectly; k.mu is held.
func (k *Keyring) family(ctx context.Context, id string) ([]string, error) {
	all, err := k.all(ctx)
	if err != nil {
		return nil, err
	}
	ids := []string{id}
	for i := 0; i < len(ids); i++ {
		for _, t := range all {
			if t.Parent == ids[i] {
				ids = append(ids, t.ID)
			}
		}
	}
	return ids, nil
}

// inherit limits the expiry of t to that of its parent. It fails with
// [ErrMakerEnded] if the parent has ended; k.mu is held.
func (k *Keyring) inherit(ctx context.Context, t *store.Token, now time.Time) error {
	if t.Parent == "" {
		return nil
	}
	all, err := k.all(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(other store.Token) bool { return other.ID == t.Parent })
	if i < 0 || expired(all[i], now) {
		return ErrMakerEnded
	}
	if end := all[i].ExpiresAt; !end.IsZero() && (t.ExpiresAt.IsZero() || end.Before(t.ExpiresAt)) {
		t.ExpiresAt = end
	}
	return nil
}

// RevokeBrowsers revokes the credentials of all browsers, and the codes with
// which further ones could log in.
func (k *Keyring) RevokeBrowsers(ctx context.Context) error {
	var failed []error
	for _, kind := range []store.TokenKind{store.TokenLogin, store.TokenBrowser} {
		ts, err := k.tokens.Tokens(ctx, kind)
		if err != nil {
			return fmt.Errorf("list credentials: %w", err)
		}
		for _, t := range ts {
			if err := k.Revoke(ctx, t.ID); err != nil && !errors.Is(err, store.ErrNotFound) {
				failed = append(failed, err)
			}
		}
	}
	return errors.Join(failed...)
}

// List returns the credentials of programs and browsers, except expired ones of
// browsers. The result contains no secrets.
func (k *Keyring) List(ctx context.Context) ([]store.Token, error) {
	all, err := k.all(ctx)
	now := time.Now()
	return slices.DeleteFunc(all, func(t store.Token) bool { return t.Kind == store.TokenBrowser && expired(t, now) }), err
}

// all returns the credentials of programs and browsers, including expired ones.
func (k *Keyring) all(ctx context.Context) ([]store.Token, error) {
	var out []store.Token
	for _, kind := range []store.TokenKind{store.TokenAPI, store.TokenBrowser} {
		ts, err := k.tokens.Tokens(ctx, kind)
		if err != nil {
			return nil, fmt.Errorf("list credentials: %w", err)
		}
		out = append(out, ts...)
	}
	return out, nil
}

func (k *Keyring) guesses(kind store.TokenKind) *throttle {
	switch kind {
	case store.TokenBrowser:
		return &k.browser
	case store.TokenLogin:
		return &k.login
	}
	return &k.api
}

// keep stores the record of a new credential with this secret.
func (k *Keyring) keep(ctx context.Context, secret string, kind store.TokenKind, g Grant) (store.Token, error) {
	if len(g.Scopes) == 0 {
		return store.Token{}, errors.New("auth: a credential needs a scope")
	}
	hash, _ := digest(secret)
	now := time.Now()
	t := store.Token{
		ID: uuid.NewString(), Kind: kind, Name: g.Name, Hash: hash, Scopes: names(g.Scopes), Project: g.Project,
		CreatedAt: now, LastUsedAt: now,
	}
	if g.Life > 0 {
		t.ExpiresAt = now.Add(g.Life)
	}
	if g.By.Kind != KindLocal {
		t.Parent = g.By.ID
	}
	k.mu.Lock() // the parent cannot be revoked meanwhile
	defer k.mu.Unlock()
	if err := k.inherit(ctx, &t, now); err != nil {
		return store.Token{}, err
	}
	if err := k.tokens.PutToken(ctx, t); err != nil {
		return store.Token{}, fmt.Errorf("store credential: %w", err)
	}
	k.seen(secret)
	return t, nil
}

func (k *Keyring) seen(secret string) {
	if k.Seen != nil {
		k.Seen(secret)
	}
}

func (k *Keyring) find(ctx context.Context, kind store.TokenKind, secret string, now time.Time) (store.Token, error) {
	hash, ok := digest(secret)
	if !ok {
		return store.Token{}, ErrInvalid
	}
	return k.valid(ctx, hash, kind, now)
}

func (k *Keyring) valid(ctx context.Context, hash [32]byte, kind store.TokenKind, now time.Time) (store.Token, error) {
	t, err := k.tokens.TokenByHash(ctx, hash)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return store.Token{}, ErrInvalid
	case err != nil:
		return store.Token{}, fmt.Errorf("look up credential: %w", err)
	case subtle.ConstantTimeCompare(t.Hash[:], hash[:]) != 1, t.Kind != kind, expired(t, now):
		return store.Token{}, ErrInvalid
	}
	return t, nil
}

func expired(t store.Token, now time.Time) bool {
	return !t.ExpiresAt.IsZero() && !now.Before(t.ExpiresAt)
}

func (k *Keyring) recent(kind store.TokenKind, secret string, now time.Time) (Identity, bool) {
	hash, ok := digest(secret)
	if !ok {
		return Identity{}, false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	v, ok := k.verified[hash]
	if !ok || v.id.Kind != kind || !now.Before(v.until) {
		return Identity{}, false
	}
	return v.id, true
}

// verdictsKept is the maximum number of cached check results.
const verdictsKept = 1024

func (k *Keyring) remember(t store.Token, now time.Time) { // k.mu is held
	if len(k.verified) >= verdictsKept {
		clear(k.verified)
	}
	until := now.Add(recheck)
	if !t.ExpiresAt.IsZero() && t.ExpiresAt.Before(until) {
		until = t.ExpiresAt
	}
	k.verified[t.Hash] = verdict{identify(t), until, t.LastUsedAt}
}
