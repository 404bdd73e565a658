// Package realagents finds the real agents that tests drive, and isolates them
// from the developer's own configuration.
//
// npm ci installs the agents, whose versions are pinned in test/agents. This
// package is separate from fakemodel: fakemodel implements an API and is also
// run by hand, while realagents handles programs and serves only tests.
package realagents

import (
	"os"
	"path/filepath"
	"testing"
)

// skipVar is the variable that, set to 1, skips every test that needs a real
// agent, even if the agent is installed. The flag -short does the same.
const skipVar = "RUNNEL_SKIP_REAL_AGENTS"

// A Binary is one installed agent.
type Binary struct {
	Name    string // name of the provider
	Version string
	Path    string   // the program that npm installs, or a script that starts it with a newer Node.js
	Args    []string // arguments that select the protocol that Runnel uses
}

// Claude returns the pinned versions of Claude Code, newest first. If one is
// not installed, the test fails with the command that installs it. The test is
// not skipped, because a test that skips itself cannot fail. If
// RUNNEL_AGENTS_DIR is set, Claude returns only the newest version.
func Claude(t testing.TB) []Binary {
	t.Helper()
	newest := Find(t, "claude-code")
	if os.Getenv(dirVar) != "" {
		return []Binary{newest}
	}
	old := agents["claude-code"]
	old.module = "claude-code-2-1-197"
	return []Binary{newest, find(t, "claude-code", old)}
}

// ACP returns the names of the agents that speak the Agent Client Protocol.
func ACP() []string {
	return []string{"claude-agent-acp", "codex-acp", "copilot", "gemini", "opencode", "qwen"}
}

// UsualClaude returns the newest pinned Claude Code, or with RUNNEL_LONG=1 the
// versions that [Claude] returns.
func UsualClaude(t testing.TB) []Binary {
	t.Helper()
	if os.Getenv("RUNNEL_LONG") != "" {
		return Claude(t)
	}
	return []Binary{Find(t, "claude-code")}
}

// Usually returns the given names, or with RUNNEL_LONG=1 the names of all agents
// that speak ACP. It is for tests of code that is the same for all of them.
func Usually(names ...string) []string {
	if os.Getenv("RUNNEL_LONG") != "" {
		return ACP()
	}
	return names
}

// Others returns the names of all agents except Claude Code.
func Others() []string { return append([]string{"codex"}, ACP()...) }

// Modules returns the npm module of each agent, by provider name.
func Modules() map[string]string {
	modules := make(map[string]string)
	for name, a := range agents {
		modules[name] = a.module
	}
	return modules
}

// Find returns the pinned version of the agent with this provider name. If it
// is not installed, the test fails as in [Claude].
func Find(t testing.TB, name string) Binary {
	t.Helper()
	a, ok := agents[name]
	if !ok {
		t.Fatalf("realagents: no agent %q", name)
	}
	selected(t, name)
	return find(t, name, a)
}

// Codex returns the pinned Codex.
func Codex(t testing.TB) Binary { t.Helper(); return Find(t, "codex") }

// Skip skips the test if RUNNEL_SKIP_REAL_AGENTS is 1 or -short is set. Every
// function of this package that finds an agent calls Skip.
func Skip(t testing.TB) {
	t.Helper()
	if os.Getenv(skipVar) == "1" {
		t.Skipf("%s=1 skips the tests with real agents", skipVar)
	}
	if testing.Short() {
		t.Skipf("-short skips the tests with real agents")
	}
}

// A Home is a set of directories for agents. From it, agents cannot see the
// developer's configuration, logins or projects.
type Home struct {
	Dir     string // HOME
	Config  string // CLAUDE_CONFIG_DIR
	Codex   string // CODEX_HOME
	Tmp     string // TMPDIR of all agents except Claude Code
	Project string // an empty directory to work in

	modelURL string
	caches   string // shared by all Homes; see EnvironFor
}

// NewHome creates a Home whose agents use the model API at modelURL.
func NewHome(t testing.TB, modelURL string) Home {
	t.Helper()
	return NewHomeIn(t, t.TempDir(), modelURL)
}

// NewHomeIn creates a Home in the directory root. Recordings use it to have the
// same paths each time.
func NewHomeIn(t testing.TB, root, modelURL string) Home {
	t.Helper()
	root, err := filepath.EvalSymlinks(root) // agents report real paths
	if err != nil {
		t.Fatal(err)
	}
	h := Home{
		Dir: filepath.Join(root, "home"), Config: filepath.Join(root, "home", ".claude"),
		Codex: filepath.Join(root, "home", ".codex"), Tmp: filepath.Join(root, "tmp"),
		Project: filepath.Join(root, "project"), modelURL: modelURL,
		caches: filepath.Join(directory(t), "node_modules", ".caches"),
	}
	for _, dir := range []string{h.Config, h.Codex, h.Tmp, h.Project} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range agents {
		if a.files == nil {
			continue
		}
		for path, text := range a.files(h) {
			write(t, path, text)
		}
	}
	return h
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
