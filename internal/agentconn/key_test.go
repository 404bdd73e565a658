package agentconn

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
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
