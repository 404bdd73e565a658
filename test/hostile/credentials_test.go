//go:build linux

package hostile

import (
	"database/sql"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite"
)

// TestGuessesBehindAProxyCountByForwardedAddress sends wrong tokens to a server
// behind a proxy, which this test plays. They must count against the last
// address in X-Forwarded-For, which the proxy added, and against the beginning
// of the token. A valid token must always be accepted.
func TestGuessesBehindAProxyCountByForwardedAddress(t *testing.T) {
	w := newWorld(t, nil, "60s")
	w.flags = append(w.flags, "--proxied")
	w.start()
	ask := func(token, forwarded string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+w.Addr+"/api/me", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("X-Forwarded-For", forwarded)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	wrong := func(begin string) string { return "rnl_" + begin + strings.Repeat("A", 43-len(begin)) }
	for name, c := range map[string]struct {
		token, forwarded func(i int) string
	}{
		"from one address":   {func(i int) string { return wrong(fmt.Sprintf("%08d", i)) }, func(i int) string { return fmt.Sprintf("198.51.100.%d, 203.0.113.7", i) }},
		"with one beginning": {func(int) string { return wrong("beginning") }, func(i int) string { return fmt.Sprintf("203.0.113.7, 198.51.100.%d", i) }},
	} {
		got := map[int]int{}
		for i := range 30 {
			got[ask(c.token(i), c.forwarded(i))]++
		}
		if got[401] != 10 || got[429] != 20 {
			t.Errorf("%s: got %v, want 10 refused and the rest throttled", name, got)
		}
	}
	if code := ask(wrong("other"), "203.0.113.8"); code != 401 {
		t.Errorf("from another address: %d", code)
	}
	if code := ask(w.Token, "203.0.113.7"); code != 200 {
		t.Errorf("the owner is locked out: %d", code)
	}
}

// TestExpiredLoginsAreDeleted lets login codes and the credentials of browsers
// expire. The server must delete them when it starts, and when it makes another
// login code.
func TestExpiredLoginsAreDeleted(t *testing.T) {
	w := newWorld(t, nil, "60s")
	w.start()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(w.data, "runnel.db")+"?_pragma=busy_timeout(60000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	// expire lets all logins expire, and returns how many there are.
	expire := func() (n int64) {
		t.Helper()
		res, err := db.ExecContext(t.Context(), "UPDATE tokens SET expires_at = created_at WHERE kind <> 'api'")
		if err == nil {
			n, err = res.RowsAffected()
		}
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	count := func(where string) (n int) {
		t.Helper()
		if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM tokens WHERE "+where).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	w.browse(w.link())
	if n := expire(); n < 2 { // the browser, and the code of a link that nobody opened
		t.Fatalf("only %d logins", n)
	}
	w.link()
	if n := count("kind <> 'api'"); n != 1 {
		t.Errorf("%d logins after another one was made", n)
	}
	expire()
	w.stop()
	w.start()
	if n := count("kind <> 'api' AND expires_at <= created_at"); n != 0 {
		t.Errorf("%d expired logins after a restart", n)
	}
	if n := count("kind = 'api'"); n != 1 {
		t.Errorf("%d tokens, want the test's own", n)
	}
}
