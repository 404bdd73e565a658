// Package push sends notes through Web Push: that a session needs somebody, or
// has finished. Only the owner of a credential can subscribe to notes. A note
// contains its kind and nothing else, and only the browser can decrypt it.
package push

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/wake"
	"github.com/runnel-dev/runnel/store"
)

// A NoteKind is what a note says.
type NoteKind string

// The kinds of notes.
const (
	NeedsYou NoteKind = "needs-you" // an agent waits for an answer
	Finished NoteKind = "finished"  // a session has no more work
)

// Kinds returns every kind.
func Kinds() []NoteKind { return []NoteKind{NeedsYou, Finished} }

// maxSubscriptions bounds the subscriptions of all credentials together.
const maxSubscriptions = 500

// Sessions are the sessions of a gateway. See the methods of
// [gateway.Gateway].
type Sessions interface {
	Changes(version int64) (ids []string, now int64)
	Changed(version int64) <-chan struct{}
	Status(ctx context.Context, ref string) (gateway.Status, error)
	List(ctx context.Context, f gateway.Filter) ([]gateway.Status, error)
}

// Config configures a Service. Sessions, Store and Sealer are required.
type Config struct {
	Sessions Sessions
	Store    store.Pushes
	Sealer   gateway.Sealer

	Loopback bool            // also accept push services on this machine, without TLS; for tests. Default: false
	Settle   time.Duration   // how long a session must need somebody, or have no work, before a note is sent. Default: 3 s
	Retries  []time.Duration // waits between the attempts to send a note. Default: 5 s, 30 s, 2 min

	Logger *slog.Logger // Default: discards
}

// A Service stores subscriptions and sends notes to them. Its methods are safe
// for concurrent use.
type Service struct {
	cfg    Config
	client *http.Client
	more   wake.Signal   // wakes Run because there may be a first subscription
	pace   time.Duration // least time between two reads of the sessions that have changed; a running turn changes its session many times a second
	ended  func(noteID)  // is called when a note is no longer being sent; for tests

	mu  sync.Mutex
	key *ecdsa.PrivateKey // nil until it is needed
}

// New returns a Service. It starts no goroutines.
func New(cfg Config) *Service {
	cfg.Settle = cmp.Or(cfg.Settle, 3*time.Second)
	if cfg.Retries == nil {
		cfg.Retries = []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Service{cfg: cfg, client: newClient(cfg.Loopback), more: wake.New(), pace: 250 * time.Millisecond, ended: func(noteID) {}}
}

// A Subscription is what a browser's PushManager returns.
type Subscription struct {
	Endpoint string `json:"endpoint"` // address at the push service
	P256dh   []byte `json:"p256dh"`   // public key of the browser
	Auth     []byte `json:"auth"`     // secret of the browser and this server
}

// PublicKey returns the key that identifies this server to push services, as
// the browser's PushManager expects it, in base64url. The first call creates
// it.
func (s *Service) PublicKey(ctx context.Context) (string, error) {
	key, err := s.signer(ctx)
	if err != nil {
		return "", err
	}
	return publicOf(key)
}

func publicOf(key *ecdsa.PrivateKey) (string, error) {
	public, err := key.PublicKey.Bytes()
	return base64.RawURLEncoding.EncodeToString(public), err
}

func (s *Service) signer(ctx context.Context) (*ecdsa.PrivateKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.key != nil {
		return s.key, nil
	}
	key, err := s.storedKey(ctx)
	if errors.Is(err, store.ErrNotFound) {
		key, err = s.newKey(ctx)
	}
	if err != nil {
		return nil, runnel.Fail(runnel.StoreUnavailable, "the key for push services cannot be read or stored now; see the server's log", err)
	}
	s.key = key
	return key, nil
}

// storedKey returns the stored key, or ErrNotFound if there is none. If it
// cannot be decrypted, because the key file was replaced, it counts as missing.
func (s *Service) storedKey(ctx context.Context) (*ecdsa.PrivateKey, error) {
	sealed, err := s.cfg.Store.PushKey(ctx)
	if err != nil {
		return nil, err
	}
	plain, err := s.cfg.Sealer.Open(sealed)
	if err == nil {
		var key *ecdsa.PrivateKey
		if key, err = ecdsa.ParseRawPrivateKey(elliptic.P256(), plain); err == nil {
			return key, nil
		}
	}
	s.cfg.Logger.Warn("the key for push services cannot be decrypted, so a new one replaces it and all subscriptions end", "error", err)
	return nil, store.ErrNotFound
}

func (s *Service) newKey(ctx context.Context) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	plain, err := key.Bytes()
	if err != nil {
		return nil, err
	}
	return key, s.cfg.Store.PutPushKey(ctx, s.cfg.Sealer.Seal(plain))
}

// Subscribe stores the subscription of a credential to notes of these kinds. It
// replaces the credential's earlier subscription.
func (s *Service) Subscribe(ctx context.Context, credential string, sub Subscription, kinds []NoteKind) error {
	if err := s.check(sub, kinds); err != nil {
		return err
	}
	if _, err := s.signer(ctx); err != nil {
		return err
	}
	all, err := s.cfg.Store.PushSubscriptions(ctx)
	if err != nil {
		return unavailable(err)
	}
	mine := func(p store.PushSubscription) bool { return p.Credential == credential }
	if len(all) >= maxSubscriptions && !slices.ContainsFunc(all, mine) {
		return runnel.Fail(runnel.Overloaded, fmt.Sprintf("the server has %d subscriptions, which is its limit; end some", maxSubscriptions))
	}
	plain, err := json.Marshal(sub)
	if err != nil {
		return err
	}
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k)
	}
	err = s.cfg.Store.PutPushSubscription(ctx, store.PushSubscription{
		Credential: credential, Endpoint: sha256.Sum256([]byte(sub.Endpoint)), Sealed: s.cfg.Sealer.Seal(plain), Kinds: names, CreatedAt: time.Now(),
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return runnel.Fail(runnel.InvalidRequest, "only a token or a browser's login can subscribe to notes")
	case err != nil:
		return unavailable(err)
	}
	s.more.Send()
	return nil
}

func (s *Service) check(sub Subscription, kinds []NoteKind) error {
	if err := checkEndpoint(sub.Endpoint, s.cfg.Loopback); err != nil {
		return runnel.Fail(runnel.InvalidRequest, "endpoint: "+err.Error())
	}
	if err := checkKeys(sub); err != nil {
		return runnel.Fail(runnel.InvalidRequest, "keys: "+err.Error())
	}
	if len(kinds) == 0 {
		return runnel.Fail(runnel.InvalidRequest, "kinds: want at least one of needs-you and finished")
	}
	for i, k := range kinds {
		if !slices.Contains(Kinds(), k) || slices.Contains(kinds[:i], k) {
			return runnel.Fail(runnel.InvalidRequest, "kinds: want needs-you, finished or both, each once")
		}
	}
	return nil
}

// Unsubscribe removes the subscription of a credential, if there is one.
func (s *Service) Unsubscribe(ctx context.Context, credential string) error {
	if err := s.cfg.Store.DeletePushSubscription(ctx, credential); err != nil {
		return unavailable(err)
	}
	return nil
}

// Subscribed returns the kinds of notes to which a credential has subscribed.
func (s *Service) Subscribed(ctx context.Context, credential string) ([]NoteKind, error) {
	all, err := s.cfg.Store.PushSubscriptions(ctx)
	if err != nil {
		return nil, unavailable(err)
	}
	var kinds []NoteKind
	for _, p := range all {
		if p.Credential == credential {
			for _, name := range p.Kinds {
				kinds = append(kinds, NoteKind(name))
			}
		}
	}
	return kinds, nil
}

func unavailable(err error) error {
	return runnel.Fail(runnel.StoreUnavailable, "subscriptions cannot be read or stored now; see the server's log", err)
}
