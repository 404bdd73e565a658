package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/runnel-dev/runnel"
)

// TestAgentsOfTheConfiguration runs the scripts with a small agent of our own in
// PATH, as "my-agent", and with $SNIPPET, what the README says to write to add it.
func TestAgentsOfTheConfiguration(t *testing.T) {
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(bin, "my-agent"), "./testdata/acpagent")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
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
