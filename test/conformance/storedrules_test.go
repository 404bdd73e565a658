//go:build unix

package conformance

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/rules"
	"github.com/runnel-dev/runnel/store"
)

var (
	_ = register(63, ruleMatches)
	_ = register(64, ruleChecks)
)

// Effects of a rule on a call.
const (
	ruleAllows = "allowed"
	ruleDenies = "denied"
	ruleAsks   = "a person is asked"
)

func ruleMatches() table {
	tab := table{
		name: "rule matches", title: "Rules: which calls they decide", file: "storedrules_test.go",
		intro: "One stored rule and one call of an agent in the folder `/`. A call that no rule decides is left to a person.",
		head:  []string{"rule", "call", "outcome"},
	}
	add := func(r store.Rule, tool string, arguments object, outcome string) {
		shown := string(r.Effect) + " " + string(r.Kind) + " `" + strings.TrimSpace(r.Tool+" "+r.Pattern) + "`"
		call := tool
		for _, key := range []string{"command", "file_path", "url"} {
			if value, ok := arguments[key].(string); ok {
				call += " " + code(value)
			}
		}
		for _, key := range []string{"dangerouslyDisableSandbox", "method"} {
			if _, ok := arguments[key]; ok {
				call += " with `" + key + "`"
			}
		}
		tab.rows = append(tab.rows, row{cells: []string{shown, call, outcome}, check: func(t *testing.T) {
			r, err := rules.Check(r)
			if err != nil {
				t.Fatal(err)
			}
			raw := encoded(t, arguments)
			sum := sha256.Sum256(raw)
			c := rules.Call{CLIType: "script", Dir: "/", Approval: event.Approval{
				ID: "a", Kind: event.ApprovalTool, ToolName: tool, Arguments: json.RawMessage(raw), ArgumentsDigest: hex.EncodeToString(sum[:]),
			}}
			set, got := rules.NewSet([]store.Rule{r}), ruleAsks
			if _, denied, _ := set.Denies(c); denied {
				got = ruleDenies
			} else if _, allowed := set.Allows(c); allowed {
				got = ruleAllows
			}
			equal(t, "outcome", got, outcome)
			explained := map[rules.Outcome]string{rules.OutcomeAllow: ruleAllows, rules.OutcomeDeny: ruleDenies, rules.OutcomeAsk: ruleAsks}
			equal(t, "explained", explained[set.Explain(c).Outcome], outcome)
			if r.Effect == store.EffectDeny && outcome == ruleAsks {
				_, _, ask := set.Denies(c)
				equal(t, "whatever else allows the call", ask, true)
			}
		}})
	}
	run := func(text string) object { return object{"command": text} }
	allow := func(pattern string) store.Rule {
		return store.Rule{Effect: store.EffectAllow, Kind: store.RuleExecute, Pattern: pattern}
	}
	deny := func(pattern string) store.Rule {
		return store.Rule{Effect: store.EffectDeny, Kind: store.RuleExecute, Pattern: pattern}
	}
	for _, text := range []string{"git status", "  git   status", `git "status"`, "'git' status"} {
		add(allow("git status"), "Bash", run(text), ruleAllows)
	}
	for _, text := range []string{
		"git status -s", "git", "/usr/bin/git status", // other words
		"git status; ls", "git status && ls", "git status || ls", "git status | cat", "git status & ls", "git status &", "git status\nls", // operators
		"git status $(ls)", "git status `ls`", "git status <(ls)", "git $X", "git ${X}", "git $((1))", // substitutions
		"git status > x", "git status >> x", "git status < x", "git status 2>&1", "git status <<< x", // redirections
		"X=1 git status", "X=1", "export X=1", // assignments
		"git stat*", "git stat?s", "git {status,log}", "git ~", "git status # x", "! git status", "time git status", `\git status`, "(git status)", "{ git status; }",
		"if true; then git status; fi", "git 'status", "git status \\",
	} {
		add(allow("git status"), "Bash", run(text), ruleAsks)
	}
	for text, outcome := range ordered(
		"git log", ruleAllows, "git log -p x", ruleAllows, "git logs", ruleAsks, "git log --output=x", ruleAsks, "git log -Oless", ruleAsks, "git log | sh", ruleAsks,
	) {
		add(allow("git log *"), "Bash", run(text), outcome)
	}
	for text, outcome := range ordered(
		"rm x", ruleDenies, "/bin/rm x", ruleDenies, `\rm x`, ruleDenies, "ls; rm x", ruleDenies, "ls && rm x", ruleDenies, "echo $(rm x)", ruleDenies, "echo `rm x`", ruleDenies,
		"X=1 rm x", ruleDenies, "sudo rm x", ruleDenies, "env A=1 rm x", ruleDenies, "ls | xargs rm", ruleDenies, "find . -exec rm {} \\;", ruleDenies, "sh -c 'rm x'", ruleDenies,
		"f() { rm x; }; f", ruleDenies, "cat <(rm x) > y", ruleDenies, "$RM x", ruleAsks, "{rm,x}", ruleAsks, "sh -c \"$X\"", ruleAsks, "echo 'a", ruleAsks,
	) {
		add(deny("rm *"), "Bash", run(text), outcome)
	}
	add(allow("git status"), "Bash", object{"command": "git status", "dangerouslyDisableSandbox": true}, ruleAsks)
	add(allow("git status"), "Terminal", run("git status"), ruleAsks)
	add(allow("git status"), "mcp__x__bash", run("git status"), ruleAsks)
	file := func(path string) object { return object{"file_path": path} }
	for _, kind := range []struct {
		kind store.RuleKind
		tool string
	}{{store.RuleEdit, "Write"}, {store.RuleRead, "Read"}} {
		r := store.Rule{Effect: store.EffectAllow, Kind: kind.kind, Pattern: "/usr/bin"}
		add(r, kind.tool, file("/usr/bin/x"), ruleAllows)
		add(r, kind.tool, file("/usr/bin2"), ruleAsks)
		add(r, kind.tool, file("/usr/bin/../x"), ruleAsks)
		add(r, kind.tool, file("bin/x"), ruleAsks)
		add(r, kind.tool, file("~/x"), ruleAsks)
		r.Effect = store.EffectDeny
		add(r, kind.tool, file("/usr/bin/x"), ruleDenies)
		add(r, "Unknown", file("/usr/bin/x"), ruleAsks)
	}
	for url, outcome := range ordered(
		"https://example.com/x", ruleAllows, "HTTPS://EXAMPLE.com:443/", ruleAllows, "https://a.example.com/", ruleAsks, "https://example.com.evil/", ruleAsks,
		"https://example.com@evil/", ruleAsks, "https://example.com:8443/", ruleAsks, "file://example.com/x", ruleAsks,
	) {
		add(store.Rule{Effect: store.EffectAllow, Kind: store.RuleFetch, Pattern: "example.com"}, "WebFetch", object{"url": url}, outcome)
	}
	below := store.Rule{Effect: store.EffectAllow, Kind: store.RuleFetch, Pattern: "*.example.com"}
	add(below, "WebFetch", object{"url": "https://a.b.example.com/"}, ruleAllows)
	add(below, "WebFetch", object{"url": "https://example.com/"}, ruleAsks)
	add(below, "WebFetch", object{"url": "https://a.example.com/", "method": "POST"}, ruleAsks)
	tool := store.Rule{Effect: store.EffectAllow, Kind: store.RuleTool, Tool: "mcp__tickets__list"}
	add(tool, "mcp__tickets__list", object{"any": 1}, ruleAllows)
	add(tool, "mcp__tickets__lists", object{"any": 1}, ruleAsks)
	tool = store.Rule{Effect: store.EffectDeny, Kind: store.RuleTool, Tool: "Bash"}
	add(tool, "Bash", run("ls"), ruleDenies)
	return with(tab,
		row{cells: []string{"any", "a path through a link", "judged after the link is resolved"}, test: "rules.TestPathsMatchAfterLinksAreResolved"},
		row{cells: []string{"any", "a call of which a secret was taken out", ruleAsks}, test: "gateway.TestRuleAllowsNothingThatIsTakenOutAsASecret"},
		row{cells: []string{"of another agent, or of another folder", "any", ruleAsks}, test: "rules.TestAllowRulesMatchOnlyWhatTheyUnderstand"},
		row{cells: []string{"any", "a question or a form", ruleAsks}, test: "rules.TestAllowRulesMatchOnlyWhatTheyUnderstand"},
	)
}

// code returns a text in Markdown that displays it unchanged.
func code(text string) string {
	text = strings.ReplaceAll(text, "\n", `\n`)
	if strings.Contains(text, "`") {
		return "`` " + text + " ``"
	}
	return "`" + text + "`"
}

// ordered iterates over the pairs in order.
func ordered(pairs ...string) func(yield func(first, second string) bool) {
	return func(yield func(first, second string) bool) {
		for i := 0; i+1 < len(pairs); i += 2 {
			if !yield(pairs[i], pairs[i+1]) {
				return
			}
		}
	}
}

func ruleChecks() table {
	tab := table{
		name: "stored rules", title: "Rules: what can be stored", file: "storedrules_test.go",
		intro: "Rules that nobody should rely on are refused when they are made, with 400 `INVALID_REQUEST` over HTTP.",
		head:  []string{"rule", "stored as, or the error"},
	}
	add := func(r store.Rule, stored, message string) {
		cells := []string{string(r.Effect) + " " + string(r.Kind) + " `" + strings.TrimSpace(r.Tool+" "+r.Pattern) + "`", "`" + stored + "`"}
		if message != "" {
			cells[1] = "error: …" + message + "…"
		}
		tab.rows = append(tab.rows, row{cells: cells, check: func(t *testing.T) {
			got, err := rules.Check(r)
			switch {
			case message != "" && (err == nil || !strings.Contains(err.Error(), message)):
				t.Errorf("got %v", err)
			case message == "" && (err != nil || got.Pattern != stored):
				t.Errorf("got %q, %v", got.Pattern, err)
			}
		}})
	}
	one := func(effect store.Effect, kind store.RuleKind, pattern string) store.Rule {
		return store.Rule{Effect: effect, Kind: kind, Pattern: pattern}
	}
	add(one("allow", "execute", " git   status "), "git status", "")
	add(one("allow", "execute", "git log *"), "git log *", "")
	add(one("allow", "execute", "git status; rm x"), "", "not one simple command")
	add(one("allow", "execute", "*"), "", "every command")
	add(one("allow", "execute", "git *"), "", "name the subcommand first")
	add(one("allow", "execute", "sudo ls *"), "", "sudo runs")
	add(one("allow", "execute", "sh -c *"), "", "sh runs")
	add(one("allow", "execute", "curl *"), "", "curl writes")
	add(one("deny", "execute", "*"), "*", "")
	add(one("deny", "execute", "sudo *"), "sudo *", "")
	add(one("allow", "edit", "relative"), "", "is not an absolute path")
	add(one("allow", "edit", "/usr/../x"), "", "without ..")
	add(one("allow", "fetch", "Example.COM"), "example.com", "")
	add(one("allow", "fetch", "*.com"), "", "is not a host")
	add(one("allow", "fetch", "https://example.com"), "", "is not a host")
	add(one("allow", "connect", "Example.COM:8443"), "example.com:8443", "")
	add(one("allow", "connect", "*.com"), "", "is not a host")
	add(one("allow", "connect", "example.com:0"), "", "the port must be a number from 1 to 65535")
	add(store.Rule{Effect: "allow", Kind: "tool", Tool: "Bash"}, "", "cannot be allowed as a whole; make a rule of kind execute")
	add(store.Rule{Effect: "allow", Kind: "tool", Tool: "request_permissions"}, "", "gives the agent more permissions")
	add(store.Rule{Effect: "allow", Kind: "tool", Tool: "other"}, "", "stands for several tools")
	add(store.Rule{Effect: "allow", Kind: "tool"}, "", "tool: is missing")
	add(one("maybe", "execute", "ls"), "", "want allow or deny")
	add(one("allow", "all", "ls"), "", "want execute, edit, read, fetch, connect, tool, sandbox_read or sandbox_write")
	made := store.Rule{ID: 7, Effect: "deny", Kind: "execute", Pattern: "rm *", ByName: "laptop", CreatedAt: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	const explained = "denied by rule 7, made by laptop on 2026-03-01"
	return with(tab,
		row{cells: []string{"the reason that people and the agent read", explained}, check: func(t *testing.T) { equal(t, "reason", rules.Explain(made), explained) }},
		row{cells: []string{"a rule that decides the same as another", "the other one, over HTTP"}, test: "httpapi.TestRulesAreMadeListedAndRemoved"},
		row{cells: []string{"more than 1,000 rules", "error: RATE_LIMITED, over HTTP"}, test: "gateway.TestThereAreOnlySoManyRules"},
		row{cells: []string{"a rule that is removed", "decides nothing any more, and a second removal gets 404"}, test: "httpapi.TestRulesAreMadeListedAndRemoved"},
	)
}
