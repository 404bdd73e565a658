package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The server is killed while it handles a request of the list that stays on the
// screen, and the next one does not know the token.
func TestWatchedListStaysWhileTheServerRestarts(t *testing.T) {
	requests := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch requests++; requests {
		case 1:
			_, _ = w.Write([]byte(`{"sessions":[]}`))
		case 2:
			panic(http.ErrAbortHandler)
		default:
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error":{"type":"UNAUTHORIZED","message":"no such token"}}`))
		}
	}))
	defer srv.Close()
	t.Setenv("RUNNEL_URL", srv.URL)
	t.Setenv("RUNNEL_TOKEN", "rnl_"+strings.Repeat("a", 43))
	out, errOut, code := callRunnel(nil, "ps", "--watch", "--json", "--socket", "off", "--data", t.TempDir())
	if code != exitFailed || requests != 3 || strings.TrimSpace(out) != "[]" || !strings.Contains(errOut, "UNAUTHORIZED") {
		t.Errorf("exit code %d after %d requests: %q, %q", code, requests, out, errOut)
	}
}
