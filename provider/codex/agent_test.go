package codex

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/fakemodel"
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

// patience bounds how long a test waits for a real agent.
const patience = agentrig.Patience

// What the tests of all providers have in common.
var (
	await, dump, items, last, sound = agentrig.Await, agentrig.Dump, agentrig.Items, agentrig.Last, agentrig.Sound

	fixtureStart      = recordtest.Start
	section, recorded = recordtest.Section, recordtest.Lines
)

func bodies[T event.Body](evs []event.Event) []T { return agentrig.Bodies[T](evs) }

// rig is a real Codex in a home of its own, with a model that plays scripts.
type rig struct {
	*agentrig.Rig
	told bool // what a fixture waits for was said
}

func newRig(t testing.TB) *rig {
	t.Helper()
	return newRigIn(t, t.TempDir())
}

func newRigIn(t testing.TB, root string) *rig {
	t.Helper()
	r := agentrig.New(t, realagents.Codex(t), root)
	r.Provider, r.Opt.Path = New(), r.Agent.Path
	return &rig{Rig: r}
}

// provider runs the pinned agent in the rig's home also when it is asked about
// what it keeps.
func (r *rig) provider() runnel.Provider {
	return New().WithProgram([]string{r.Opt.Path}, r.Opt.Env)
}

func detail(err error) string { return fmt.Sprintf("%v (%+v)", err, runnel.Safe(err).Err) }

type args map[string]any

// Steps of the model.

func says(text string) fakemodel.Step {
	return fakemodel.Step{Text: text, Chunk: 24, Usage: map[string]int64{"input_tokens": 1000, "output_tokens": 20}}
}

func calls(blocks ...fakemodel.Block) fakemodel.Step {
	return fakemodel.Step{Chunk: 64, Blocks: blocks, Usage: map[string]int64{"input_tokens": 1000, "output_tokens": 20}}
}

func shell(cmd string) fakemodel.Block {
	return fakemodel.Call("exec_command", args{"cmd": cmd, "yield_time_ms": 20000})
}

// escalated is a command that has to be asked for.
func escalated(cmd string) fakemodel.Block {
	return fakemodel.Call("exec_command", args{"cmd": cmd, "yield_time_ms": 20000, "sandbox_permissions": "require_escalated", "justification": "May I?"})
}

// code is a script of the newer models, whose tools are functions in it.
func code(js string) fakemodel.Block { return fakemodel.Call("exec", js) }

func patch(text string) fakemodel.Block { return fakemodel.Call("apply_patch", text) }
