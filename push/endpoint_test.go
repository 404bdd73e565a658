package push

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestEndpointsThatReachTheLocalNetworkAreRejected(t *testing.T) {
	for endpoint, want := range map[string]struct{ usual, loopback bool }{
		"https://fcm.googleapis.com/fcm/send/abc:def":     {true, true},
		"https://updates.push.services.mozilla.com/wpush": {true, true},
		"https://push.example:443/x?y=z":                  {true, true},
		"https://localhost/x":                             {true, true}, // rejected when a connection is made
		"http://127.0.0.1:8080/x":                         {false, true},
		"http://[::1]:8080/x":                             {false, true},
		"http://localhost:8080/x":                         {false, true},
		"http://push.example/x":                           {},
		"http://10.0.0.1/x":                               {},
		"http://169.254.169.254/latest":                   {},
		"https://127.0.0.1/x":                             {},
		"https://[fe80::1]/x":                             {},
		"https://8.8.8.8/x":                               {},
		"https://push.example:22/x":                       {},
		"https://user:secret@push.example/x":              {},
		"https://push.example/x#y":                        {},
		"https:push.example":                              {},
		"https:///x":                                      {},
		"//push.example/x":                                {},
		"ftp://push.example/x":                            {},
		"file:///etc/passwd":                              {},
		"":                                                {},
		"https://push.example/\n":                         {},
		"https://push.example/" + strings.Repeat("a", maxEndpoint): {},
	} {
		if err := checkEndpoint(endpoint, false); (err == nil) != want.usual {
			t.Errorf("%.60q: %v", endpoint, err)
		}
		if err := checkEndpoint(endpoint, true); (err == nil) != want.loopback {
			t.Errorf("%.60q with loopback: %v", endpoint, err)
		}
	}
}

// A name may resolve to any address, so the address counts.
func TestClientConnectsToPublicAddressesOnly(t *testing.T) {
	hits := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits++
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	defer srv.Close()
	t.Setenv("HTTP_PROXY", srv.URL)
	for _, url := range []string{srv.URL, strings.Replace(srv.URL, "127.0.0.1", "localhost", 1), "http://[::ffff:127.0.0.1]" + srv.URL[strings.LastIndex(srv.URL, ":"):]} {
		res, err := newClient(false).Get(url)
		if err == nil {
			res.Body.Close()
		}
		if !errors.Is(err, errPrivate) {
			t.Errorf("%s: %v", url, err)
		}
	}
	if hits != 0 {
		t.Fatalf("%d requests arrived", hits)
	}
	res, err := newClient(true).Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusTemporaryRedirect || hits != 1 {
		t.Errorf("got %d after %d requests; a redirect was followed", res.StatusCode, hits)
	}
}
