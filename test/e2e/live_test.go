//go:build unix

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/internal/realagents"
)

// liveVar is the variable that enables tests with the accounts that agents are
// logged in to on this machine. They cost money and need the network.
const liveVar = "RUN_PROVIDER_LIVE_TESTS"

// TestLiveAccounts drives every agent that is installed and logged in on this
// machine with its real model: an answer, a second prompt, a denial, a
// cancellation, and a prompt after a restart of the server.
func TestLiveAccounts(t *testing.T) {
	if os.Getenv(liveVar) != "1" {
		t.Skip("set " + liveVar + "=1 to use real accounts; docs/playbook.md says more")
	}
	s := serveLive(t)
	for _, agent := range s.loggedIn() {
		if agent == "script" || !realagents.Selected(agent) {
			continue
		}
		t.Run(agent, func(t *testing.T) {
			own := s.on(t)
			own.agent, own.home.Project = agent, t.TempDir()
			own.live(s)
		})
	}
}

// serveLive starts a server with the environment and configuration of the user
// who runs the test, but with its own data directory.
func serveLive(t *testing.T) *server {
	t.Helper()
	binary, err := build()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, data: filepath.Join(t.TempDir(), "data"), env: append(os.Environ(), "RUNNEL_TOKEN=", "RUNNEL_URL=")}
	token := exec.CommandContext(t.Context(), binary, "token", "create", "live", "--scope", "read,send,approve", "--data", s.data)
	token.Env = s.env
	secret, err := token.Output()
	if err != nil {
		t.Fatalf("token create: %v", err)
	}
	s.token = strings.TrimSpace(string(secret))
	s.start(binary)
	t.Cleanup(s.stop)
	return s
}

// loggedIn returns the names of the installed agents, without those that are
// known to be logged out.
func (s *server) loggedIn() (names []string) {
	s.t.Helper()
	var list struct {
		Agents []struct {
			CLIType   string
			Installed bool
			LoggedIn  *bool
		}
	}
	s.call("GET", "/api/agents?refresh=true", nil, &list)
	for _, a := range list.Agents {
		switch {
		case !a.Installed:
		case a.LoggedIn != nil && !*a.LoggedIn:
			s.t.Logf("%s is installed and not logged in", a.CLIType)
		default:
			names = append(names, a.CLIType)
		}
	}
	return names
}

// live runs all steps with one agent. s is a copy of shared, the server that
// live restarts; after the restart s gets the new URL of shared.
func (s *server) live(shared *server) {
	d := newSSE(s)
	says := func(prompt string) {
		s.t.Helper()
		if got := d.turn(prompt, ignore); got.Status != "completed" || !strings.Contains(strings.ToLower(strings.Join(got.Text, " ")), "heron") {
			s.t.Errorf("%s: %+v", prompt, got)
		}
	}
	says("Reply with exactly this word and nothing else: heron")
	says("Which word did I ask you to reply with? Reply with that word only.")

	denied := false
	got := d.turn("Run the shell command `touch live-mark.txt` now. If you may not, say so and stop.", func(m moment) reaction {
		if m == asked {
			denied = true
			return deny
		}
		return nothing
	})
	if _, err := os.Stat(filepath.Join(s.home.Project, "live-mark.txt")); denied && err == nil {
		s.t.Errorf("a denied command ran: %+v", got)
	} else if !denied {
		s.t.Logf("the agent did not ask: %+v", got)
	}

	got = d.turn("Count from 1 to 3000 in digits, one number a line, without any tool.", func(m moment) reaction {
		if m == inText {
			return cancel
		}
		return nothing
	})
	if got.Status != "cancelled" {
		s.t.Errorf("cancelled: %+v", got)
	}

	shared.restart()
	s.url = shared.url
	says("Once more: which word did I ask you to reply with at first? Reply with that word only.")
}
