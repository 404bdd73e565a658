// Package realagents finds the real agents that tests drive and keeps them away from the developer's own.
//
// They are pinned in test/agents and installed there by npm ci. It is not part
// of fakemodel because that package is about an API and is also run by hand,
// while this one is about programs and is for tests only.
package realagents

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// skipVar, set to 1, skips the tests that need an agent instead of failing them.
const skipVar = "RUNNEL_SKIP_REAL_AGENTS"

// install is what a developer runs to have the agents, from the repository root.
const install = "npm ci --prefix test/agents"

// A Binary is one installed agent.
type Binary struct {
	Version string
	Path    string
}

// Claude returns the pinned versions of Claude Code, newest first. If one is
// not installed the test fails and says what to run: a check that skips itself
// cannot fail.
func Claude(t testing.TB) []Binary {
	t.Helper()
	return []Binary{
		find(t, "claude-code", "bin/claude.exe"),
		find(t, "claude-code-2-1-197", "bin/claude.exe"),
	}
}

func find(t testing.TB, alias, program string) Binary {
	t.Helper()
	dir := filepath.Join(repository(t), "test", "agents", "node_modules", alias)
	data, err := os.ReadFile(filepath.Join(dir, "package.json"))
	if err != nil {
		absent(t, alias, err)
	}
	var pkg struct{ Version string }
	if err := json.Unmarshal(data, &pkg); err != nil {
		t.Fatalf("%s: package.json: %v", alias, err)
	}
	path := filepath.Join(dir, filepath.FromSlash(program))
	if _, err := os.Stat(path); err != nil {
		absent(t, alias, err)
	}
	return Binary{Version: pkg.Version, Path: path}
}

func absent(t testing.TB, alias string, err error) {
	t.Helper()
	if os.Getenv(skipVar) == "1" {
		t.Skipf("%s is not installed, and %s=1", alias, skipVar)
	}
	t.Fatalf("%s is not installed (%v).\nRun: %s\nor set %s=1 to skip the tests that need it.", alias, err, install, skipVar)
}

// repository returns the directory of go.mod above the test's package.
func repository(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = up
	}
}

// A Home is a place for an agent to run in: nothing of the developer's
// configuration, logins or projects is visible from it.
type Home struct {
	Dir     string // HOME
	Config  string // CLAUDE_CONFIG_DIR
	Project string // an empty directory to work in

	modelURL string
}

// NewHome makes a Home whose agents talk to the model API at modelURL.
func NewHome(t testing.TB, modelURL string) Home {
	t.Helper()
	return NewHomeIn(t, t.TempDir(), modelURL)
}

// NewHomeIn makes a Home in a directory of the caller's, for recordings whose
// paths are to be the same each time.
func NewHomeIn(t testing.TB, root, modelURL string) Home {
	t.Helper()
	root, err := filepath.EvalSymlinks(root) // agents name their files by real paths
	if err != nil {
		t.Fatal(err)
	}
	h := Home{
		Dir: filepath.Join(root, "home"), Config: filepath.Join(root, "home", ".claude"),
		Project: filepath.Join(root, "project"), modelURL: modelURL,
	}
	for _, dir := range []string{h.Config, h.Project} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// Environ returns what an agent's environment must hold beside PATH. Keys are
// dummies: the model API on loopback takes any.
func (h Home) Environ() []string {
	env := []string{
		"HOME=" + h.Dir,
		"CLAUDE_CONFIG_DIR=" + h.Config,
		"ANTHROPIC_BASE_URL=" + h.modelURL,
		"ANTHROPIC_API_KEY=dummy",
		"DISABLE_TELEMETRY=1",
		"DISABLE_AUTOUPDATER=1",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
	}
	if os.Getuid() == 0 {
		env = append(env, "IS_SANDBOX=1") // Claude Code refuses to skip permissions as root without it
	}
	return env
}
