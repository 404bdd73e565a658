package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/store"
)

func testPush(t *testing.T, _ runnel.Log, c store.Catalogue) {
	ctx := t.Context()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	subscriptions := must[[]store.PushSubscription](t)
	if _, err := c.PushKey(ctx); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a key that nobody stored: %v, want ErrNotFound", err)
	}
	check(c.PutPushKey(ctx, "sealed 1"))
	equal(t, "key", must[string](t)(c.PushKey(ctx)), "sealed 1")

	tokens := []store.Token{
		{ID: "a", Kind: store.TokenBrowser, Hash: [32]byte{1}, Project: "/p", ExpiresAt: at.Add(time.Hour), CreatedAt: at},
		{ID: "b", Kind: store.TokenAPI, Hash: [32]byte{2}, Parent: "a", CreatedAt: at},
		{ID: "c", Kind: store.TokenAPI, Hash: [32]byte{3}, CreatedAt: at},
	}
	for _, tok := range tokens {
		check(c.PutToken(ctx, tok))
	}
	of := func(i int, endpoint byte, sealed string) store.PushSubscription {
		return store.PushSubscription{Credential: tokens[i].ID, Endpoint: [32]byte{endpoint, 31: 255}, Sealed: sealed, Kinds: []string{"needs-you", "finished"},
			CreatedAt: at.Add(time.Duration(i)), Project: tokens[i].Project, ExpiresAt: tokens[i].ExpiresAt}
	}
	a, b, d := of(0, 1, "x"), of(1, 2, "y"), of(2, 3, "z")
	for _, s := range []store.PushSubscription{d, a, b} {
		check(c.PutPushSubscription(ctx, s))
	}
	equal(t, "oldest first", subscriptions(c.PushSubscriptions(ctx)), []store.PushSubscription{a, b, d})
	if err := c.PutPushSubscription(ctx, store.PushSubscription{Credential: "nobody"}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a subscription of no credential: %v, want ErrNotFound", err)
	}

	a.Sealed, a.Kinds = "new", []string{"finished"} // one for each credential
	check(c.PutPushSubscription(ctx, a))
	d.Endpoint = b.Endpoint // and one for each endpoint
	check(c.PutPushSubscription(ctx, d))
	equal(t, "replaced", subscriptions(c.PushSubscriptions(ctx)), []store.PushSubscription{a, d})

	tokens[0].ExpiresAt = at.Add(2 * time.Hour)
	check(c.PutToken(ctx, tokens[0]))
	a.ExpiresAt = tokens[0].ExpiresAt
	equal(t, "the credential was renewed", subscriptions(c.PushSubscriptions(ctx)), []store.PushSubscription{a, d})

	check(c.PutPushSubscription(ctx, b))
	check(c.DeletePushSubscription(ctx, "c"))
	check(c.DeletePushSubscription(ctx, "c"))
	equal(t, "removed", subscriptions(c.PushSubscriptions(ctx)), []store.PushSubscription{a, b})
	check(c.DeleteToken(ctx, "a")) // and with it b, which it made
	equal(t, "credentials ended", len(subscriptions(c.PushSubscriptions(ctx))), 0)

	d.Endpoint = of(2, 3, "").Endpoint
	check(c.PutPushSubscription(ctx, d))
	check(c.PutPushKey(ctx, "sealed 2"))
	equal(t, "new key", must[string](t)(c.PushKey(ctx)), "sealed 2")
	equal(t, "subscriptions for the old key", len(subscriptions(c.PushSubscriptions(ctx))), 0)
}
