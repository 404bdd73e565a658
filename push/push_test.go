package push

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/seal"
	"github.com/runnel-dev/runnel/store"
	"github.com/runnel-dev/runnel/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sessions are the sessions of a rig.
type sessions struct {
	mu      sync.Mutex
	status  map[string]gateway.Status
	changes []string
	grown   chan struct{}
	listed  chan struct{} // closed once the Service has read the list
	read    chan string   // ids whose status the Service has read
}

// set changes the status of a session, and waits until the Service has read it.
func (s *sessions) set(id, project, word string) {
	<-s.listed
	s.mu.Lock()
	st := statusOf(word)
	st.SessionID, st.ProjectDir = id, project
	s.status[id] = st
	s.changes = append(s.changes, id)
	close(s.grown)
	s.grown = make(chan struct{})
	s.mu.Unlock()
	for got := range s.read {
		if got == id {
			return
		}
	}
}

func (s *sessions) Changes(version int64) ([]string, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version < 0 {
		version = int64(len(s.changes))
	}
	return slices.Clone(s.changes[version:]), int64(len(s.changes))
}

func (s *sessions) Changed(version int64) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if int64(len(s.changes)) > version {
		c := make(chan struct{})
		close(c)
		return c
	}
	return s.grown
}

func (s *sessions) Status(_ context.Context, id string) (gateway.Status, error) {
	s.mu.Lock()
	st := s.status[id]
	s.mu.Unlock()
	s.read <- id
	return st, nil
}

func (s *sessions) List(context.Context, gateway.Filter) (list []gateway.Status, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.status {
		list = append(list, st)
	}
	close(s.listed)
	return list, nil
}

// A received message. The push service sends the status that answer receives.
type received struct {
	path   string
	header http.Header
	body   []byte
	status chan<- int
}

func (m received) answer(status int) { m.status <- status }

// A rig runs a Service beside a push service.
type rig struct {
	*Service
	t        *testing.T
	store    *memory.Catalogue
	sessions *sessions
	url      string
	arrived  chan received
	sent     chan noteID // notes that are no longer being sent
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, store: memory.New(new(runnel.Memory)), arrived: make(chan received, 100), sent: make(chan noteID, 1000),
		sessions: &sessions{status: make(map[string]gateway.Status), grown: make(chan struct{}), listed: make(chan struct{}), read: make(chan string, 1)}}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		answer := make(chan int, 1)
		r.arrived <- received{req.URL.Path, req.Header, body, answer}
		select {
		case status := <-answer:
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(status)
		case <-req.Context().Done():
		}
	}))
	r.url = srv.URL
	key, err := seal.Load(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	r.Service = New(Config{Sessions: r.sessions, Store: r.store, Sealer: key, Loopback: true, Settle: time.Millisecond,
		Retries: []time.Duration{time.Millisecond, time.Millisecond}})
	r.pace, r.ended = 0, func(id noteID) { r.sent <- id }
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-done
		r.client.CloseIdleConnections()
		srv.Close()
	})
	return r
}

// subscribe adds a credential and its subscription.
func (r *rig) subscribe(id, project string, kinds ...NoteKind) device {
	r.t.Helper()
	d := newDevice(r.t, r.url+"/"+id)
	hash := [32]byte{}
	copy(hash[:], id)
	if err := r.store.PutToken(r.t.Context(), store.Token{ID: id, Kind: store.TokenBrowser, Hash: hash, Project: project}); err != nil {
		r.t.Fatal(err)
	}
	if err := r.Subscribe(r.t.Context(), id, d.Subscription, kinds); err != nil {
		r.t.Fatal(err)
	}
	return d
}

func (r *rig) next() received {
	r.t.Helper()
	select {
	case m := <-r.arrived:
		return m
	case <-time.After(time.Minute):
		r.t.Fatal("no note arrived")
		return received{}
	}
}

// settled waits until the Service has handled all changes, and fails if another
// note was sent.
func (r *rig) settled(sentinel device) {
	r.t.Helper()
	r.sessions.set("sentinel", "/sentinel", "works")
	r.sessions.set("sentinel", "/sentinel", "waits")
	m := r.next()
	if m.path != "/sentinel" {
		r.t.Errorf("%s received a note", m.path)
	}
	if got := sentinel.open(r.t, m.body); got != `{"kind":"needs-you"}` {
		r.t.Error(got)
	}
	m.answer(http.StatusCreated)
	for id := range r.sent {
		if id.endpoint == sha256.Sum256([]byte(sentinel.Endpoint)) {
			break
		}
	}
	r.sessions.set("sentinel", "/sentinel", "works")
}

func (r *rig) kinds(id string) string {
	r.t.Helper()
	kinds, err := r.Subscribed(r.t.Context(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	return fmt.Sprint(kinds)
}

func TestSubscriberReceivesEncryptedNotes(t *testing.T) {
	r := newRig(t)
	public, err := r.PublicKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, bound := r.subscribe("all", "", NeedsYou, Finished), r.subscribe("bound", "/b", Finished)
	r.sessions.set("1", "/a", "works")
	r.sessions.set("1", "/a", "waits")
	m := r.next()
	if m.path != "/all" || all.open(t, m.body) != `{"kind":"needs-you"}` {
		t.Errorf("%s received %s", m.path, all.open(t, m.body))
	}
	if got := verify(t, m.header.Get("Authorization"), r.url); got != public {
		t.Errorf("signed with %s, want %s", got, public)
	}
	for name, want := range map[string]string{"Content-Encoding": "aes128gcm", "Ttl": "3600", "Urgency": "high", "Topic": topic(all.Subscription, NeedsYou)} {
		if got := m.header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	m.answer(http.StatusCreated)

	r.sessions.set("2", "/b", "works")
	r.sessions.set("1", "/a", "works")
	r.sessions.set("2", "/b", "idle")
	paths := map[string]bool{}
	for range 2 {
		m := r.next()
		d := all
		if m.path == "/bound" {
			d = bound
		}
		if got := d.open(t, m.body); got != `{"kind":"finished"}` {
			t.Errorf("%s received %s", m.path, got)
		}
		paths[m.path] = true
		m.answer(http.StatusCreated)
	}
	if !paths["/all"] || !paths["/bound"] {
		t.Errorf("only %v received a note", paths)
	}
}

func TestFailedNotesAreRetriedAFewTimes(t *testing.T) {
	r := newRig(t)
	d, sentinel := r.subscribe("a", "/a", NeedsYou), r.subscribe("sentinel", "/sentinel", NeedsYou)
	r.sessions.set("1", "/a", "waits")
	for _, status := range []int{http.StatusInternalServerError, http.StatusTooManyRequests, http.StatusCreated} {
		m := r.next()
		d.open(t, m.body)
		m.answer(status)
	}
	r.settled(sentinel)
	r.sessions.set("1", "/a", "works")
	r.settled(sentinel)
	r.sessions.set("1", "/a", "waits")
	for range 3 { // the first attempt and two retries
		r.next().answer(http.StatusServiceUnavailable)
	}
	r.settled(sentinel)
	r.sessions.set("1", "/a", "works")
	r.settled(sentinel)
	r.sessions.set("1", "/a", "waits")
	r.next().answer(http.StatusRequestEntityTooLarge) // no retry helps
	r.settled(sentinel)
	if got := r.kinds("a"); got != "[needs-you]" {
		t.Errorf("subscribed to %s", got)
	}
}

func TestSubscriptionThatAServiceRejectsIsRemoved(t *testing.T) {
	for _, status := range []int{http.StatusNotFound, http.StatusGone, http.StatusForbidden, http.StatusUnauthorized} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			r := newRig(t)
			sentinel := r.subscribe("sentinel", "/sentinel", NeedsYou)
			r.subscribe("a", "/a", NeedsYou)
			r.sessions.set("1", "/a", "waits")
			r.next().answer(status)
			for r.kinds("a") != "[]" {
				r.settled(sentinel)
			}
			r.sessions.set("1", "/a", "works")
			r.settled(sentinel)
			r.sessions.set("1", "/a", "waits")
			r.settled(sentinel)
		})
	}
}

func TestRevokedCredentialReceivesNothing(t *testing.T) {
	r := newRig(t)
	sentinel := r.subscribe("sentinel", "/sentinel", NeedsYou)
	r.subscribe("revoked", "/a", NeedsYou)
	r.subscribe("expired", "/a", NeedsYou)
	ctx := t.Context()
	for _, err := range []error{
		r.store.PutToken(ctx, store.Token{ID: "expired", Hash: [32]byte{1}, Project: "/a", ExpiresAt: time.Now().Add(-time.Second)}),
		r.store.DeleteToken(ctx, "revoked"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	r.sessions.set("1", "/a", "waits")
	r.settled(sentinel)

	// A credential that ends between two attempts gets no second one.
	r.subscribe("ends", "/b", NeedsYou)
	r.sessions.set("2", "/b", "waits")
	m := r.next()
	if err := r.store.DeleteToken(ctx, "ends"); err != nil {
		t.Fatal(err)
	}
	m.answer(http.StatusInternalServerError)
	r.settled(sentinel)
}

func TestSubscribeRejectsInvalidRequests(t *testing.T) {
	r := newRig(t)
	good := r.subscribe("a", "", NeedsYou)
	edit := func(f func(*Subscription)) Subscription {
		s := good.Subscription
		f(&s)
		return s
	}
	for name, tc := range map[string]struct {
		credential string
		sub        Subscription
		kinds      []NoteKind
	}{
		"private":        {"a", edit(func(s *Subscription) { s.Endpoint = "https://10.0.0.1/" }), Kinds()},
		"no point":       {"a", edit(func(s *Subscription) { s.P256dh = make([]byte, 65) }), Kinds()},
		"short key":      {"a", edit(func(s *Subscription) { s.P256dh = s.P256dh[:64] }), Kinds()},
		"short secret":   {"a", edit(func(s *Subscription) { s.Auth = s.Auth[:15] }), Kinds()},
		"no kind":        {"a", good.Subscription, nil},
		"unknown kind":   {"a", good.Subscription, []NoteKind{"all"}},
		"kind twice":     {"a", good.Subscription, []NoteKind{NeedsYou, NeedsYou}},
		"no credential":  {"", good.Subscription, Kinds()},
		"not its record": {"nobody", good.Subscription, Kinds()},
	} {
		if err := r.Subscribe(t.Context(), tc.credential, tc.sub, tc.kinds); runnel.CodeOf(err) != runnel.InvalidRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i := 1; i < maxSubscriptions; i++ {
		r.subscribe(fmt.Sprintf("other%d", i), "", NeedsYou)
	}
	if err := r.Subscribe(t.Context(), "a", good.Subscription, Kinds()); err != nil {
		t.Errorf("a change of a subscription at the limit: %v", err)
	}
	if err := r.store.PutToken(t.Context(), store.Token{ID: "more", Hash: [32]byte{255}}); err != nil {
		t.Fatal(err)
	}
	if err := r.Subscribe(t.Context(), "more", newDevice(t, r.url+"/more").Subscription, Kinds()); runnel.CodeOf(err) != runnel.Overloaded {
		t.Errorf("beyond the limit: %v", err)
	}
}

// Address, keys and the server's own key are readable only with the key file.
func TestSecretsAreStoredEncrypted(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	r.subscribe("a", "", NeedsYou)
	before, err := r.PublicKey(ctx)
	if err != nil {
		t.Fatal(err)
	}
	again, err := New(r.cfg).PublicKey(ctx)
	if err != nil || again != before {
		t.Errorf("after a restart the key is %s, want %s: %v", again, before, err)
	}
	other, err := seal.Load(filepath.Join(t.TempDir(), "other"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := r.cfg
	cfg.Sealer = other
	lost := New(cfg)
	after, err := lost.PublicKey(ctx)
	if err != nil || after == before {
		t.Errorf("without the key file the key is still %s: %v", after, err)
	}
	if got := r.kinds("a"); got != "[]" {
		t.Errorf("subscribed to %s with a key that is lost", got)
	}
	if _, err := r.store.PushKey(ctx); errors.Is(err, store.ErrNotFound) {
		t.Error("the new key was not stored")
	}
}

// A service that sends a long answer, or none, holds up nothing else.
func TestSlowServiceDelaysNobody(t *testing.T) {
	r := newRig(t)
	sentinel := r.subscribe("sentinel", "/sentinel", NeedsYou)
	r.subscribe("slow", "/a", NeedsYou)
	r.sessions.set("1", "/a", "waits")
	slow := r.next() // never answered while the others are
	r.settled(sentinel)
	r.sessions.set("1", "/a", "works")
	r.settled(sentinel)
	r.sessions.set("1", "/a", "waits") // the same note is still being sent
	r.settled(sentinel)
	slow.answer(http.StatusCreated)
}

// Some credentials whose push services never answer hold up no others.
func TestHangingServicesDelayNobody(t *testing.T) {
	r := newRig(t)
	sentinel := r.subscribe("sentinel", "/sentinel", NeedsYou)
	const hanging = 4
	for i := range hanging {
		r.subscribe(fmt.Sprint("slow", i), "/a", NeedsYou, Finished)
	}
	r.sessions.set("1", "/a", "works")
	r.sessions.set("2", "/a", "works")
	r.sessions.set("1", "/a", "waits")
	r.sessions.set("2", "/a", "rests")
	seen := make(map[string]int)
	for range hanging {
		seen[r.next().path]++
	}
	if len(seen) != hanging {
		t.Errorf("one service received several notes at once: %v", seen)
	}
	r.settled(sentinel)
}

func TestAnswersOfPushServices(t *testing.T) {
	for _, tc := range []struct {
		status     int
		retryAfter string
		again      time.Duration // negative: never
		gone       bool
	}{
		{201, "", 0, false}, {202, "5", 0, false}, {429, "", 0, false}, {429, "7", 7 * time.Second, false}, {503, "99999999999", maxWait, false},
		{500, "-1", 0, false}, {503, "Wed, 21 Oct 2026 07:28:00 GMT", 0, false}, {302, "", -1, false}, {400, "", -1, false}, {413, "", -1, false},
		{404, "", -1, true}, {410, "", -1, true}, {403, "", -1, true}, {401, "", -1, true},
	} {
		res := &http.Response{StatusCode: tc.status, Header: http.Header{"Retry-After": {tc.retryAfter}}}
		again, err := judge(res)
		if (err == nil) != (tc.status < 300) || again != tc.again || errors.Is(err, errGone) != tc.gone {
			t.Errorf("%d %q: got %s, %v", tc.status, tc.retryAfter, again, err)
		}
	}
}
