package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
)

// TestRealAgents runs the scripts with the pinned agents and a scripted model
// on loopback.
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
