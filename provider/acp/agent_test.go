package acp

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/internal/recordtest"
	"github.com/runnel-dev/runnel/supervise"
)

func TestMain(m *testing.M) {
	supervise.Main()
	if agentrig.ServeMCP() {
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
	dump, scenario, sound = agentrig.Dump, agentrig.Scenario, agentrig.Sound

	fixtureStart      = recordtest.Start
	section, recorded = recordtest.Section, recordtest.Lines
)

func bodies[T event.Body](evs []event.Event) []T { return agentrig.Bodies[T](evs) }

// rig is a real agent with its own home directory and a scripted model.
type rig struct{ *agentrig.Rig }

// known returns the agent with this name.
func known(t testing.TB, name string) Agent {
	t.Helper()
	for _, a := range agents {
		if a.Name == name {
			return a
		}
	}
	t.Fatalf("no agent %q", name)
	return Agent{}
}

func newRig(t testing.TB, name string) *rig {
	t.Helper()
	return newRigIn(t, name, t.TempDir())
}

func newRigIn(t testing.TB, name, root string) *rig {
	t.Helper()
	r := agentrig.New(t, realagents.Find(t, name), root)
	r.Provider = New(known(t, name)).(runnel.Programmable).WithProgram(append([]string{r.Agent.Path}, r.Agent.Args...), r.Opt.Env)
	return &rig{r}
}

// on returns a rig for the subtest t that shares the agent of r. It starts the
// agent if necessary.
func (r *rig) on(t *testing.T) *rig {
	r.T.Helper()
	if r.Conn == nil {
		r.Open()
	}
	sub := *r.Rig
	sub.T = t
	return &rig{&sub}
}

// words returns the tool calls that the agent understands.
func (r *rig) words() realagents.Toolset { return realagents.ToolsetOf(r.Agent.Name) }

type args map[string]any
