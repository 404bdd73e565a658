package guardrails

import (
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/internal/testexec"
	"github.com/runnel-dev/runnel/provider/acp"
	"github.com/runnel-dev/runnel/provider/all"
	"github.com/runnel-dev/runnel/provider/claude"
	"github.com/runnel-dev/runnel/provider/codex"
	"github.com/runnel-dev/runnel/provider/providertest"
)

var update = flag.Bool("update", false, "with RUNNEL_LONG=1, write what the agents tried to reach to testdata/egress")

// idleTime is how long an agent is watched without a turn, if the tests are
// long.
const idleTime = 10 * time.Minute

// blockedHost is the host that the tool tries to reach. Nothing allows it.
const blockedHost = "blocked.example.com"

// TestAgentsReachOnlyKnownHosts runs the agents as a user installs them, and
// compares what they try to reach with testdata/egress, from which
// docs/egress.md is made. A turn completes although attempts of the agent and of
// its tool are blocked.
func TestAgentsReachOnlyKnownHosts(t *testing.T) {
	names := []string{"claude-code", "codex", "gemini", "qwen", "opencode"}
	if !long() {
		names = names[:2]
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			agent := realagents.Find(t, name)
			t.Parallel()
			checkReached(t, reached(t, agent))
		})
	}
}

// reached runs an agent and returns what it tries to reach.
func reached(t *testing.T, agent realagents.Binary) providertest.Reached {
	t.Helper()
	i := slices.IndexFunc(all.Providers(), func(p runnel.Provider) bool { return p.Name() == agent.Name })
	provider := all.Providers()[i]
	out := providertest.Reached{
		Agent: agent.Name, Name: runnel.DisplayName(provider), Version: agent.Version,
		Quiet: quiet(agent.Name), Attempts: []providertest.Attempt{},
	}
	w := newWorld(t, agent)
	w.prog.Kill()
	ours := w.prog.Env[len(w.prog.Env)-2:] // PATH and the number of retries
	w.prog.Env = append(w.home.AsInstalled(t, agent.Name), ours...)
	w.start()
	script := "#!/bin/bash\nexec 3<>/dev/tcp/127.0.0.1/17318; printf 'CONNECT " + blockedHost + ":443 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' >&3; read -r answer <&3; echo \"$answer\" > answer\n"
	if err := testexec.Write(filepath.Join(w.home.Project, "reach"), script); err != nil {
		t.Fatal(err)
	}
	session := w.enclosed()
	take := func(when string) {
		for _, a := range w.tried(session) {
			a.When = when
			if !slices.ContainsFunc(out.Attempts, a.Same) {
				out.Attempts = append(out.Attempts, a)
			}
		}
	}
	take("start")
	w.tool(session, "./reach") // fails the test if the turn does not complete
	if answer, err := os.ReadFile(filepath.Join(w.home.Project, "answer")); err != nil || !strings.Contains(string(answer), " 403 ") {
		t.Errorf("the proxy answered %q, %v", answer, err)
	}
	take("turn")
	if long() {
		<-time.After(idleTime) // the time itself is what is tested
		take("idle")
	}
	w.tool(session, "echo again")
	take("turn")
	if code, _ := w.Call("POST", "/api/session/"+session+"/kill", struct{}{}, nil); code != http.StatusOK {
		t.Errorf("kill: %d", code)
	}
	take("end")
	return out
}

// quiet returns the settings by which an agent sends no telemetry in a sandbox.
func quiet(agent string) []string {
	switch agent {
	case "claude-code":
		return claude.Quiet()
	case "codex":
		return codex.Quiet()
	}
	return acp.Quiet(agent)
}

// tried returns what the session's agent has tried to reach so far. The
// model's port differs in each run, so it is left out.
func (w *world) tried(session string) (out []providertest.Attempt) {
	w.t.Helper()
	var record struct{ Attempts []runnel.EgressAttempt }
	if code, _ := w.Call("GET", "/api/session/"+session+"/egress", nil, &record); code != http.StatusOK {
		w.t.Fatalf("egress: %d", code)
	}
	model := "egress.allow: localhost:" + port(w.model.URL())
	for _, a := range record.Attempts {
		switch {
		case a.Host == blockedHost:
			if a.By != "" {
				w.t.Errorf("%s was allowed by %s", a.Host, a.By)
			}
		case a.By == model:
			out = append(out, providertest.Attempt{Host: "the model", By: "egress.allow"})
		default:
			out = append(out, providertest.Attempt{Host: a.Host, Port: a.Port, By: a.By})
		}
	}
	return out
}

// checkReached compares what an agent tried to reach with the stored file. An
// attempt may come in another phase, because a busy machine delays it. With
// -update, checkReached writes the file instead.
func checkReached(t *testing.T, got providertest.Reached) {
	t.Helper()
	path := filepath.Join("testdata", "egress", got.Agent+".json")
	if *update {
		if !long() {
			t.Fatal("-update needs RUNNEL_LONG=1, for the ten idle minutes")
		}
		data, err := json.MarshalIndent(got, "", "  ")
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o755)
		}
		if err == nil {
			err = os.WriteFile(path, append(data, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	var want providertest.Reached
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &want)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range got.Attempts {
		if !slices.ContainsFunc(want.Attempts, a.Same) {
			t.Errorf("the agent also tried to reach %+v; if that is right, run the test with RUNNEL_LONG=1 and -update, then go run ./internal/agentdoc", a)
		}
	}
	if got.Attempts, want.Attempts = nil, nil; !cmp.Equal(got, want) {
		t.Errorf("%s differs (-stored +found):\n%s", path, cmp.Diff(want, got))
	}
}
