package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The connection breaks after the server has made the fork. The command repeats
// the request with the same key, so that the server makes no second one.
func TestForkIsMadeOnceIfTheAnswerIsLost(t *testing.T) {
	const id, forked = "01a22b35-aea3-7607-9218-68d57b1ab5e6", "01a22b35-aea3-7607-9218-68d57b1ab5e7"
	made := map[string]int{} // requests by their keys
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/fork") {
			_ = json.NewEncoder(w).Encode(map[string]any{"sessions": []map[string]string{{"sessionId": id}}})
			return
		}
		key := r.Header.Get("Idempotency-Key")
		if made[key]++; made[key] == 1 {
			panic(http.ErrAbortHandler)
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"sessionId": forked, "cliType": "mine"})
	}))
	defer srv.Close()
	t.Setenv("RUNNEL_URL", srv.URL)
	t.Setenv("RUNNEL_TOKEN", "rnl_"+strings.Repeat("a", 43))
	out, errOut, code := callRunnel(nil, "sessions", "fork", id, "--socket", "off", "--data", t.TempDir())
	if code != exitOK || strings.TrimSpace(out) != forked || len(made) != 1 || made[""] != 0 {
		t.Errorf("exit code %d, %q, %q after the requests %v", code, out, errOut, made)
	}
}
