package codex

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
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

// Helpers that the tests of all providers use.
var (
	await, dump, items, last, sound = agentrig.Await, agentrig.Dump, agentrig.Items, agentrig.Last, agentrig.Sound

	fixtureStart      = recordtest.Start
	section, recorded = recordtest.Section, recordtest.Lines
)

func bodies[T event.Body](evs []event.Event) []T { return agentrig.Bodies[T](evs) }

// rig is a real Codex with its own home directory and a scripted model.
type rig struct {
	*agentrig.Rig
	seen bool // set by a fixture when the message it waits for arrived
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

// provider returns a provider that runs the pinned agent in the rig's home,
// also for queries about stored conversations.
func (r *rig) provider() runnel.Provider {
	return New().WithProgram([]string{r.Opt.Path}, r.Opt.Env)
}

func detail(err error) string {
	if answer, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return fmt.Sprintf("%v: the agent says %q %s", err, answer.Message, answer.Data)
	}
	return fmt.Sprintf("%v (%+v)", err, runnel.Safe(err).Err)
}

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

// escalated returns a command that needs an approval.
func escalated(cmd string) fakemodel.Block {
	return fakemodel.Call("exec_command", args{"cmd": cmd, "yield_time_ms": 20000, "sandbox_permissions": "require_escalated", "justification": "May I?"})
}

// code returns a call of the tool exec, which runs a JavaScript program. The
// newer models call their other tools as functions in this program.
func code(js string) fakemodel.Block { return fakemodel.Call("exec", js) }

func patch(text string) fakemodel.Block { return fakemodel.Call("apply_patch", text) }
