package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/internal/testload"
	"github.com/runnel-dev/runnel/provider/all"
)

// TestAgentsOfTheConfiguration runs the scripts with a small test agent in
// PATH, called "my-agent". $SNIPPET is the configuration with which the README
// adds it.
func TestAgentsOfTheConfiguration(t *testing.T) {
	testload.TakesLong(t)
	bin := t.TempDir()
	buildAgent(t, bin)
	p := params()
	p.Dir = "testdata/agents"
	prepare := p.Setup
	p.Setup = func(env *testscript.Env) error {
		if err := prepare(env); err != nil {
			return err
		}
		env.Setenv("BIN", bin)
		env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
		return os.WriteFile(filepath.Join(env.WorkDir, "readme.yaml"), []byte(snippet(t)), 0o600)
	}
	testscript.Run(t, p)
}

// buildAgent builds the small test agent as "my-agent".
func buildAgent(t *testing.T, dir string) {
	t.Helper()
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "my-agent"), "./testdata/acpagent")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// snippet returns the configuration in the README.
func snippet(t *testing.T) string {
	t.Helper()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "```yaml\n")
	yaml, _, found := strings.Cut(rest, "```")
	if !found || strings.Count(yaml, "\n") != 4 {
		t.Fatalf("the README adds an agent in other than four lines:\n%s", yaml)
	}
	return yaml
}

func TestEveryAbilityHasWords(t *testing.T) {
	for _, c := range runnel.AllCapabilities() {
		if ability(c) == "" {
			t.Errorf("%s has no words", c)
		}
	}
}

// TestEachRealAgent runs the scripts with Codex, which the configuration names,
// and with a scripted model on loopback. With RUNNEL_LONG=1 it runs them with
// every pinned agent except Claude Code; the tests of provider/acp list, resume,
// fork and read conversations of agents that speak ACP.
func TestEachRealAgent(t *testing.T) {
	names := []string{"codex"}
	if os.Getenv("RUNNEL_LONG") != "" {
		names = append([]string{"codex"}, realagents.ACP()...)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			agent := realagents.Find(t, name)
			model, err := fakemodel.Start(fakemodel.Config{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = model.Close() })
			p := params()
			p.Dir = "testdata/each"
			p.Condition = func(cond string) (is bool, err error) {
				i := slices.IndexFunc(all.Providers(), func(p runnel.Provider) bool { return p.Name() == name })
				switch cond {
				case "history":
					_, is = all.Providers()[i].(runnel.Historian)
				case "lists":
					_, is = all.Providers()[i].(runnel.Discoverer)
				case "forks":
					_, is = all.Providers()[i].(runnel.Forker)
				}
				return is, nil
			}
			prepare := p.Setup
			p.Setup = func(env *testscript.Env) error {
				if err := prepare(env); err != nil {
					return err
				}
				home := realagents.NewHome(t, model.URL())
				env.Vars = append(env.Vars, home.EnvironFor(name)...)
				link := filepath.Join(env.WorkDir, "program")
				for k, v := range map[string]string{"PROJECT": home.Project, "AGENT": link, "VERSION": agent.Version, "NAME": name, "RUNNEL_CONFIG": env.WorkDir + "/own.yaml"} {
					env.Setenv(k, v)
				}
				own := "agents: {" + name + ": {path: " + link + "}}"
				return errors.Join(os.Symlink(agent.Path, link), os.WriteFile(env.WorkDir+"/own.yaml", []byte(own), 0o600))
			}
			testscript.Run(t, p)
		})
	}
}
