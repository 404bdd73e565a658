package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway/detect"
	"github.com/runnel-dev/runnel/internal/text"
)

// printAgent prints everything known about one agent.
func (a *app) printAgent(ag detect.Agent) error {
	facts := listing([]column{{"", whole}, {"", whole}}) // never cut: the user copies commands from it
	facts.add(ag.CLIType, cell(ag.DisplayName))
	if len(ag.Aliases) > 0 {
		facts.add("also called", strings.Join(ag.Aliases, ", "))
	}
	installed := "no"
	if ag.Installed {
		installed = strings.TrimSpace("yes  " + strings.TrimSpace(ag.Version+"  "+ag.Path))
	}
	facts.add("installed", cell(installed))
	facts.add("logged in", map[string]string{"yes": "yes", "no": "no", "-": "-", "?": "unknown"}[loggedIn(ag.Installation)])
	for _, row := range [][2]string{{"to do", todo(ag.Installation)}, {"install", ag.Install}, {"log in", ag.Login}} {
		if row[1] != "" {
			facts.add(row[0], cell(row[1]))
		}
	}
	if len(ag.Modes) > 0 {
		facts.add("permission modes", cell(strings.Join(ag.Modes, ", ")))
	}
	of := []column{{"", whole}, {"", cutEnd}, {"", cutEnd}}
	models, own := listing(of), listing(of)
	for _, m := range ag.Models {
		models.add("  "+cell(m.ID), cell(m.Name), cell(text.ShortenRunes(m.Description, 80)))
	}
	for _, o := range ag.Config {
		own.add("  "+cell(o.ID), cell(o.Name), cell(choices(o)))
	}
	can, cannot := listing(of[:2]), listing(of[:2])
	for _, c := range runnel.AllCapabilities() {
		if slices.Contains(ag.Capabilities, c) {
			can.add("  "+string(c), ability(c))
		} else {
			cannot.add("  "+string(c), ability(c))
		}
	}
	var out bytes.Buffer
	for _, s := range []struct {
		title string
		table *table
	}{
		{"", facts}, {"Models (--model ID)", models}, {"Settings of the agent (--set ID=VALUE)", own},
		{"Supported", can}, {"Not supported", cannot},
	} {
		if len(s.table.rows) == 0 {
			continue
		}
		if s.title != "" {
			fmt.Fprintf(&out, "\n%s\n", s.title)
		}
		_ = s.table.write(&out, a.width())
	}
	_, err := a.out.Write(out.Bytes())
	return err
}

// listing returns a table without column headings.
func listing(columns []column) *table { return &table{columns: columns} }

// choices lists the possible values of a setting, with the current one in
// brackets.
func choices(o event.ConfigOption) string {
	values := []string{"true", "false"}
	if o.Type == event.ConfigSelect {
		values = nil
		for _, c := range o.Choices {
			values = append(values, c.Value)
		}
	}
	if i := slices.Index(values, o.Value); i >= 0 {
		values[i] = "[" + values[i] + "]"
	}
	const most = 20
	if len(values) > most {
		values = append(values[:most], fmt.Sprintf("… and %d more", len(values)-most))
	}
	return strings.Join(values, " ")
}

// ability returns a short description of a capability.
func ability(c runnel.Capability) string {
	switch c {
	case runnel.CapRun:
		return "runs a prompt"
	case runnel.CapEvents:
		return "reports its work as events"
	case runnel.CapEventsLive:
		return "reports events while it works"
	case runnel.CapCancel:
		return "a turn can be cancelled"
	case runnel.CapToolsStructured:
		return "reports the arguments of tool calls"
	case runnel.CapToolsResults:
		return "reports the output of tool calls"
	case runnel.CapSessionHandle:
		return "a conversation has an id with which it can be resumed"
	case runnel.CapSessionResume:
		return "a conversation can be resumed after the agent's process has ended"
	case runnel.CapSessionFork:
		return "a copy of a conversation can be continued"
	case runnel.CapConfigModel:
		return "the model can be changed in a conversation"
	case runnel.CapAddDirs:
		return "works in additional directories (--add-dir)"
	case runnel.CapNonInteractive:
		return "runs without a person who answers approvals"
	case runnel.CapExternalSandbox:
		return "can run without its own sandbox and approvals, inside another sandbox"
	case runnel.CapArtifactFinalText:
		return "its last message is the answer"
	case runnel.CapMCPList, runnel.CapMCPGet:
		return "its MCP servers can be listed (runnel mcp)"
	case runnel.CapMCPAdd, runnel.CapMCPRemove:
		return "its MCP servers can be changed (runnel mcp)"
	}
	return ""
}
