package httpapi

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/seal"
	"github.com/runnel-dev/runnel/push"
	"github.com/runnel-dev/runnel/store"
)

// pushRig is a rig whose server can send notes, but never does.
func pushRig(t *testing.T) (*rig, store.Catalogue) {
	t.Helper()
	key, err := seal.Load(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	var cat store.Catalogue
	rg := newRig(t, func(c *Config, g *gateway.Config) {
		cat = g.Catalogue
		c.Push = push.New(push.Config{Store: cat, Sealer: key})
	})
	return rg, cat
}

// subscription returns the body of a request to subscribe.
func subscription(t *testing.T, endpoint string, kinds ...string) string {
	t.Helper()
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b64 := base64.RawURLEncoding.EncodeToString
	body, err := json.Marshal(map[string]any{"endpoint": endpoint, "kinds": kinds,
		"keys": map[string]string{"p256dh": b64(key.PublicKey().Bytes()), "auth": b64(make([]byte, 16))}})
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestPushSubscriptionBelongsToItsCredential(t *testing.T) {
	rg, cat := pushRig(t)
	first := call[pushAnswer](rg, "GET", "/api/push", "", 200)
	if !first.Available || len(first.PublicKey) != 87 || first.Kinds == nil || len(first.Kinds) != 0 {
		t.Fatalf("before: %+v", first)
	}
	const endpoint = "https://push.example/secret-address"
	mine := call[pushAnswer](rg, "POST", "/api/push", subscription(t, endpoint, "needs-you", "finished"), 200)
	if fmt.Sprint(mine.Kinds) != "[needs-you finished]" || mine.PublicKey != first.PublicKey {
		t.Errorf("subscribed: %+v", mine)
	}
	mine = call[pushAnswer](rg, "POST", "/api/push", subscription(t, endpoint, "finished"), 200)
	if fmt.Sprint(mine.Kinds) != "[finished]" {
		t.Errorf("changed: %+v", mine)
	}
	all, err := cat.PushSubscriptions(t.Context())
	if err != nil || len(all) != 1 || strings.Contains(fmt.Sprint(all), "secret-address") {
		t.Errorf("stored %v, %v", all, err)
	}

	reader := rg.mint(auth.Read)
	as := func(token string) func(*http.Request) { return header("Authorization", "Bearer "+token) }
	var theirs pushAnswer
	if err := json.Unmarshal(rg.do("GET", "/api/push", "", as(reader)).Body.Bytes(), &theirs); err != nil || len(theirs.Kinds) != 0 {
		t.Errorf("another credential sees %+v, %v", theirs, err)
	}
	if w := rg.do("DELETE", "/api/push", "", as(reader)); w.Code != http.StatusOK {
		t.Errorf("without a subscription: got %d %s", w.Code, w.Body)
	}
	if got := call[pushAnswer](rg, "GET", "/api/push", "", 200); fmt.Sprint(got.Kinds) != "[finished]" {
		t.Errorf("another credential ended it: %+v", got)
	}
	if got := call[pushAnswer](rg, "DELETE", "/api/push", "", 200); len(got.Kinds) != 0 || got.PublicKey != first.PublicKey {
		t.Errorf("ended: %+v", got)
	}
}

func TestPushSubscriptionEndsWithItsCredential(t *testing.T) {
	rg, cat := pushRig(t)
	half := rg.login()
	page := []func(*http.Request){anonymous, header("Cookie", "runnel_session="+half.Cookie), header("Runnel-Key", half.Key), header("Sec-Fetch-Site", "same-origin"), header("Origin", "http://own.localhost:7777")}
	if w := rg.do("POST", "/api/push", subscription(t, "https://push.example/x", "needs-you"), page...); w.Code != http.StatusOK {
		t.Fatalf("got %d %s", w.Code, w.Body)
	}
	if w := rg.do("POST", "/api/logout", "{}", page...); w.Code != http.StatusNoContent {
		t.Fatalf("got %d %s", w.Code, w.Body)
	}
	if all, err := cat.PushSubscriptions(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("left %v, %v", all, err)
	}
}

func TestPushRequestsAreChecked(t *testing.T) {
	rg, _ := pushRig(t)
	good := subscription(t, "https://push.example/x", "needs-you")
	for _, body := range []string{
		"{}", strings.Replace(good, "push.example", "127.0.0.1", 1), strings.Replace(good, "https", "http", 1), strings.Replace(good, "needs-you", "all", 1),
		strings.Replace(good, `["needs-you"]`, "[]", 1), strings.Replace(good, `"p256dh":"B`, `"p256dh":"C`, 1), strings.Replace(good, `"auth":"A`, `"auth":"=`, 1),
		strings.Replace(good, `"auth":"AA`, `"auth":"`, 1), strings.Replace(good, `"kinds"`, `"expirationTime":null,"kinds"`, 1),
	} {
		if body == good {
			t.Fatal("a change had no effect")
		}
		rg.wantError("POST", "/api/push", body, 400, runnel.InvalidRequest)
	}
}

func TestServerWithoutPushSaysSo(t *testing.T) {
	rg := newRig(t)
	for _, method := range []string{"GET", "DELETE"} {
		if got := call[pushAnswer](rg, method, "/api/push", "", 200); got.Available || got.PublicKey != "" || got.Kinds == nil {
			t.Errorf("%s: %+v", method, got)
		}
	}
	rg.wantError("POST", "/api/push", subscription(t, "https://push.example/x", "needs-you"), 400, runnel.UnsupportedCapability)
}
