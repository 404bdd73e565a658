// Command agentdoc writes docs/agents.md and docs/egress.md. The first page
// shows the results of the conformance suite for each agent, and how an agent's
// history differs from what its session showed live. The second page shows what
// each agent tried to reach from a sandbox.
//
//	go run ./internal/agentdoc    # in the root of the repository; or: make docs
//
// The results are in provider/*/testdata/conformance, the differences in
// providertest.Differences, and the attempts in test/guardrails/testdata. A test
// fails if a page does not match them.
package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/provider/providertest"
)

// pages are the functions that return the pages for a repository.
var pages = map[string]func(root string) (string, error){"docs/agents.md": render, egressPage: renderEgress}

func main() {
	for page, render := range pages {
		text, err := render(".")
		if err == nil {
			err = os.WriteFile(page, []byte(text), 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "agentdoc:", err)
			os.Exit(1)
		}
	}
}

// meanings describe the tests of the suite, in the order of the page.
var meanings = []struct{ test, means string }{
	{"Text", "text over several turns"},
	{"Reasoning", "reasoning"},
	{"Tool", "a tool call and its output"},
	{"Parallel", "parallel tool calls"},
	{"Edit", "an edit as a diff"},
	{"Image", "an image in the prompt"},
	{"PDF", "a PDF in the prompt"},
	{"AttachmentAlone", "an attachment without text"},
	{"AttachmentWithBlankText", "an attachment with blank text"},
	{"AttachmentRejected", "a notice about rejected attachments"},
	{"RejectionReplayed", "the same notice from the agent's history"},
	{"ApprovalAllowed", "allowing an approval"},
	{"ApprovalDenied", "denying an approval"},
	{"ApprovalDeniedAndStopped", "denying an approval and ending the turn"},
	{"InterruptInText", "cancelling during text"},
	{"InterruptInTool", "cancelling during a tool call"},
	{"InterruptInApproval", "cancelling during an approval"},
	{"Failure", "a model failure ends the turn with its reason"},
	{"Plan", "plans"},
	{"Question", "questions to the user"},
	{"Subagent", "subagents, nested under their call"},
	{"Behind", "background tasks after the turn"},
	{"ResumeAfterKill", "resuming after the agent's process was killed"},
	{"ResumeAfterClose", "resuming in another session"},
	{"ReplayEqualsLive", "the same items, with the same ids, from the agent's history"},
	{"StuffedPipes", "a blocked stdin does not block other work"},
	{"NothingIsLeft", "closing the agent leaves no process behind"},
	{"Contract", "the contract of a provider"},
}

// render returns docs/agents.md for the repository in root.
func render(root string) (string, error) {
	reports, err := providertest.Reports(root)
	if err != nil {
		return "", err
	}
	boxed, err := providertest.ReportsIn(root, runnel.SandboxProject)
	if err != nil {
		return "", err
	}
	enclosed := func(r providertest.Report) (in providertest.Report, ok bool) {
		i := slices.IndexFunc(boxed, func(in providertest.Report) bool { return in.Agent == r.Agent && in.Version == r.Version })
		if i < 0 {
			return in, false
		}
		return boxed[i], true
	}
	for _, r := range slices.Concat(reports, boxed) {
		if i := slices.IndexFunc(r.Results, func(f providertest.Finding) bool { return means(f.Test) == "" }); i >= 0 {
			return "", fmt.Errorf("%s: the page does not know the test %q", r.Agent, r.Results[i].Test)
		}
	}
	var b strings.Builder
	b.WriteString("# What works with which agent\n\n<!-- Made by `make docs` from provider/*/testdata/conformance and provider/providertest/differences.go. Do not edit. -->\n\n" +
		"This page lists the results of one test suite that runs with every agent: the real program, in the stated version, against a scripted model.\n" +
		"Each **no** links to its reason: a limitation of the agent, or of Runnel. In the lists of differences, `only live` marks what only the live\n" +
		"session showed, and `only stored` what only the agent's history has. The same suite also runs in `sandbox: project` (see [Sandbox](configuration.md#sandbox)),\n" +
		"in which some agents refuse to start.\n")
	for _, group := range groups(reports) {
		matrix(&b, group, enclosed)
	}
	for _, r := range reports {
		section(&b, r)
		if in, ok := enclosed(r); ok {
			list(&b, "In `sandbox: project`:", inSandbox(r, in))
		}
	}
	return b.String(), nil
}

func means(test string) string {
	for _, m := range meanings {
		if m.test == test {
			return m.means
		}
	}
	return ""
}

// groups splits the reports into tables of at most six agents.
func groups(reports []providertest.Report) [][]providertest.Report {
	return slices.Collect(slices.Chunk(reports, 6))
}

func matrix(b *strings.Builder, reports []providertest.Report, enclosed func(providertest.Report) (providertest.Report, bool)) {
	b.WriteString("\n| |")
	for _, r := range reports {
		fmt.Fprintf(b, " %s |", strings.TrimSpace(r.Name+" "+r.Version))
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(reports)) + "\n")
	for _, m := range meanings {
		row, known := "| "+m.means+" |", false
		for _, r := range reports {
			i := slices.IndexFunc(r.Results, func(f providertest.Finding) bool { return f.Test == m.test })
			known = known || i >= 0
			row += " " + mark(r, i) + " |"
		}
		if known {
			b.WriteString(row + "\n")
		}
	}
	b.WriteString("| the same results in `sandbox: project` |")
	for _, r := range reports {
		switch in, ok := enclosed(r); {
		case !ok:
			b.WriteString(" refused |")
		case len(changed(r, in)) > 0:
			fmt.Fprintf(b, " [no](#%s) |", anchor(r))
		default:
			b.WriteString(" yes |")
		}
	}
	b.WriteString("\n")
}

// changed returns the results of r that differ in a sandbox, as in has them.
func changed(r, in providertest.Report) (out []providertest.Finding) {
	for _, f := range in.Results {
		if !slices.Contains(r.Results, f) {
			out = append(out, f)
		}
	}
	return out
}

// inSandbox returns one line for each test whose result differs in a sandbox.
func inSandbox(r, in providertest.Report) (lines []string) {
	for _, f := range changed(r, in) {
		lines = append(lines, fmt.Sprintf("- %s: %s\n", means(f.Test), cmp.Or(f.Why, "works")))
	}
	if lines == nil {
		lines = []string{"- All tests have the same results.\n"}
	}
	for _, n := range in.Notes {
		if !slices.Contains(r.Notes, n) {
			lines = append(lines, "- "+n+"\n")
		}
	}
	return lines
}

func mark(r providertest.Report, i int) string {
	switch {
	case i < 0:
		return ""
	case r.Results[i].Works:
		return "yes"
	}
	return fmt.Sprintf("[no](#%s)", anchor(r))
}

func anchor(r providertest.Report) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-':
			return c
		case c == ' ':
			return '-'
		}
		return -1
	}, strings.ToLower(title(r)))
}

func title(r providertest.Report) string { return strings.TrimSpace(r.Name + " " + r.Version) }

func section(b *strings.Builder, r providertest.Report) {
	fmt.Fprintf(b, "\n## %s\n\n`cliType`: `%s`\n", title(r), r.Agent)
	var theirs, ours []string
	for _, f := range r.Results {
		line := fmt.Sprintf("- %s: %s\n", means(f.Test), f.Why)
		switch {
		case f.Works:
		case f.Ours:
			ours = append(ours, line)
		default:
			theirs = append(theirs, line)
		}
	}
	list(b, "Limitations of the agent:", theirs)
	list(b, "Limitations of Runnel with this agent:", ours)
	notes := make([]string, len(r.Notes))
	for i, n := range r.Notes {
		notes[i] = "- " + n + "\n"
	}
	list(b, "Notes:", notes)
	if len(theirs)+len(ours)+len(notes) == 0 {
		b.WriteString("\nNo limitations: all tests pass.\n")
	}
	list(b, "Differences between the agent's own history and the live session, each with the recordings that show it:", differences(r))
}

// differences returns one line for each reason why an agent's history differs.
func differences(r providertest.Report) (lines []string) {
	facts := make(map[string][]string) // by reason
	var reasons []string
	for _, d := range providertest.Differences {
		if d.Agent != r.Agent || d.Version != "" && d.Version != r.Version {
			continue
		}
		if facts[d.Why] == nil {
			reasons = append(reasons, d.Why)
		}
		fact := "`" + d.Fact + "`"
		if d.Recording != "*" {
			fact = d.Recording + " " + fact
		}
		facts[d.Why] = append(facts[d.Why], fact)
	}
	for _, why := range reasons {
		lines = append(lines, fmt.Sprintf("- %s %s\n", why, strings.Join(facts[why], ", ")))
	}
	return lines
}

func list(b *strings.Builder, head string, lines []string) {
	if len(lines) > 0 {
		b.WriteString("\n" + head + "\n\n" + strings.Join(lines, ""))
	}
}
