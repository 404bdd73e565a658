package claude

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/internal/recordtest"
	"github.com/runnel-dev/runnel/supervise"
)

func TestMain(m *testing.M) {
	supervise.Main()
	if os.Getenv(mcpServer) != "" {
		serveMCP(os.Stdin, os.Stdout)
		return
	}
	if err := agentrig.Bound(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	goleak.VerifyTestMain(m)
}

// patience bounds how long a test waits for a real agent.
const patience = agentrig.Patience

// What the tests of all providers have in common.
var (
	await, dump, exists, items, last, scenario, sound = agentrig.Await, agentrig.Dump, agentrig.Exists, agentrig.Items, agentrig.Last, agentrig.Scenario, agentrig.Sound

	fixtureStart      = recordtest.Start
	section, recorded = recordtest.Section, recordtest.Lines
)

func bodies[T event.Body](evs []event.Event) []T { return agentrig.Bodies[T](evs) }

// rig is a real Claude Code in a home of its own, with a model that plays
// scripts.
type rig struct{ *agentrig.Rig }

// versions are the pinned versions that tests run with, newest first: every one
// with RUNNEL_LONG, else the newest. The older one passes the suite of package
// providertest and all recordings each time.
func versions(t *testing.T) []realagents.Binary {
	t.Helper()
	all := realagents.Claude(t)
	if os.Getenv("RUNNEL_LONG") == "" {
		return all[:1]
	}
	return all
}

// eachAgent runs a test with every version, beside other such tests.
func eachAgent(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Parallel()
	for _, b := range versions(t) {
		t.Run(b.Version, func(t *testing.T) {
			t.Parallel()
			test(t, newRig(t, b))
		})
	}
}

// eachAgentInTurn is eachAgent for tests that set environment variables.
func eachAgentInTurn(t *testing.T, test func(t *testing.T, r *rig)) {
	for _, b := range versions(t) {
		t.Run(b.Version, func(t *testing.T) { test(t, newRig(t, b)) })
	}
}

// on returns the rig for a subtest that shares the agent.
func (r *rig) on(t *testing.T) *rig {
	if r.Conn == nil {
		r.Open()
	}
	sub := *r.Rig
	sub.T = t
	return &rig{&sub}
}

func newRig(t testing.TB, b realagents.Binary) *rig {
	t.Helper()
	return newRigIn(t, b, t.TempDir(), "2")
}

func newRigIn(t testing.TB, b realagents.Binary, root, retries string) *rig {
	t.Helper()
	r := agentrig.New(t, b, root)
	r.Provider, r.Opt.Path = New(), b.Path
	r.Opt.Env = append(r.Opt.Env, "CLAUDE_CODE_MAX_RETRIES="+retries)
	return &rig{r}
}

// use is a tool call of the model.
func use(name string, input any) fakemodel.Block {
	b, err := json.Marshal(input)
	if err != nil {
		panic(err)
	}
	return fakemodel.Block{Type: "tool_use", Name: name, Input: b}
}

type args map[string]any
