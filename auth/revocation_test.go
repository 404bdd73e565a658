package auth

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel/store"
)

// admin creates a token with every scope and returns its identity.
func admin(t *testing.T, k *Keyring, life time.Duration) Identity {
	t.Helper()
	secret, _, err := k.Create(t.Context(), Grant{Name: "admin", Scopes: All(), Life: life})
	if err != nil {
		t.Fatal(err)
	}
	id, err := k.Check(t.Context(), store.TokenAPI, secret, here)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestRevokeEndsWhatTheCredentialMade(t *testing.T) {
	k, _ := newKeyring()
	boss := admin(t, k, 0)
	code, err := k.LoginCodeBy(t.Context(), boss)
	if err != nil {
		t.Fatal(err)
	}
	halves, browser, err := k.Redeem(t.Context(), code, "browser", here)
	if err != nil {
		t.Fatal(err)
	}
	secret, _, err := k.Create(t.Context(), Grant{Name: "child", Scopes: All(), By: browser})
	if err != nil {
		t.Fatal(err)
	}
	child, err := k.Check(t.Context(), store.TokenAPI, secret, here)
	if err != nil {
		t.Fatal(err)
	}
	other := admin(t, k, 0)

	streams := make(map[string]context.Context)
	for name, id := range map[string]Identity{"boss": boss, "browser": browser, "child": child, "other": other} {
		ctx, stop := k.Bind(t.Context(), id)
		defer stop()
		streams[name] = ctx
	}
	if err := k.Revoke(t.Context(), boss.ID); err != nil {
		t.Fatal(err)
	}
	for name, ctx := range streams {
		if ended := errors.Is(context.Cause(ctx), ErrEnded); ended != (name != "other") {
			t.Errorf("the stream of %s has ended: %v", name, ended)
		}
	}
	for kind, s := range map[store.TokenKind]string{store.TokenBrowser: halves.Secret(), store.TokenAPI: secret} {
		if _, err := k.Check(t.Context(), kind, s, here); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	for _, by := range []Identity{boss, browser, child} {
		if _, _, err := k.Create(t.Context(), Grant{Name: "late", Scopes: All(), By: by}); !errors.Is(err, ErrMakerEnded) {
			t.Errorf("a revoked credential makes another: %v", err)
		}
	}
	if ts, err := k.List(t.Context()); err != nil || len(ts) != 1 {
		t.Errorf("left: %v, %v", ts, err)
	}
}

func TestCredentialInheritsTheExpiryOfItsMaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _ := newKeyring()
		const life = 20 * time.Hour
		boss := admin(t, k, life)
		end := time.Now().Add(life)
		for _, asked := range []time.Duration{0, 24 * time.Hour} {
			if _, tok, err := k.Create(t.Context(), Grant{Name: "child", Scopes: All(), Life: asked, By: boss}); err != nil || !tok.ExpiresAt.Equal(end) {
				t.Errorf("asked for %v: until %v, %v; want %v", asked, tok.ExpiresAt, err, end)
			}
		}
		if _, tok, err := k.Create(t.Context(), Grant{Name: "child", Scopes: All(), Life: time.Hour, By: boss}); err != nil || !tok.ExpiresAt.Equal(time.Now().Add(time.Hour)) {
			t.Errorf("a shorter life: until %v, %v", tok.ExpiresAt, err)
		}

		// Renewal does not extend a browser's credential beyond the expiry of
		// its parent.
		code, err := k.LoginCodeBy(t.Context(), boss)
		if err != nil {
			t.Fatal(err)
		}
		halves, browser, err := k.Redeem(t.Context(), code, "browser", here)
		if err != nil {
			t.Fatal(err)
		}
		for time.Until(end) > time.Hour {
			pass(time.Hour)
			if _, err := k.Renew(t.Context(), browser); err != nil {
				t.Fatalf("%v before the end: %v", time.Until(end), err)
			}
		}
		if _, err := k.Check(t.Context(), store.TokenBrowser, halves.Secret(), here); err != nil {
			t.Errorf("the browser before the end: %v", err)
		}
		pass(2 * time.Hour)
		if _, err := k.Check(t.Context(), store.TokenBrowser, halves.Secret(), here); !errors.Is(err, ErrInvalid) {
			t.Errorf("the browser after the end: %v", err)
		}
		if _, _, err := k.Create(t.Context(), Grant{Name: "late", Scopes: All(), By: boss}); !errors.Is(err, ErrMakerEnded) {
			t.Errorf("an expired credential makes another: %v", err)
		}
	})
}

func TestExpiredLoginsArePurged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, cat := newKeyring()
		used, err := k.LoginCode(t.Context(), All())
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := k.Redeem(t.Context(), used, "browser", here); err != nil {
			t.Fatal(err)
		}
		if _, err := k.LoginCode(t.Context(), All()); err != nil {
			t.Fatal(err)
		}
		kept := func() (n int) {
			for _, kind := range []store.TokenKind{store.TokenLogin, store.TokenBrowser} {
				ts, err := cat.Tokens(t.Context(), kind)
				if err != nil {
					t.Fatal(err)
				}
				n += len(ts)
			}
			return n
		}
		if n := kept(); n != 2 {
			t.Fatalf("%d records of logins, want a code and a browser", n)
		}
		pass(CodeLife)
		if _, err := k.LoginCode(t.Context(), All()); err != nil || kept() != 2 {
			t.Errorf("%d records after the life of a code, %v; want the browser and the new code", kept(), err)
		}
		pass(BrowserLife)
		if ts, err := k.List(t.Context()); err != nil || len(ts) != 0 {
			t.Errorf("an expired browser is listed: %v, %v", ts, err)
		}
		if err := k.Purge(t.Context()); err != nil || kept() != 0 {
			t.Errorf("%d records after the life of a browser, %v", kept(), err)
		}
	})
}
