package realagents

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// selectVar holds the agents that the tests drive: names of their providers
// with commas between them. Without it the tests drive every agent.
const selectVar = "RUNNEL_AGENTS"

// Selected reports whether RUNNEL_AGENTS lets the tests drive the agent with
// this provider's name.
func Selected(name string) bool {
	names := os.Getenv(selectVar)
	return names == "" || slices.Contains(strings.Split(names, ","), name)
}

// selected skips the test if the agent is not selected. A name that no agent
// has fails the test: a misspelled selection would skip everything.
func selected(t testing.TB, name string) {
	t.Helper()
	for _, n := range strings.Split(os.Getenv(selectVar), ",") {
		if _, ok := agents[n]; !ok && n != "" {
			t.Fatalf("%s: unknown agent %q; want some of claude-code, codex, %s", selectVar, n, strings.Join(ACP(), ", "))
		}
	}
	if !Selected(name) {
		t.Skipf("%s does not select %s", selectVar, name)
	}
}
