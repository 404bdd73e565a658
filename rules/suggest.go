package rules

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// Suggest returns rules that would allow similar calls in this project from now
// on, the narrowest first. It returns none if no rule can express that.
func Suggest(c Call) []store.Rule {
	if c.Approval.Kind != event.ApprovalTool {
		return nil
	}
	a := actionOf(c)
	r := store.Rule{Effect: store.EffectAllow, Kind: a.kind, CLIType: c.CLIType, ProjectDir: c.project()}
	var list []store.Rule
	add := func(pattern string) {
		r.Pattern = pattern
		if checked, err := Check(r); err == nil && Matches(checked, c) && !slices.Contains(list, checked) {
			list = append(list, checked)
		}
	}
	switch a.kind {
	case store.RuleExecute:
		words, err := a.simpleCommand()
		if err != nil {
			return nil
		}
		add(commandPattern{words: words}.String())
		if hasSubcommands(words[0]) && len(words) > 2 { // the subcommand says what the command does
			add(commandPattern{words[:2], true}.String())
		}
	case store.RuleEdit, store.RuleRead:
		if len(a.paths) == 1 {
			if l := a.locate(a.paths[0]); l.err == nil {
				add(cmp.Or(l.original, l.real))
			}
		}
		add(c.project())
	case store.RuleFetch:
		host, err := hostOf(a.url)
		if err != nil {
			return nil
		}
		add(host)
	case store.RuleConnect:
		add(net.JoinHostPort(a.host, strconv.Itoa(a.port)))
	case store.RuleTool:
		r.Tool = a.tool
		add("")
	}
	return list
}

func hasSubcommands(command string) bool {
	return hostCommands[command] != nil || readCommands[command] != nil
}

// Describe returns a short text about a rule that uses the verb of its kind,
// such as "run git status".
func Describe(r store.Rule) string {
	what := map[store.RuleKind]string{
		store.RuleExecute: "run", store.RuleEdit: "change files in", store.RuleRead: "read files in", store.RuleFetch: "fetch from", store.RuleConnect: "reach", store.RuleTool: "use",
	}[r.Kind]
	return strings.TrimSpace(what + " " + strings.TrimSpace(r.Tool+" "+r.Pattern))
}
