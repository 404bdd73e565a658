package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// loaded returns the configuration of serve with args and a configuration file
// that contains text.
func loaded(t *testing.T, text string, args ...string) (config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("RUNNEL_CONFIG", path)
	fl := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	serveFlags(fl)
	if err := fl.Parse(args); err != nil {
		t.Fatal(err)
	}
	return loadConfig(fl)
}

func TestSettingsAreTakenFromFlagThenEnvironmentThenFile(t *testing.T) {
	t.Setenv("RUNNEL_PREWARM", "2")
	t.Setenv("RUNNEL_IDLE_TIMEOUT", "2h")
	t.Setenv("RUNNEL_HOSTS", "b.example,c.example")
	t.Setenv("RUNNEL_ORIGIN", "")
	c, err := loaded(t, `
prewarm: 1
idle-timeout: 1h
stall-timeout: 5m
allow-bypass: true
hosts: [a.example]
origin: [https://a.example]
`, "--prewarm", "3", "--cors-origins", "https://d.example,https://e.example")
	if err != nil {
		t.Fatal(err)
	}
	if c.Prewarm != 3 || c.IdleTimeout != 2*time.Hour || c.StallTimeout != 5*time.Minute || !c.AllowBypass || c.PrewarmAge != 10*time.Minute {
		t.Errorf("prewarm %d, idle %v, stall %v, bypass %v, age %v", c.Prewarm, c.IdleTimeout, c.StallTimeout, c.AllowBypass, c.PrewarmAge)
	}
	for name, lists := range map[string][2][]string{
		"hosts":        {c.Hosts, {"b.example", "c.example"}},
		"origin":       {c.Origins, {"https://a.example"}},
		"cors-origins": {c.CORSOrigins, {"https://d.example", "https://e.example"}},
	} {
		if !slices.Equal(lists[0], lists[1]) {
			t.Errorf("%s: %q, want %q", name, lists[0], lists[1])
		}
	}
}

func TestOriginIsGivenMoreThanOnce(t *testing.T) {
	want := []string{"https://a.example", "https://b.example", "https://c.example"}
	c, err := loaded(t, "origin: https://d.example\n", "--origin", "https://a.example", "--origin", "https://b.example,https://c.example")
	if err != nil || !slices.Equal(c.Origins, want) {
		t.Errorf("from flags %q, %v", c.Origins, err)
	}
	c, err = loaded(t, "origin: https://d.example\n")
	if err != nil || !slices.Equal(c.Origins, []string{"https://d.example"}) {
		t.Errorf("from the file %q, %v", c.Origins, err)
	}
	t.Setenv("RUNNEL_ORIGIN", "https://a.example,https://b.example,https://c.example")
	c, err = loaded(t, "origin: https://d.example\n")
	if err != nil || !slices.Equal(c.Origins, want) {
		t.Errorf("from the environment %q, %v", c.Origins, err)
	}
}

func TestSettingsOfAnotherKindAreRejected(t *testing.T) {
	for _, text := range []string{"config: other.yaml", "listn: 127.0.0.1:0", "origins: [https://a.example]", "prewarm: many", "idle-timeout: soon", "hosts: {a: b}",
		"stream-family: legacy", "push: everywhere", "approval-timeout: -1s", "persona: reviewer", "sandbox: true", "egress: []"} {
		if _, err := loaded(t, text); err == nil {
			t.Errorf("%s: accepted", text)
		}
	}
}

func TestSettingsNeedNoHomeDirectory(t *testing.T) {
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "RUNNEL_CONFIG"} {
		t.Setenv(name, "")
	}
	fl := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	serveFlags(fl)
	if err := fl.Parse([]string{"--data", t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	if _, err := loadConfig(fl); err != nil {
		t.Error(err)
	}
}

// Only the exact value "true" permits delegation. Other programs' ways to write
// "yes" must not.
func TestVariableSwitchesDelegationOnOnlyWithTrue(t *testing.T) {
	for value, want := range map[string]bool{"true": true, "TRUE": false, "1": false, "yes": false, " true": false, "false": false, "": false} {
		t.Setenv("RUNNEL_GOVERNED_DELEGATION", value)
		if c, err := loaded(t, ""); err != nil || c.GovernedDelegation != want {
			t.Errorf("%q: %v, %v", value, c.GovernedDelegation, err)
		}
	}
	t.Setenv("RUNNEL_GOVERNED_DELEGATION", "1")
	if c, err := loaded(t, "governed-delegation: true"); err != nil || c.GovernedDelegation {
		t.Errorf("the variable does not win over the file: %v, %v", c.GovernedDelegation, err)
	}
	if c, err := loaded(t, "", "--governed-delegation"); err != nil || !c.GovernedDelegation {
		t.Errorf("the flag does not win: %v, %v", c.GovernedDelegation, err)
	}
}

func TestProfilesLieBesideTheConfiguration(t *testing.T) {
	c, err := loaded(t, "")
	if want := filepath.Join(filepath.Dir(os.Getenv("RUNNEL_CONFIG")), "profiles"); err != nil || c.ProfilesDir != want {
		t.Errorf("got %q, %v", c.ProfilesDir, err)
	}
	if c, err = loaded(t, "profiles-dir: /elsewhere"); err != nil || c.ProfilesDir != "/elsewhere" {
		t.Errorf("got %q, %v", c.ProfilesDir, err)
	}
}
