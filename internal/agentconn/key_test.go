package agentconn

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/broker"
)

func TestKeyDependsOnAuthMode(t *testing.T) {
	key := Key{Variables: []string{"A_KEY", "COMPAT_KEY"}, Others: []string{"A_TOKEN"}}
	from := func(value string, err error) func() (string, error) {
		return func() (string, error) { return value, err }
	}
	for _, c := range []struct {
		name   string
		auth   runnel.Auth
		env    []string // environment of the server
		given  []string // environment in the options
		read   func() (string, error)
		want   []string // environment of the agent, without PATH
		reason string   // part of the message of MISSING_API_KEY
	}{
		{name: "the agent chooses", env: []string{"A_KEY=k1", "A_TOKEN=t"}, want: []string{"A_KEY=k1", "A_TOKEN=t"}},
		{name: "the agent chooses, compatible variable", env: []string{"COMPAT_KEY=k2"}, want: []string{"A_KEY=k2"}},
		{name: "the first variable counts", auth: runnel.AuthAPIKey, env: []string{"COMPAT_KEY=k2", "A_KEY=k1", "A_TOKEN=t"}, want: []string{"A_KEY=k1"}},
		{name: "an option's variable wins", auth: runnel.AuthAPIKey, env: []string{"A_KEY=k1"}, given: []string{"A_KEY=k3"}, want: []string{"A_KEY=k3"}},
		{name: "an option's empty variable wins", auth: runnel.AuthAPIKey, env: []string{"A_KEY=k1"}, given: []string{"A_KEY="}, reason: "A_KEY is not set"},
		{name: "own login", auth: runnel.AuthAgentLogin, env: []string{"A_KEY=k1", "COMPAT_KEY=k2", "A_TOKEN=t"}, want: nil},
		{name: "a file", auth: runnel.AuthAPIKey, env: []string{"A_KEY=k1"}, read: from("k4\n", nil), want: []string{"A_KEY=k4"}},
		{name: "an empty file", auth: runnel.AuthAPIKey, read: from(" \n", nil), reason: "Write it into its file"},
		{name: "a file that cannot be read", auth: runnel.AuthAPIKey, read: from("", errors.New("mode 0644")), reason: "mode 0644"},
		{name: "two keys in a file", auth: runnel.AuthAPIKey, read: from("k4\nk5\n", nil), reason: "white space"},
		{name: "no key", auth: runnel.AuthAPIKey, env: []string{"A_TOKEN=t"}, reason: "A_KEY is not set"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cred := Credential{Key: key, Source: runnel.KeySource{Read: c.read}}
			opt := runnel.Options{Auth: c.auth, Env: c.given}
			found, err := cred.Find(c.env, opt)
			if c.reason != "" {
				if runnel.CodeOf(err) != runnel.MissingAPIKey || !strings.Contains(err.Error(), c.reason) {
					t.Errorf("got %q, %v", found, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := cred.Apply(slices.Concat([]string{"PATH=/bin"}, c.env, c.given), found, opt)
			slices.Sort(got)
			want := append([]string{"PATH=/bin"}, c.want...)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestSessionAuthOverridesConfiguredAuth(t *testing.T) {
	cred := Credential{Key: Key{Variables: []string{"A_KEY"}}, Source: runnel.KeySource{Auth: runnel.AuthAPIKey}}
	if _, err := cred.Find(nil, runnel.Options{}); runnel.CodeOf(err) != runnel.MissingAPIKey {
		t.Errorf("as configured: %v", err)
	}
	if _, err := cred.Find(nil, runnel.Options{Auth: runnel.AuthAgentLogin}); err != nil {
		t.Errorf("own login: %v", err)
	}
}

// A process of the user, such as an agent without a sandbox, can change the file
// from which the next server reads what a broker did. It could name any variable
// of the server and a host of its own.
func TestChangedFileOpensNoBroker(t *testing.T) {
	t.Setenv("A_KEY", "sk-key")
	t.Setenv("ANOTHER_SECRET", "hidden-in-the-server")
	var got []string
	attacker := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = append(got, r.Header.Get(broker.XAPIKey)) }))
	defer attacker.Close()
	c := Credential{Key: Key{Variables: []string{"A_KEY"}, Endpoint: Endpoint{Variable: "A_BASE", Default: attacker.URL, Header: broker.XAPIKey}}}
	opt := runnel.Options{Keys: runnel.KeysBroker, Takeover: runnel.Takeover{Dir: t.TempDir(), Name: "one"}}
	b, err := c.OpenBroker(nil, runnel.Options{Keys: runnel.KeysBroker, Env: []string{"A_KEY=sk-key"}})
	if err != nil {
		t.Fatal(err)
	}
	s := &surroundings{dir: boxDir(opt.Takeover)}
	if err := s.create(kept{Broker: b.kept()}, runnel.SandboxOff); err != nil {
		t.Fatal(err)
	}
	call := func() {
		t.Helper()
		r, err := http.NewRequest(http.MethodGet, b.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(broker.XAPIKey, b.Placeholder)
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
		if err == nil {
			resp.Body.Close()
		}
	}
	b.CloseUnused()
	next, err := reopen(opt, c, nil, s.noted())
	if err != nil {
		t.Fatal(err)
	}
	call()
	next.leave()

	path := filepath.Join(s.dir, keptFile)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(data, []byte("A_KEY"), []byte("ANOTHER_SECRET")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, note := range []string{s.noted(), ""} { // an older supervisor keeps no note
		if next, err = reopen(opt, c, nil, note); err == nil {
			t.Error("the changed file is accepted")
			call()
			next.leave()
		}
	}
	if !slices.Equal(got, []string{"sk-key"}) {
		t.Errorf("the API received %q", got)
	}
}
