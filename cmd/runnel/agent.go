package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway/detect"
	"github.com/runnel-dev/runnel/internal/text"
)

// printAgent prints all that is known of one agent.
func (a *app) printAgent(ag detect.Agent) error {
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "%s\t%s\n", ag.CLIType, cell(ag.DisplayName))
	if len(ag.Aliases) > 0 {
		fmt.Fprintf(w, "also called\t%s\n", strings.Join(ag.Aliases, ", "))
	}
	installed := "no"
	if ag.Installed {
		installed = strings.TrimSpace("yes  " + strings.TrimSpace(ag.Version+"  "+ag.Path))
	}
	fmt.Fprintf(w, "installed\t%s\n", cell(installed))
	fmt.Fprintf(w, "logged in\t%s\n", map[string]string{"yes": "yes", "no": "no", "-": "-", "?": "it cannot tell"}[loggedIn(ag.Installation)])
	for _, row := range [][2]string{{"to do", todo(ag.Installation)}, {"install", ag.Install}, {"log in", ag.Login}} {
		if row[1] != "" {
			fmt.Fprintf(w, "%s\t%s\n", row[0], cell(row[1]))
		}
	}
	if len(ag.Modes) > 0 {
		fmt.Fprintf(w, "permission modes\t%s\n", cell(strings.Join(ag.Modes, ", ")))
	}
	_ = w.Flush()
	if len(ag.Models) > 0 {
		fmt.Fprintln(w, "\nModels (--model ID)")
		for _, m := range ag.Models {
			fmt.Fprintf(w, "  %s\t%s\t%s\n", cell(m.ID), cell(m.Name), cell(text.ShortenRunes(m.Description, 80)))
		}
		_ = w.Flush()
	}
	if len(ag.Config) > 0 {
		fmt.Fprintln(w, "\nIts own settings (--set ID=VALUE)")
		for _, o := range ag.Config {
			fmt.Fprintf(w, "  %s\t%s\t%s\n", cell(o.ID), cell(o.Name), cell(choices(o)))
		}
		_ = w.Flush()
	}
	fmt.Fprintln(w, "\nWhat it can do here")
	var lacks []runnel.Capability
	for _, c := range runnel.AllCapabilities() {
		if slices.Contains(ag.Capabilities, c) {
			fmt.Fprintf(w, "  %s\t%s\n", c, ability(c))
		} else {
			lacks = append(lacks, c)
		}
	}
	_ = w.Flush()
	if len(lacks) > 0 {
		fmt.Fprintln(w, "\nWhat it cannot do here")
		for _, c := range lacks {
			fmt.Fprintf(w, "  %s\t%s\n", c, ability(c))
		}
		_ = w.Flush()
	}
	_, err := a.out.Write(out.Bytes())
	return err
}

// choices lists the values that a setting may have, the present one in brackets.
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

// ability says in words what a capability is.
func ability(c runnel.Capability) string {
	switch c {
	case runnel.CapRun:
		return "runs a prompt"
	case runnel.CapEvents:
		return "its work is told as events"
	case runnel.CapEventsLive:
		return "its work is told while it goes on"
	case runnel.CapCancel:
		return "a turn can be cancelled"
	case runnel.CapToolsStructured:
		return "its tools are told with their arguments"
	case runnel.CapToolsResults:
		return "its tools are told with what they gave"
	case runnel.CapSessionHandle:
		return "a conversation has many turns"
	case runnel.CapSessionResume:
		return "a conversation goes on after its process has ended"
	case runnel.CapSessionFork:
		return "a conversation can go on from a copy"
	case runnel.CapConfigModel:
		return "the model can be changed in a conversation"
	case runnel.CapAddDirs:
		return "works in further directories (--add-dir)"
	case runnel.CapNonInteractive:
		return "runs without anyone to answer"
	case runnel.CapExternalSandbox:
		return "runs in a sandbox of others"
	case runnel.CapArtifactFinalText:
		return "its last message is the answer"
	}
	return ""
}
