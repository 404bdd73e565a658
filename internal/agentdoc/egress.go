package main

import (
	"fmt"
	"strings"

	"github.com/runnel-dev/runnel/provider/providertest"
)

const egressPage = "docs/egress.md"

const egressHead = `# What agents try to reach from a sandbox

<!-- Made by ` + "`go run ./internal/agentdoc`" + ` from test/guardrails/testdata/egress. Do not edit. -->

This page lists every host that each agent tried to reach from [` + "`sandbox: project`" + `](configuration.md#sandbox), as the server's proxy recorded it: while the
session started, in turns with a tool call, in ten idle minutes after a turn, and while the session ended. The agents are the real programs in the stated versions,
configured as after an installation, except that their model is a scripted one on a loopback port, which ` + "`egress.allow`" + ` lists. The hosts of their real models
therefore appear only if the agent uses them for something else, too. "agent" means a host that the agent itself needs and that each of its sandboxes can reach.
A host is listed once, with the phase in which it was tried first. A blocked attempt ends no turn: in the same test, a tool tries to reach a host that is not listed, and all turns complete.

| agent | host | port | first tried | allowed by |
|---|---|---|---|---|
`

// phases names the phases of an Attempt.
var phases = map[string]string{"start": "at the start", "turn": "in a turn", "idle": "while idle", "end": "at the end"}

// renderEgress returns the page for the repository in root.
func renderEgress(root string) (string, error) {
	all, err := providertest.AllReached(root)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(egressHead)
	for _, r := range all {
		for _, a := range r.Attempts {
			by, port := a.By, fmt.Sprint(a.Port)
			if by == "" {
				by = "**blocked**"
			}
			if a.Port == 0 {
				port = ""
			}
			if phases[a.When] == "" {
				return "", fmt.Errorf("%s: unknown phase %q", r.Agent, a.When)
			}
			fmt.Fprintf(&b, "| %s %s | %s | %s | %s | %s |\n", r.Name, r.Version, a.Host, port, phases[a.When], by)
		}
	}
	b.WriteString("\n## Telemetry and updates\n\nIn a sandbox, the agents start with these settings of their own, by which they send no telemetry and search for no updates:\n\n| agent | settings |\n|---|---|\n")
	for _, r := range all {
		settings := make([]string, len(r.Quiet))
		for i, q := range r.Quiet {
			settings[i] = "`" + q + "`"
		}
		fmt.Fprintf(&b, "| %s | %s |\n", r.Name, strings.Join(settings, ", "))
	}
	b.WriteString("\nWhat an agent sends in spite of its settings is in the first table. If the agent's own hosts do not include the host, it is blocked.\n")
	return b.String(), nil
}
