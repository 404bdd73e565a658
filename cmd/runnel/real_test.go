package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
)

// TestRealAgents runs the scripts with Claude Code and a scripted model on
// loopback. Without RUNNEL_LONG=1 it leaves out resume.txtar, whose commands
// TestEachRealAgent runs with Codex.
func TestRealAgents(t *testing.T) {
	for _, agent := range realagents.UsualClaude(t) {
		t.Run(agent.Version, func(t *testing.T) {
			t.Parallel()
			model, err := fakemodel.Start(fakemodel.Config{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = model.Close() })
			p := params()
			p.Dir = "testdata/real"
			if os.Getenv("RUNNEL_LONG") == "" {
				p.Dir, p.Files = "", []string{"testdata/real/run.txtar", "testdata/real/serve.txtar"}
			}
			prepare := p.Setup
			p.Setup = func(env *testscript.Env) error {
				if err := prepare(env); err != nil {
					return err
				}
				home := realagents.NewHome(t, model.URL())
				env.Vars = append(env.Vars, home.Environ()...)
				env.Setenv("PROJECT", home.Project)
				env.Setenv("AGENT", agent.Path)
				env.Setenv("VERSION", agent.Version)
				return nil
			}
			testscript.Run(t, p)
		})
	}
}
