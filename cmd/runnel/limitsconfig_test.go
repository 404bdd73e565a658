package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/provider/all"
)

// configured loads a configuration file and applies its agents and limits.
func configured(t *testing.T, text string) (*app, config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	fl := pflag.NewFlagSet("", pflag.ContinueOnError)
	serveFlags(fl)
	if err := fl.Set("config", path); err != nil {
		t.Fatal(err)
	}
	a := &app{providers: all.Providers()}
	c, err := loadConfig(fl)
	if err == nil {
		err = a.useAgents(c.file, c.agents)
	}
	if err == nil {
		err = a.useLimits(c.file, c.agentLimits)
	}
	return a, c, err
}

func TestLimitsOfAgentsReplaceThoseOfAll(t *testing.T) {
	a, c, err := configured(t, `
limits: {memoryMiB: 4096, processes: 500, cpus: 1.5}
agents:
  codex:
    limits: {memoryMiB: 8192, cpus: 0}
`)
	if err != nil {
		t.Fatal(err)
	}
	want := runnel.Limits{MemoryMiB: 4096, Processes: 500, CPUs: 1.5}
	if c.agentLimits[""] != want {
		t.Errorf("all: %+v", c.agentLimits[""])
	}
	if got := c.agentLimits["codex"]; got != (runnel.Limits{MemoryMiB: 8192, Processes: 500}) {
		t.Errorf("codex: %+v", got)
	}
	if a.limits.Processes != 500 || a.limits.CPUs != 1.5 || a.limits.MemoryMiB == 0 {
		t.Errorf("to enforce: %+v", a.limits)
	}
	if a, _, err := configured(t, "agents: {codex: {limits: {processes: 9}}}\n"); err != nil || a.limits != (runnel.Limits{Processes: 9}) {
		t.Errorf("one agent: %+v, %v", a.limits, err)
	}
	if a, _, err := configured(t, "prewarm: 0\n"); err != nil || a.limits != (runnel.Limits{}) {
		t.Errorf("none: %+v, %v", a.limits, err)
	}
}

func TestWrongLimitsAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"limits: 5\n":                             "limits: must be limits",
		"limits: {memory: 5}\n":                   "limits.memory: unknown; want memoryMiB, processes or cpus",
		"limits: {memoryMiB: 4GiB}\n":             "limits.memoryMiB: want a whole number",
		"limits: {memoryMiB: -1}\n":               "limits.memoryMiB: want a whole number",
		"limits: {processes: 1.5}\n":              "limits.processes: want a whole number",
		"limits: {processes: 99999999}\n":         "limits.processes: want a whole number",
		"limits: {cpus: 0.001}\n":                 "limits.cpus: want a number of CPUs",
		"limits: {cpus: .nan}\n":                  "limits.cpus: want a number of CPUs",
		"limits: {cpus: two}\n":                   "limits.cpus: want a number of CPUs",
		"agents: {codex: {limits: {cpu: 2}}}\n":   "agents.codex.limits.cpu: unknown",
		"agents: {codex: {limits: [2]}}\n":        "agents.codex.limits: must be limits",
		"agents: {nobody: {limits: {cpus: 2}}}\n": "agents.nobody: no known agent has this name",
		"agents: {script: {limits: {cpus: 2}}}\n": "agents.script.limits: this agent runs no program",
		"agents: {codex: {limit: {cpus: 2}}}\n":   "options or limits",
	} {
		if _, _, err := configured(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
