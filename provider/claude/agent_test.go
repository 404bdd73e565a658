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

// waitTimeout bounds how long a test waits for a real agent.
const waitTimeout = agentrig.Timeout

// Helpers that the tests of all providers share.
var (
	await, dump, exists, items, last, scenario, sound = agentrig.Await, agentrig.Dump, agentrig.Exists, agentrig.Items, agentrig.Last, agentrig.Scenario, agentrig.Sound

	fixtureStart      = recordtest.Start
	section, recorded = recordtest.Section, recordtest.Lines
)

func bodies[T event.Body](evs []event.Event) []T { return agentrig.Bodies[T](evs) }

// rig is a real Claude Code with a temporary home directory and a scripted
// model.
type rig struct{ *agentrig.Rig }

// eachAgent runs a test with the usual versions, in parallel with other tests.
func eachAgent(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Parallel()
	for _, b := range realagents.UsualClaude(t) {
		t.Run(b.Version, func(t *testing.T) {
			t.Parallel()
			test(t, newRig(t, b))
		})
	}
}

// eachAgentSerially runs a test with the usual versions, one after another. Use
// it for tests that set environment variables.
func eachAgentSerially(t *testing.T, test func(t *testing.T, r *rig)) {
	for _, b := range realagents.UsualClaude(t) {
		t.Run(b.Version, func(t *testing.T) { test(t, newRig(t, b)) })
	}
}

// on returns a rig for the subtest t that shares the agent of r.
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

// use returns a block in which the model calls a tool.
func use(name string, input any) fakemodel.Block {
	b, err := json.Marshal(input)
	if err != nil {
		panic(err)
	}
	return fakemodel.Block{Type: "tool_use", Name: name, Input: b}
}

type args map[string]any
