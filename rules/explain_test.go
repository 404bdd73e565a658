package rules

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// matches returns [Matches], and checks that the explanation agrees.
func matches(t *testing.T, r store.Rule, c Call) bool {
	t.Helper()
	agrees(t, []store.Rule{r}, c)
	return Matches(r, c)
}

// judged returns the result of [Set.Denies] for a list of rules, and checks
// that the explanation agrees.
func judged(t *testing.T, list []store.Rule, c Call) (denied, ask bool) {
	t.Helper()
	agrees(t, list, c)
	_, denied, ask = NewSet(list).Denies(c)
	return denied, ask
}

// agrees fails the test unless the explanation of a call has the outcome and
// the rule of [Set.Denies] and then [Set.Allows], and its gates and rules agree
// with them.
func agrees(t interface {
	Helper()
	Errorf(format string, args ...any)
}, list []store.Rule, c Call) {
	t.Helper()
	set, want, rule := NewSet(list), OutcomeAsk, store.Rule{}
	if r, denied, ask := set.Denies(c); denied {
		want, rule = OutcomeDeny, r
	} else if r, allowed := set.Allows(c); allowed && !ask {
		want, rule = OutcomeAllow, r
	}
	e := set.Explain(c)
	if e.Outcome != want || e.Rule != rule.ID || e.Reason == "" {
		t.Errorf("%s %s: explained as %s by rule %d (%s), and decided as %s by rule %d", c.Approval.ToolName, c.Approval.Arguments, e.Outcome, e.Rule, e.Reason, want, rule.ID)
	}
	decides := 0
	for _, g := range e.Gates {
		if g.Decides {
			decides++
		}
		if g.Reason == "" {
			t.Errorf("the gate %s has no reason", g.Name)
		}
	}
	if decides != 1 {
		t.Errorf("%d gates decide", decides)
	}
	for _, r := range e.Rules {
		alone := NewSet([]store.Rule{r.Rule})
		_, denied, ask := alone.Denies(c)
		_, allowed := alone.Allows(c)
		if got := map[bool]Match{true: MatchYes}[denied || allowed]; got != "" && r.Match != got || ask != (r.Match == MatchUnclear) || r.Reason == "" {
			t.Errorf("%s %s: rule %+v matches %q (%s)", c.Approval.ToolName, c.Approval.Arguments, r.Rule, r.Match, r.Reason)
		}
	}
}

// The reasons in this table complete a sentence whose subject is the rule or
// the call.
func TestExplanationSaysWhyARuleDoesNotMatch(t *testing.T) {
	dir := realDir(t)
	of := func(r store.Rule, change func(*store.Rule)) store.Rule { change(&r); return r }
	run := func(command string) Call { return call(dir, "Bash", args{"command": command}) }
	status, all := allow(store.RuleExecute, "git status"), allow(store.RuleExecute, "git log *")
	simple := "; a rule that allows matches one simple command of literal words"
	for _, tc := range []struct {
		rule  store.Rule
		call  Call
		match Match
		want  string
	}{
		{status, run("git status"), MatchYes, "matches, and decides"},
		{status, run("git diff"), MatchNo, "the command has other words than the rule"},
		{status, run("git status | cat"), MatchNo, "the command has a pipe" + simple},
		{status, run("git status |& cat"), MatchNo, "the command has a pipe" + simple},
		{status, run("git status && ls"), MatchNo, "the command has several commands" + simple},
		{status, run("git status; ls"), MatchNo, "the command has several commands" + simple},
		{status, run("git status;"), MatchNo, "the command has an operator such as ;, & or !" + simple},
		{status, run("git status &"), MatchNo, "the command has an operator such as ;, & or !" + simple},
		{status, run("git status > x"), MatchNo, "the command has a redirection" + simple},
		{status, run("> x"), MatchNo, "the command has a redirection" + simple},
		{status, run("A=b git status"), MatchNo, "the command sets a variable" + simple},
		{status, run("git status # x"), MatchNo, "the command has a comment" + simple},
		{status, run("# x"), MatchNo, "the command has a comment" + simple},
		{status, run("git $X"), MatchNo, "the command has a variable, a substitution, a glob or another word that shells may change" + simple},
		{status, run("git 'status"), MatchNo, "the command cannot be read as bash reads it" + simple},
		{status, run("git status\n"), MatchNo, "the command has a line end or another invisible character" + simple},
		{status, run("(git status)"), MatchNo, "the command is more than a command, such as a loop, a condition or a subshell" + simple},
		{status, run(" "), MatchNo, "the command is empty" + simple},
		{status, run(strings.Repeat("x", maxCommand+1)), MatchNo, "the command is longer than 16384 bytes"},
		{status, run(""), MatchNo, "the call names no command"},
		{status, call(dir, "Bash", args{"command": "git status", "dangerouslyDisableSandbox": true}), MatchNo, "the call has arguments that may ask for more than a rule covers"},
		{status, call(dir, "Bash", args{"command": "git [redacted]"}), MatchNo, "a part of the call is hidden, such as a secret"},
		{all, run("git log --output=x"), MatchNo, "the command has an option that may run another command or write to a file"},
		{allow(store.RuleExecute, "*"), run("ls"), MatchNo, "no rule allows every command"},
		{allow(store.RuleExecute, "git *"), run("ls"), MatchNo, "the command has other words than the rule"},
		{allow(store.RuleExecute, "git bundle *"), run("git bundle create x"), MatchNo, "no rule allows the command with any arguments: git bundle writes to any file that its arguments name"},
		{of(status, func(r *store.Rule) { r.CLIType = "other" }), run("git status"), MatchNo, "is for another agent"},
		{of(status, func(r *store.Rule) { r.ProjectDir = dir + "2" }), run("git status"), MatchNo, "is for another folder"},
		{of(status, func(r *store.Rule) { r.Tool = "shell" }), run("git status"), MatchNo, "is for another tool"},
		{of(status, func(r *store.Rule) { r.ProjectDir = dir }), call(dir, "shell", args{"command": "git status", "cwd": "/"}), MatchNo, "the command runs outside of the rule's folder"},
		{of(all, func(r *store.Rule) { r.ProjectDir = dir }), call(dir, "Read", args{"file_path": "/x"}), MatchNo, "is about another kind of call"},
		{allow(store.RuleEdit, dir), call(dir, "Write", args{"file_path": "/etc/x"}), MatchNo, "the call names a file outside of the rule's path, or one whose path cannot be resolved"},
		{allow(store.RuleEdit, dir), call(dir, "Write", args{"file_path": "x"}), MatchNo, "the call names a path that agents may resolve in different ways, such as a relative path"},
		{allow(store.RuleEdit, dir), call(dir, "Write", args{"content": "x"}), MatchNo, "the call names no file"},
		{allow(store.RuleFetch, "example.com"), call(dir, "WebFetch", args{"url": "https://example.org/"}), MatchNo, "the URL is of another host"},
		{allow(store.RuleFetch, "example.com"), call(dir, "WebFetch", args{"url": "https://x@example.com/"}), MatchNo, "the URL has no host that a rule can match"},
		{store.Rule{Effect: store.EffectAllow, Kind: store.RuleTool, Tool: "other"}, call(dir, "other", nil), MatchNo, "no rule allows this tool as a whole"},
		{allow(store.RuleExecute, "a; b"), run("a; b"), MatchNo, "this version of runnel cannot apply the rule"},
		{deny(store.RuleExecute, "rm *"), run("ls; rm x"), MatchYes, "matches, and decides"},
		{deny(store.RuleExecute, "rm *"), run("ls"), MatchNo, "no command of the call matches the rule"},
		{deny(store.RuleExecute, "rm *"), run("$X"), MatchUnclear, "the command cannot be read completely, and may run what the rule denies"},
		{deny(store.RuleExecute, "rm *"), call(dir, "Bash", args{"command": "ls '[redacted]'"}), MatchUnclear, "a part of the call is hidden, and may be what the rule denies"},
		{deny(store.RuleRead, "/etc"), call(dir, "Grep", args{"path": "/etc"}), MatchUnclear, "runnel does not know whether the tool edits or reads files, and the call names a path that the rule covers"},
		{deny(store.RuleRead, "/etc"), call(dir, "Read", args{"file_path": "/usr/x"}), MatchNo, "the call names no path that the rule covers"},
		{deny(store.RuleRead, "/etc"), call(dir, "Read", args{"file_path": "/usr/../etc"}), MatchUnclear, "a path of the call cannot be resolved, and may be one that the rule covers"},
	} {
		agrees(t, []store.Rule{tc.rule}, tc.call)
		e := NewSet([]store.Rule{tc.rule}).Explain(tc.call)
		if len(e.Rules) != 1 || e.Rules[0].Match != tc.match || e.Rules[0].Reason != tc.want {
			t.Errorf("%s %s: %+v, want %s, %q", tc.call.Approval.ToolName, tc.call.Approval.Arguments, e.Rules, tc.match, tc.want)
		}
	}
}

func TestExplanationLeavesOutRulesOfOtherCalls(t *testing.T) {
	for _, r := range []store.Rule{
		allow(store.RuleRead, "/p"), deny(store.RuleFetch, "example.com"), deny(store.RuleEdit, "/p"),
		{Effect: store.EffectAllow, Kind: store.RuleTool, Tool: "mcp__t__add"},
	} {
		if e := NewSet([]store.Rule{r}).Explain(call("/p", "Bash", args{"command": "ls"})); len(e.Rules) != 0 || e.Reason != "no rule decides the call" {
			t.Errorf("%+v: explained as %+v", r, e)
		}
	}
}

func TestExplanationSaysWhichOfTheMatchingRulesDecides(t *testing.T) {
	c := call("/p", "Bash", args{"command": "git status"})
	env, bare := call("/p", "Bash", args{"command": "env ls"}), allow(store.RuleExecute, "env ls")
	first, second, bar := allow(store.RuleExecute, "git status"), allow(store.RuleExecute, "git status *"), deny(store.RuleExecute, "git *")
	second.ID, bar.ID = 2, 3
	for _, tc := range []struct {
		list []store.Rule
		call Call
		want string
	}{
		{[]store.Rule{first, second}, c, "allow 1: 1 matches, and decides; 2 matches, but an older rule decides"},
		{[]store.Rule{first, bar}, c, "deny 3: 3 matches, and decides; 1 matches, but rules that deny come first"},
		{[]store.Rule{bare, deny(store.RuleExecute, "ls -a")}, env, "ask 0: 1 the command cannot be read completely, and may run what the rule denies; 1 matches, but rules that deny come first"},
	} {
		agrees(t, tc.list, tc.call)
		e := NewSet(tc.list).Explain(tc.call)
		var parts []string
		for _, r := range e.Rules {
			parts = append(parts, fmt.Sprintf("%d %s", r.Rule.ID, r.Reason))
		}
		if got := fmt.Sprintf("%s %d: %s", e.Outcome, e.Rule, strings.Join(parts, "; ")); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
	c.Approval.Kind = event.ApprovalQuestion
	if e := NewSet([]store.Rule{first}).Explain(c); e.Outcome != OutcomeAsk || e.Reason != "rules decide calls of tools only" || len(e.Rules) != 0 {
		t.Errorf("a question of the agent is explained as %+v", e)
	}
}

// TestExplanationAgreesWithTheDecision explains random calls under random sets
// of rules. Both are made from the texts of the other tests.
func TestExplanationAgreesWithTheDecision(t *testing.T) {
	dir := realDir(t)
	texts := append([]string{"git status", "env ls", "ls -a", "git log *", "git log -p", "rm *", "*", "ls; rm x", "$X", "/bin/sh -c 'rm x'", "example.com", dir, filepath.Join(dir, "a")}, notSimple...)
	tool := rapid.SampledFrom([]string{"", "Bash", "shell", "Write", "Read", "WebFetch", "mcp__t__add", "other"})
	key := rapid.SampledFrom([]string{"command", "file_path", "path", "url", "cwd", "other"})
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom(rapid.SliceOfN(rapid.SampledFrom(texts), 2, 2).Draw(t, "texts"))
		list := make([]store.Rule, rapid.IntRange(0, 4).Draw(t, "rules"))
		for i := range list {
			list[i] = store.Rule{
				ID:      int64(i + 1),
				Effect:  rapid.SampledFrom([]store.Effect{store.EffectAllow, store.EffectDeny, "perhaps"}).Draw(t, "effect"),
				Kind:    rapid.SampledFrom([]store.RuleKind{store.RuleExecute, store.RuleEdit, store.RuleRead, store.RuleFetch, store.RuleConnect, store.RuleTool, "all"}).Draw(t, "kind"),
				CLIType: rapid.SampledFrom([]string{"", "", "some", "other"}).Draw(t, "agent"), Tool: tool.Draw(t, "rule's tool"),
				ProjectDir: rapid.SampledFrom([]string{"", "", dir, dir + "2"}).Draw(t, "folder"), Pattern: text.Draw(t, "pattern"),
			}
		}
		given := args{}
		for range rapid.IntRange(0, 2).Draw(t, "arguments") {
			given[key.Draw(t, "key")] = text.Draw(t, "value")
		}
		c := call(dir, tool.Draw(t, "tool"), given)
		if rapid.IntRange(0, 9).Draw(t, "hidden") == 0 {
			c.Approval.ArgumentsDigest = ""
		}
		agrees(t, list, c)
	})
}

func TestCallsThatClientsDescribeAreBounded(t *testing.T) {
	dir := realDir(t)
	paths := func(n int) string {
		list := make([]map[string]string, n)
		for i := range list {
			list[i] = map[string]string{"path": fmt.Sprintf("/x/%d", i)}
		}
		raw, _ := json.Marshal(map[string]any{"changes": list})
		return string(raw)
	}
	for _, tc := range []struct{ cliType, dir, tool, arguments, want string }{
		{"claude", dir, "Bash", `{"command":"ls"}`, ""},
		{"claude", dir, "mcp__t__add", "", ""},
		{"claude", dir, "apply_patch", paths(20), ""},
		{"claude", dir, "apply_patch", paths(21), "arguments: name at most 20 files"},
		{"", dir, "Bash", "{}", "cliType: is missing"},
		{"claude", dir, "", "{}", "tool: is missing"},
		{"claude", dir, "Ba\x1bsh", "{}", "printable"},
		{"claude", dir, strings.Repeat("x", 201), "{}", "at most 200 bytes"},
		{strings.Repeat("x", 201), dir, "Bash", "{}", "at most 200 bytes"},
		{"claude", "", "Bash", "{}", "projectDir"},
		{"claude", "p", "Bash", "{}", "not an absolute path"},
		{"claude", dir + "/../x", "Bash", "{}", "cannot be resolved"},
		{"claude", dir, "Bash", "[]", "want a JSON object"},
		{"claude", dir, "Bash", "null", "want a JSON object"},
		{"claude", dir, "Bash", "{", "arguments: "},
		{"claude", dir, "Bash", `{"command":"ls","command":"rm"}`, "there twice"},
		{"claude", dir, "Bash", strings.Repeat(`{"a":`, 70) + "1" + strings.Repeat("}", 70), "nested deeper"},
		{"claude", dir, "Bash", `{"command":"` + strings.Repeat("x", 64<<10) + `"}`, "at most 65536 bytes"},
	} {
		c, err := NewCall(tc.cliType, tc.dir, tc.tool, json.RawMessage(tc.arguments))
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%.40s %.40q: %v, want %q", tc.tool, tc.arguments, err, tc.want)
		}
		if err == nil && isHidden(c.Approval) {
			t.Errorf("%s: the call counts as hidden", tc.tool)
		}
	}
}
