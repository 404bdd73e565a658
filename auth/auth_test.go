package auth

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel/store"
	"github.com/runnel-dev/runnel/store/memory"
)

var here = netip.MustParseAddr("127.0.0.1")

func newKeyring() (*Keyring, *memory.Catalogue) {
	cat := memory.New(nil)
	return NewKeyring(cat), cat
}

func create(t *testing.T, k *Keyring, scopes ...Scope) (string, store.Token) {
	t.Helper()
	secret, tok, err := k.Create(t.Context(), Grant{Name: "test", Scopes: scopes})
	if err != nil {
		t.Fatal(err)
	}
	return secret, tok
}

func TestCheck(t *testing.T) {
	k, _ := newKeyring()
	secret, tok := create(t, k, Read)
	id, err := k.Check(t.Context(), store.TokenAPI, secret, here)
	if err != nil || id.ID != tok.ID || !id.Has(Read) || id.Has(Approve) {
		t.Fatalf("got %+v, %v", id, err)
	}
	if _, err := k.Check(t.Context(), store.TokenBrowser, secret, here); !errors.Is(err, ErrInvalid) {
		t.Errorf("as another kind: got %v, want ErrInvalid", err)
	}
}

func TestWrongTokenShapesAreRejected(t *testing.T) {
	k, _ := newKeyring()
	secret, _ := create(t, k, All()...)
	shapes := map[string]string{
		"empty": "", "prefix of it": secret[:len(secret)-1], "suffix of it": secret[1:],
		"longer": secret + "A", "other case": strings.ToUpper(secret), "NUL": secret[:10] + "\x00" + secret[11:],
		"padded": secret[:len(secret)-1] + "=", "big": strings.Repeat("A", 1<<20), "scheme": "Bearer " + secret,
	}
	for name, s := range shapes {
		// Each secret has its own address, so that the throttle does not reject
		// it first.
		from := netip.AddrFrom4([4]byte{10, 0, 0, byte(len(s))})
		if _, err := k.Check(t.Context(), store.TokenAPI, s, from); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", name, err)
		}
	}
	if n := testing.AllocsPerRun(100, func() { digest(shapes["big"]) }); n > 1 {
		t.Errorf("a 1 MiB secret costs %v allocations", n)
	}
}

func TestOnlyTheHashIsKept(t *testing.T) {
	k, cat := newKeyring()
	secret, _ := create(t, k, Read)
	code, err := k.LoginCode(t.Context(), All())
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []store.TokenKind{store.TokenAPI, store.TokenLogin} {
		ts, err := cat.Tokens(t.Context(), kind)
		if err != nil || len(ts) != 1 {
			t.Fatalf("%s: got %v, %v", kind, ts, err)
		}
		if kept := fmt.Sprintf("%+v", ts[0]); strings.Contains(kept, secret[4:20]) || strings.Contains(kept, code[4:20]) {
			t.Errorf("%s: the record holds the secret", kind)
		}
	}
}

func TestLoginCodeWorksOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _ := newKeyring()
		code, _ := k.LoginCode(t.Context(), All())
		secret, id, err := k.Redeem(t.Context(), code, "browser", here)
		if err != nil || id.Kind != store.TokenBrowser {
			t.Fatalf("got %+v, %v", id, err)
		}
		if _, err := k.Check(t.Context(), store.TokenBrowser, secret.Secret(), here); err != nil {
			t.Errorf("the browser's credential: %v", err)
		}
		if _, _, err := k.Redeem(t.Context(), code, "browser", here); !errors.Is(err, ErrInvalid) {
			t.Errorf("second use: got %v, want ErrInvalid", err)
		}
		late, _ := k.LoginCode(t.Context(), All())
		pass(CodeLife + time.Second)
		if _, _, err := k.Redeem(t.Context(), late, "browser", here); !errors.Is(err, ErrInvalid) {
			t.Errorf("after its life: got %v, want ErrInvalid", err)
		}
	})
}

func TestLoginCodeHasOneWinnerInARace(t *testing.T) {
	k, _ := newKeyring()
	rounds := 200
	if os.Getenv("RUNNEL_LONG") != "" {
		rounds = 1000
	}
	for range rounds {
		code, err := k.LoginCode(t.Context(), All())
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		errs := make([]error, 3)
		for i := range errs {
			from := netip.AddrFrom4([4]byte{10, 1, 0, byte(i)})
			wg.Go(func() { _, _, errs[i] = k.Redeem(t.Context(), code, "browser", from) })
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			}
		}
		if won != 1 {
			t.Fatalf("%d winners: %v", won, errs)
		}
	}
}

func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _ := newKeyring()
		good, _ := create(t, k, Read)
		if _, err := k.Check(t.Context(), store.TokenAPI, good, here); err != nil {
			t.Fatal(err)
		}
		guess := func(from string) error {
			_, err := k.Check(t.Context(), store.TokenAPI, newSecret(), netip.MustParseAddr(from))
			return err
		}
		evaluated := 0
		for i := range 10_000 {
			from := []string{"127.0.0.1", "::ffff:127.0.0.1"}[i%2]
			if err := guess(from); !errors.Is(err, ErrThrottled) {
				evaluated++
			}
		}
		if evaluated != failuresAllowed {
			t.Errorf("%d guesses were evaluated, want %d", evaluated, failuresAllowed)
		}
		evaluated = 0
		for i := range 1000 {
			if err := guess(fmt.Sprintf("2001:db8::%x", i)); !errors.Is(err, ErrThrottled) {
				evaluated++
			}
		}
		if evaluated != failuresAllowed {
			t.Errorf("%d guesses of one subnet were evaluated, want %d", evaluated, failuresAllowed)
		}
		if _, err := k.Check(t.Context(), store.TokenAPI, good, here); err != nil {
			t.Errorf("a credential in use is locked out by guesses from its address: %v", err)
		}
		pass(failureWindow)
		if err := guess("127.0.0.1"); !errors.Is(err, ErrInvalid) {
			t.Errorf("after the window: got %v, want ErrInvalid", err)
		}
	})
}

// Neither half of a browser's secret is valid alone, nor are two halves of
// different logins.
func TestHalfOfABrowserSecretIsRejected(t *testing.T) {
	k, cat := newKeyring()
	login := func() Halves {
		code, err := k.LoginCode(t.Context(), All())
		if err != nil {
			t.Fatal(err)
		}
		h, _, err := k.Redeem(t.Context(), code, "browser", here)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	a, b := login(), login()
	for name, secret := range map[string]string{
		"cookie": a.Cookie, "key": a.Key, "cookie and a dot": a.Cookie + ".", "dot and key": "." + a.Key, "swapped": Halves{a.Key, a.Cookie}.Secret(),
		"of two logins": Halves{a.Cookie, b.Key}.Secret(), "three": a.Secret() + "." + b.Key, "cookie twice": Halves{a.Cookie, a.Cookie}.Secret(),
	} {
		from := netip.AddrFrom4([4]byte{10, 2, 0, byte(len(name))})
		if _, err := k.Check(t.Context(), store.TokenBrowser, secret, from); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", name, err)
		}
	}
	for _, h := range []Halves{a, b} {
		if _, err := k.Check(t.Context(), store.TokenBrowser, h.Secret(), here); err != nil {
			t.Errorf("both halves: %v", err)
		}
	}
	kept, err := cat.Tokens(t.Context(), store.TokenBrowser)
	if err != nil || len(kept) != 2 {
		t.Fatalf("got %v, %v", kept, err)
	}
	if text := fmt.Sprintf("%+v", kept); strings.Contains(text, a.Key[4:20]) || strings.Contains(text, a.Cookie[4:20]) {
		t.Error("the record holds a half")
	}
}

// Wrong guesses of one kind of credential do not lock out a caller with a
// credential of another kind.
func TestThrottleHasABudgetForEachKind(t *testing.T) {
	k, _ := newKeyring()
	code, err := k.LoginCode(t.Context(), All())
	if err != nil {
		t.Fatal(err)
	}
	secret, _ := create(t, k, Read)
	for _, kind := range []store.TokenKind{store.TokenAPI, store.TokenBrowser} {
		for range 2 * failuresAllowed {
			_, err = k.Check(t.Context(), kind, newSecret(), here)
		}
		if !errors.Is(err, ErrThrottled) {
			t.Errorf("guesses at %s: got %v", kind, err)
		}
	}
	if _, err := k.Check(t.Context(), store.TokenAPI, secret, here); err != nil {
		t.Errorf("a valid token that was never used: %v", err)
	}
	h, _, err := k.Redeem(t.Context(), code, "browser", here)
	if err != nil {
		t.Fatalf("the owner cannot log in: %v", err)
	}
	for range 2 * failuresAllowed {
		_, _, err = k.Redeem(t.Context(), newSecret(), "browser", here)
	}
	if !errors.Is(err, ErrThrottled) {
		t.Errorf("guesses at codes: got %v", err)
	}
	if _, err := k.Check(t.Context(), store.TokenBrowser, h.Secret(), here); err != nil {
		t.Errorf("the page that just logged in: %v", err)
	}
}

// Guesses of one credential count together, from whatever address. A valid
// credential is still accepted, even if it has the same prefix.
func TestGuessesThatBeginAlikeAreThrottledTogether(t *testing.T) {
	k, _ := newKeyring()
	good, _ := create(t, k, Read)
	got := 0
	for i := range 3 * failuresAllowed {
		from := netip.AddrFrom4([4]byte{10, 7, 0, byte(i)})
		if _, err := k.Check(t.Context(), store.TokenAPI, good[:secretPrefix]+newSecret()[secretPrefix:], from); errors.Is(err, ErrThrottled) {
			got++
		}
	}
	if got != 2*failuresAllowed {
		t.Errorf("%d guesses were throttled, want %d", got, 2*failuresAllowed)
	}
	if _, err := k.Check(t.Context(), store.TokenAPI, good, here); err != nil {
		t.Errorf("the valid credential: %v", err)
	}
}

func TestThrottleIsBounded(t *testing.T) {
	var th throttle
	for i := range 3 * culpritsKept {
		th.failed(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), fmt.Sprint("rnl_", i), time.Unix(0, 0))
	}
	if len(th.addresses) > culpritsKept || len(th.prefixes) > culpritsKept {
		t.Errorf("%d addresses and %d prefixes are kept", len(th.addresses), len(th.prefixes))
	}
}

// A wrong credential may be as long as a request, so the throttle must not keep
// it whole in memory.
func TestThrottleKeepsNoWholeCredential(t *testing.T) {
	k, _ := newKeyring()
	const n, size = 64, 1 << 20
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range n {
		secret := fmt.Sprintf("%s%08d%s", prefix, i, strings.Repeat("x", size))
		if _, err := k.Check(t.Context(), store.TokenAPI, secret, here); err == nil {
			t.Fatal("it is valid")
		}
	}
	if after := heap(); after > before+n*size/8 {
		t.Errorf("%d wrong credentials of %d bytes hold %d bytes", n, size, after-before)
	}
	runtime.KeepAlive(k)
}

func TestBrowserIsFoundAmongAsManyCookiesAsBrowsersKeep(t *testing.T) {
	k, _ := newKeyring()
	good, _ := create(t, k, Read)
	var secrets []string
	for range maxKnown - 1 {
		secrets = append(secrets, newSecret())
	}
	if got := k.Known(t.Context(), store.TokenAPI, append(slices.Clone(secrets), good)); got != good {
		t.Error("the last is not found")
	}
	if got := k.Known(t.Context(), store.TokenAPI, append(secrets, newSecret(), good)); got == good {
		t.Error("more are looked up than a browser keeps")
	}
}

func TestSlidingLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _ := newKeyring()
		code, _ := k.LoginCode(t.Context(), All())
		secret, _, err := k.Redeem(t.Context(), code, "browser", here)
		if err != nil {
			t.Fatal(err)
		}
		for hour := range 30 {
			id, err := k.Check(t.Context(), store.TokenBrowser, secret.Secret(), here)
			if err != nil {
				t.Fatalf("after %d hours of use: %v", hour, err)
			}
			again, err := k.Renew(t.Context(), id)
			if err != nil || again != (hour > 0) {
				t.Fatalf("renew after %d hours: got %v, %v", hour, again, err)
			}
			if again, _ := k.Renew(t.Context(), id); again {
				t.Fatal("renewed twice at once")
			}
			pass(time.Hour)
		}
		pass(BrowserLife)
		if _, err := k.Check(t.Context(), store.TokenBrowser, secret.Secret(), here); !errors.Is(err, ErrInvalid) {
			t.Errorf("after 30 idle days: got %v, want ErrInvalid", err)
		}
	})
}

func TestRevocationEndsStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, cat := newKeyring()
		secret, tok := create(t, k, Read)
		id, err := k.Check(t.Context(), store.TokenAPI, secret, here)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := k.Bind(t.Context(), id)
		defer stop()
		pass(10 * recheck)
		if ctx.Err() != nil {
			t.Fatal("a good credential's stream has ended")
		}
		if err := k.Revoke(t.Context(), tok.ID); err != nil {
			t.Fatal(err)
		}
		if !errors.Is(context.Cause(ctx), ErrEnded) {
			t.Error("revoking did not end the stream")
		}
		if _, err := k.Check(t.Context(), store.TokenAPI, secret, here); !errors.Is(err, ErrInvalid) {
			t.Errorf("after revoking: got %v, want ErrInvalid", err)
		}
		if _, err := k.Renew(t.Context(), id); !errors.Is(err, ErrInvalid) {
			t.Errorf("renew after revoking: got %v, want ErrInvalid", err)
		}

		// Another process removes the record.
		secret, tok = create(t, k, Read)
		id, _ = k.Check(t.Context(), store.TokenAPI, secret, here)
		ctx, stop2 := k.Bind(t.Context(), id)
		defer stop2()
		if err := cat.DeleteToken(t.Context(), tok.ID); err != nil {
			t.Fatal(err)
		}
		pass(recheck)
		synctest.Wait()
		if !errors.Is(context.Cause(ctx), ErrEnded) {
			t.Error("the stream was not judged again")
		}
	})
}

func TestNonLoopbackIsRefused(t *testing.T) {
	tests := []struct {
		address string
		e       Exposure
		ok      bool
	}{
		{"127.0.0.1:7777", Exposure{}, true},
		{"localhost:0", Exposure{}, true},
		{"[::1]:7777", Exposure{}, true},
		{"[::ffff:127.0.0.1]:1", Exposure{}, true},
		{"127.9.9.9:7777", Exposure{}, false},
		{"127.9.9.9:7777", Exposure{TLS: true, Tokens: 1}, false},
		{"0.0.0.0:7777", Exposure{}, false},
		{":7777", Exposure{}, false},
		{"[::]:7777", Exposure{}, false},
		{"192.168.1.5:7777", Exposure{}, false},
		{"localhost.evil.example:7777", Exposure{TLS: true, Tokens: 1}, false},
		{"0.0.0.0:7777", Exposure{TLS: true}, false},
		{"0.0.0.0:7777", Exposure{Tokens: 3}, false},
		{"0.0.0.0:7777", Exposure{TLS: true, Tokens: 1}, true},
		{"0.0.0.0:7777", Exposure{Proxied: true, Tokens: 1}, true},
		{"7777", Exposure{TLS: true, Tokens: 1}, false},
	}
	for _, tt := range tests {
		loopback, err := CheckListen(tt.address, tt.e)
		if (err == nil) != tt.ok || loopback != (tt.ok && tt.e == Exposure{}) {
			t.Errorf("%s %+v: got %v, %v, want ok %v", tt.address, tt.e, loopback, err, tt.ok)
		}
	}
}

// pass waits for d on the clock of a synctest bubble.
func pass(d time.Duration) { <-time.After(d) }

func TestRenamedDeviceKeepsItsLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _ := newKeyring()
		code, _ := k.LoginCode(t.Context(), All())
		secret, id, err := k.Redeem(t.Context(), code, "Safari on iPhone", here)
		if err != nil || id.Name != "Safari on iPhone" {
			t.Fatalf("%v, %v", id, err)
		}
		pass(2 * time.Hour)
		if _, err := k.Rename(t.Context(), id.ID, "Anna's phone"); err != nil {
			t.Fatal(err)
		}
		pass(BrowserLife - 3*time.Hour)
		again, err := k.Check(t.Context(), store.TokenBrowser, secret.Secret(), here)
		if err != nil || again.Name != "Anna's phone" || again.ID != id.ID {
			t.Errorf("after the new name: %v, %v", again, err)
		}
		pass(BrowserLife)
		for _, id := range []string{id.ID, "nobody"} {
			if _, err := k.Rename(t.Context(), id, "x"); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s: %v", id, err)
			}
		}
	})
}
