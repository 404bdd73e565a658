package claude

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
	goleak.VerifyTestMain(sharing{m})
}

// sharing runs the tests, then stops the shared agents.
type sharing struct{ *testing.M }

func (m sharing) Run() int {
	defer shared.stop()
	return m.M.Run()
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
	each(t, realagents.UsualClaude(t), test)
}

// everyAgent is eachAgent with all pinned versions. It is for tests of what an older
// version does and the newest does not.
func everyAgent(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Parallel()
	each(t, realagents.Claude(t), test)
}

func each(t *testing.T, binaries []realagents.Binary, test func(t *testing.T, r *rig)) {
	for _, b := range binaries {
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

// Conversations that tests share.
const (
	scripted = "scripted" // prompts contain what the model does
	plain    = "plain"    // no prompt does, so the model always answers ok
)

// onSharedAgent runs a test with the usual versions, one after another. All tests
// with the same conversation share one agent of each version, so they need no
// options and leave those of the agent unchanged. Each test begins in an empty
// project, and a failed test stops the agents. The tests do not run in parallel.
func onSharedAgent(t *testing.T, conversation string, test func(t *testing.T, r *rig)) {
	for _, b := range realagents.UsualClaude(t) {
		t.Run(b.Version, func(t *testing.T) {
			r := shared.rig(t, b, conversation)
			t.Cleanup(func() {
				if t.Failed() {
					shared.stop()
				}
			})
			emptied(t, r.Home.Project)
			test(t, r.on(t))
		})
	}
}

// emptied removes the content of a directory.
func emptied(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// shared holds the agents of onSharedAgent, by conversation and version.
var shared = make(sharedAgents)

type sharedAgents map[string]*owner

// An owner takes the place of the test that a rig belongs to. It ends when stop
// is called.
type owner struct {
	testing.TB // the test that started the agent
	rig        *rig
	dir        string
	cleanups   []func()
}

func (o *owner) Context() context.Context { return context.Background() }
func (o *owner) Cleanup(f func())         { o.cleanups = append(o.cleanups, f) }

// rig returns the rig of the shared agent of b. The agent may not have started.
func (s sharedAgents) rig(t *testing.T, b realagents.Binary, conversation string) *rig {
	t.Helper()
	key := conversation + " " + b.Version
	if o := s[key]; o != nil {
		return o.rig
	}
	dir, err := os.MkdirTemp("", "shared-agent-")
	if err != nil {
		t.Fatal(err)
	}
	o := &owner{TB: t, dir: dir}
	s[key] = o
	o.rig = newRigIn(o, b, dir, "2")
	return o.rig
}

// stop stops all shared agents. The next test that needs one starts a new one.
func (s sharedAgents) stop() {
	for key, o := range s {
		for _, f := range slices.Backward(o.cleanups) {
			f()
		}
		_ = os.RemoveAll(o.dir)
		delete(s, key)
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
