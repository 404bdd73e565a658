package realagents

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// selectVar is the variable with the provider names of the agents that tests
// drive, separated by commas. If it is empty, tests drive every agent.
const selectVar = "RUNNEL_AGENTS"

// Selected reports whether RUNNEL_AGENTS selects the agent with this provider
// name.
func Selected(name string) bool {
	names := os.Getenv(selectVar)
	return names == "" || slices.Contains(strings.Split(names, ","), name)
}

// selected skips the test if the agent is not selected. It fails the test if
// RUNNEL_AGENTS contains an unknown name, because a misspelled name would skip
// every test.
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
