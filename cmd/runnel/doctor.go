package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel/internal/termtext"
)

// A finding is the result of one check of runnel doctor.
type finding struct {
	Area   string   `json:"area"` // version, agents, files, keys, network, kernel, sandbox, disk or protocol
	Name   string   `json:"name"` // name of the checked thing
	Status severity `json:"status"`
	Detail string   `json:"detail"`
	Fix    string   `json:"fix,omitempty"` // what the user should do
}

// A severity is how bad a finding is.
type severity string

const (
	fine    severity = "ok"
	warning severity = "warning" // the server works, with less protection or fewer functions
	problem severity = "problem" // the server does not start or cannot work
)

// A diagnosis is the result of all checks.
type diagnosis struct {
	Status   severity  `json:"status"` // the worst status of a finding
	Findings []finding `json:"findings"`
}

func (d *diagnosis) add(f finding) {
	d.Findings = append(d.Findings, f)
	if f.Status == problem || f.Status == warning && d.Status == fine {
		d.Status = f.Status
	}
}

func (d *diagnosis) count(s severity) (n int) {
	for _, f := range d.Findings {
		if f.Status == s {
			n++
		}
	}
	return n
}

func (a *app) doctorCommand() *cobra.Command {
	var asJSON, protocol bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine and suggest fixes",
		Long: `Check what runnel needs on this machine: versions, agents, file permissions, the
port and the origin, the disk, and kernel features that protect you from agents.
The command suggests a fix for problems and warnings, and changes nothing. It
waits up to 20 seconds for each agent. Give it the flags of 'runnel serve'.

` + protocolHelp + `

Exit codes: 0 no problem, 1 a problem. After a warning, the server works, but
with less protection or fewer functions.`,
		Example: `  runnel doctor
  runnel doctor --protocol
  runnel doctor --json | jq '.findings[] | select(.status != "ok")'`,
		Args: nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := a.diagnose(cmd, protocol)
			if err != nil {
				return err
			}
			if err := a.printDiagnosis(d, asJSON); err != nil {
				return err
			}
			if d.Status == problem {
				return &exitError{code: exitFailed}
			}
			return nil
		},
	}
	serveFlags(cmd.Flags())
	for _, name := range []string{"allow-bypass", "approval-timeout", "stall-timeout", "idle-timeout", "reattach-window", "prewarm", "prewarm-age", "compact-after", "retention-age", "retention-mib", "stream-family", "list-conversations", "search", "keep-unknown", "mcp-writes", "push", "log-level", "log-format", "cors-origins", trustedKey} {
		_ = cmd.Flags().MarkHidden(name) // accepted, so that a user can check a whole serve command line
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	cmd.Flags().BoolVar(&protocol, "protocol", false, "list only the types of agents' messages that the running server does not know")
	return cmd
}

// diagnose runs all checks, or only the one about protocols.
func (a *app) diagnose(cmd *cobra.Command, protocol bool) (*diagnosis, error) {
	if !protocol {
		return a.examine(cmd), nil
	}
	c, err := loadConfig(cmd.Flags())
	if err != nil {
		return nil, err
	}
	return a.examineProtocol(cmd.Context(), c)
}

// examine runs all checks.
func (a *app) examine(cmd *cobra.Command) *diagnosis {
	ctx := cmd.Context()
	d := &diagnosis{Status: fine}
	checkVersion(d)
	c, err := loadConfig(cmd.Flags())
	if err == nil {
		err = a.useAgents(c.file, c.agents)
	}
	if err == nil {
		err = a.useLimits(c.file, c.agentLimits)
	}
	if err == nil {
		err = a.useOptions(c.file, c.options)
	}
	a.checkAgents(ctx, d)
	d.add(configuration(c, err))
	if err == nil { // the other checks need the settings
		checkFiles(d, c)
		checkFileEvents(ctx, d, c, a.providers)
		a.checkKeys(d)
		checkNetwork(ctx, d, c)
		checkDisk(d, c.Data)
	}
	a.checkLimits(d)
	checkKernel(ctx, d)
	return d
}

func (a *app) printDiagnosis(d *diagnosis, asJSON bool) error {
	if asJSON {
		shown := *d
		shown.Findings = slices.Clone(d.Findings)
		for i := range shown.Findings {
			f := &shown.Findings[i]
			f.Detail, f.Fix = a.secrets.String(f.Detail), a.secrets.String(f.Fix)
		}
		enc := a.encoder()
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(shown)
	}
	const indent = "         " // as wide as the status column
	width := a.width()
	var b strings.Builder
	area := ""
	for _, f := range d.Findings {
		if f.Area != area {
			area = f.Area
			fmt.Fprintf(&b, "%s\n", strings.ToUpper(area))
		}
		lines := []string{f.Name + ": " + f.Detail}
		if f.Fix != "" {
			lines = append(lines, "-> "+f.Fix)
		}
		for i, line := range lines {
			line = strings.ReplaceAll(fill(termtext.Clean(line), max(width-len(indent), 0)), "\n", "\n"+indent)
			if i == 0 {
				line = fmt.Sprintf("%-*s%s", len(indent), f.Status, line)
			} else {
				line = indent + line
			}
			b.WriteString(line + "\n")
		}
	}
	fmt.Fprintf(&b, "\n%s, %s\n", plural(d.count(problem), "problem"), plural(d.count(warning), "warning"))
	_, err := fmt.Fprint(a.out, a.secrets.String(b.String()))
	return err
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// checkAgents adds a finding for each installed agent, and one that lists the
// others.
func (a *app) checkAgents(ctx context.Context, d *diagnosis) {
	installed, missing := a.agentFindings(ctx)
	for _, f := range installed {
		d.add(f)
	}
	switch {
	case len(installed) == 0:
		d.add(finding{"agents", "installed", problem, "no coding agent is installed", "run 'runnel agents', which shows how to install one"})
	case len(missing) > 0:
		d.add(finding{"agents", "not installed", fine, strings.Join(missing, ", "), "to see how to install one, run: runnel agents NAME"})
	}
}
