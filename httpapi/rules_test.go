package httpapi

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/httpapi/command"
	"github.com/runnel-dev/runnel/httpapi/stream"
)

// asks is a prompt with which the script agent asks to run a command.
func asks(command string) string {
	args, _ := json.Marshal(map[string]string{"command": command})
	return fmt.Sprintf(`{"steps":[{"tool":{"name":"Bash","kind":"execute","title":%q,"arguments":%s,"output":"ok","ask":{}}}]}`, command, args)
}

// asked prompts the agent to ask, and returns the approval.
func (rg *rig) asked(id, command string) event.Approval {
	rg.t.Helper()
	turn := rg.prompt(id, asks(command))
	return rg.until(id, func(ev event.Event) bool { return ev.Turn == turn && is[event.ApprovalRequested](ev) }).Body.(event.ApprovalRequested).Approval
}

func (rg *rig) addRule(body string, status int) command.Rule {
	rg.t.Helper()
	return call[ruleAnswer](rg, "POST", "/api/rules", body, status).Rule
}

func TestRulesAreMadeListedAndRemoved(t *testing.T) {
	rg := newRig(t)
	rule := rg.addRule(`{"effect":"allow","kind":"execute","pattern":" git   log  *","note":"read only"}`, 201)
	if rule.ID != 1 || rule.Pattern != "git log *" || rule.By == "" || rule.Note != "read only" || rule.LastUsedAt != nil {
		t.Errorf("made %+v", rule)
	}
	if again := rg.addRule(`{"effect":"allow","kind":"execute","pattern":"git log *"}`, 201); again.ID != 1 {
		t.Errorf("the same rule is made twice: %+v", again)
	}
	id := rg.create()
	turn := rg.prompt(id, asks("git log -p"))
	evs := rg.events(id, turn)
	resolved := ""
	for _, ev := range evs {
		if b, ok := ev.Body.(event.ApprovalResolved); ok {
			resolved = fmt.Sprintf("%s %s %s", b.Choice, b.By, b.Reason)
			if body, _ := json.Marshal(b); !strings.Contains(string(body), `"rule":1`) {
				t.Errorf("the event names no rule: %s", body)
			}
		}
	}
	if want := "allow policy allowed by rule 1, made by " + rule.By + " on 20"; !strings.HasPrefix(resolved, want) {
		t.Errorf("resolved as %q, want %q", resolved, want)
	}
	list := call[rulesAnswer](rg, "GET", "/api/rules", "", 200).Rules
	if len(list) != 1 || list[0].Uses != 1 || list[0].LastUsedAt == nil {
		t.Errorf("listed %+v", list)
	}
	call[any](rg, "DELETE", "/api/rules/1", "", 200)
	for _, none := range []string{"1", "0", "-1", "x", "99999999999999999999"} {
		rg.wantError("DELETE", "/api/rules/"+none, "", 404, runnel.InvalidRequest)
	}
	if list := call[rulesAnswer](rg, "GET", "/api/rules", "", 200).Rules; len(list) != 0 {
		t.Errorf("listed %+v", list)
	}
}

func TestRulesThatNobodyShouldRelyOnAreRefused(t *testing.T) {
	rg := newRig(t)
	for body, why := range map[string]string{
		`{"effect":"allow","kind":"execute","pattern":"git status; rm -rf ~"}`:      "not one simple command",
		`{"effect":"allow","kind":"execute","pattern":"sudo *"}`:                    "sudo runs the commands",
		`{"effect":"allow","kind":"execute","pattern":"git -c x=y *"}`:              "name the subcommand first",
		`{"effect":"allow","kind":"tool","tool":"Bash"}`:                            "cannot be allowed as a whole",
		`{"effect":"allow","kind":"edit","pattern":"src"}`:                          "absolute",
		`{"effect":"perhaps","kind":"tool","tool":"x"}`:                             "effect",
		`{"effect":"allow","kind":"everything"}`:                                    "kind",
		`{"effect":"allow","kind":"execute","pattern":"ls","projectDir":"/p/../x"}`: "projectDir",
		`{"effect":"allow","kind":"execute","pattern":"ls","uses":5}`:               "uses",
	} {
		if msg := rg.wantError("POST", "/api/rules", body, 400, runnel.InvalidRequest); !strings.Contains(msg, why) {
			t.Errorf("%s: %q, want %q", body, msg, why)
		}
	}
}

func TestADecisionBecomesARule(t *testing.T) {
	rg := newRig(t)
	id := rg.create()
	a := rg.asked(id, "git status")
	path := "/api/session/" + id + "/approvals/" + url.PathEscape(a.ID)
	open := call[command.ApprovalAnswer](rg, "GET", path, "", 200)
	if open.Approval.ID != a.ID || len(open.SuggestedRules) != 1 || open.SuggestedRules[0].Pattern != "git status" {
		t.Fatalf("got %+v", open)
	}
	remember, _ := json.Marshal(open.SuggestedRules[0])
	body := fmt.Sprintf(`{"choice":"allow","argumentsDigest":%q,"remember":%s}`, a.ArgumentsDigest, remember)
	wrong := strings.Replace(body, "git status", "git push", 1)
	if msg := rg.wantError("POST", path, wrong, 400, runnel.InvalidRequest); !strings.Contains(msg, "would not decide") {
		t.Error(msg)
	}
	made := call[command.DecideAnswer](rg, "POST", path, body, 200)
	if made.Rule == nil || made.Rule.Pattern != "git status" || made.Rule.ProjectDir == "" || made.Rule.CLIType != "script" {
		t.Fatalf("made %+v", made.Rule)
	}
	rg.wantError("GET", path, "", 409, runnel.ApprovalGone)
	rg.wantError("POST", path, body, 409, runnel.ApprovalGone)
	rg.until(id, func(ev event.Event) bool { return event.Ends(ev.Body) })
	turn := rg.prompt(id, asks("git status"))
	for _, ev := range rg.events(id, turn) {
		if b, ok := ev.Body.(event.ApprovalResolved); ok && ev.Turn == turn && b.By != event.ByPolicy {
			t.Errorf("resolved by %s, want policy", b.By)
		}
	}
	// A person decides about a call that the rule does not match.
	b := rg.asked(id, "git status; rm -rf ~")
	call[command.DecideAnswer](rg, "POST", "/api/session/"+id+"/approvals/"+url.PathEscape(b.ID), `{"choice":"deny"}`, 200)
}

// The event of a decision that was remembered contains the number of the rule
// that was stored with it. A remembered decision that comes too late stores no
// rule.
func TestEventOfARememberedDecisionNamesTheStoredRule(t *testing.T) {
	rg := newRig(t)
	rg.addRule(`{"effect":"deny","kind":"tool","tool":"other"}`, 201)
	id := rg.create()
	a := rg.asked(id, "git status")
	path := "/api/session/" + id + "/approvals/" + url.PathEscape(a.ID)
	body := fmt.Sprintf(`{"choice":"allow","argumentsDigest":%q,"remember":{"kind":"execute","pattern":"git status"}}`, a.ArgumentsDigest)
	made := call[command.DecideAnswer](rg, "POST", path, body, 200)
	ev := rg.until(id, is[event.ApprovalResolved])
	if got, _ := json.Marshal(ev.Body); made.Rule == nil || made.Rule.ID != 2 || !strings.Contains(string(got), `"by":"user","rule":2}`) {
		t.Errorf("made %+v, and the event is %s", made.Rule, got)
	}
	if md := rg.do("GET", "/api/session/"+id+"/export?format=md", ""); !strings.Contains(md.Body.String(), "Answered: allow, stored as rule 2") {
		t.Errorf("the transcript does not name the rule: %s", md.Body)
	}
	if list := call[rulesAnswer](rg, "GET", "/api/rules", "", 200).Rules; len(list) != 2 || list[1].Uses != 0 {
		t.Errorf("the rule decided nothing yet: %+v", list)
	}
	rg.wantError("POST", path, strings.Replace(body, "git status", "git *", 1), 409, runnel.ApprovalGone)
	if list := call[rulesAnswer](rg, "GET", "/api/rules", "", 200).Rules; len(list) != 2 {
		t.Errorf("an answer that came too late made a rule: %+v", list)
	}
}

func TestRulesNeedTheScopeApprove(t *testing.T) {
	rg := newRig(t)
	rg.addRule(`{"effect":"deny","kind":"execute","pattern":"rm *"}`, 201)
	rg.token = rg.mint(auth.Read, auth.Send)
	rg.wantError("POST", "/api/rules", `{"effect":"allow","kind":"execute","pattern":"git status"}`, 403, runnel.Forbidden)
	rg.wantError("DELETE", "/api/rules/1", "", 403, runnel.Forbidden)
	if list := call[rulesAnswer](rg, "GET", "/api/rules", "", 200).Rules; len(list) != 1 {
		t.Errorf("listed %+v", list)
	}
}

// A credential of one project knows and makes only rules of its folders.
func TestRulesOfABoundCredential(t *testing.T) {
	rg := newRig(t)
	mine, theirs := t.TempDir(), t.TempDir()
	if err := os.Symlink(theirs, filepath.Join(mine, "away")); err != nil {
		t.Fatal(err)
	}
	rule := func(dir string) string {
		return fmt.Sprintf(`{"effect":"allow","kind":"execute","pattern":"git status","projectDir":%q}`, dir)
	}
	rg.addRule(rule(""), 201)
	rg.addRule(rule(theirs), 201)
	rg.dir = mine
	id := rg.create()
	a := rg.asked(id, "git diff") // before the token: it sees this session
	rg.token = rg.bind(mine, "read", "send", "approve")
	if list := call[rulesAnswer](rg, "GET", "/api/rules", "", 200).Rules; len(list) != 0 {
		t.Errorf("it sees %+v", list)
	}
	own := rg.addRule(`{"effect":"allow","kind":"execute","pattern":"git log"}`, 201)
	if own.ProjectDir == "" || own.ProjectDir == theirs {
		t.Errorf("its rule is for %q", own.ProjectDir)
	}
	rg.addRule(rule(filepath.Join(mine, "below")), 201)
	for _, dir := range []string{theirs, filepath.Dir(mine), filepath.Join(mine, "away"), "/"} {
		rg.wantError("POST", "/api/rules", rule(dir), 403, runnel.Forbidden)
	}
	rg.wantError("DELETE", "/api/rules/1", "", 404, runnel.InvalidRequest)
	rg.wantError("DELETE", "/api/rules/2", "", 404, runnel.InvalidRequest)
	path := "/api/session/" + id + "/approvals/" + url.PathEscape(a.ID)
	body := `{"choice":"allow","argumentsDigest":"` + a.ArgumentsDigest + `","remember":{"kind":"execute","pattern":"git diff","projectDir":%q}}`
	rg.wantError("POST", path, fmt.Sprintf(body, filepath.Dir(own.ProjectDir)), 403, runnel.Forbidden)
	made := call[command.DecideAnswer](rg, "POST", path, fmt.Sprintf(body, ""), 200)
	if made.Rule == nil || made.Rule.ProjectDir != own.ProjectDir {
		t.Errorf("made %+v", made.Rule)
	}
	if list := call[rulesAnswer](rg, "GET", "/api/rules", "", 200).Rules; len(list) != 3 {
		t.Errorf("it sees %+v", list)
	}
}

func TestExplainSaysWhichRuleDecidesACall(t *testing.T) {
	rg := newRig(t)
	dir := t.TempDir()
	rg.addRule(`{"effect":"deny","kind":"execute","pattern":"rm *"}`, 201)
	rg.addRule(`{"effect":"allow","kind":"execute","pattern":"git status","cliType":"script"}`, 201)
	rg.token = rg.mint(auth.Read)
	explain := func(cliType, text string) string {
		args, _ := json.Marshal(map[string]string{"command": text})
		a := call[command.ExplainAnswer](rg, "POST", "/api/rules/explain", fmt.Sprintf(`{"cliType":%q,"projectDir":%q,"tool":"Bash","arguments":%s}`, cliType, dir, args), 200)
		var gates []string
		for _, g := range a.Gates {
			if g.Decides {
				gates = append(gates, string(g.Gate))
			}
		}
		out := fmt.Sprintf("%s at %s by %d", a.Decision, strings.Join(gates, " and "), a.Rule)
		for _, r := range a.Rules {
			out += fmt.Sprintf("; %d %s: %s", r.ID, r.Match, r.Reason)
		}
		if a.Partial || a.Reason == "" || len(a.Gates) != 6 {
			t.Errorf("got %+v", a)
		}
		return out
	}
	for _, tc := range []struct{ cliType, command, want string }{
		{"script", "git status", "allow at allow_rules by 2; 1 no: no command of the call matches the rule; 2 yes: matches, and decides"},
		{"script", "git status | cat", "ask at person by 0; 1 no: no command of the call matches the rule; " +
			"2 no: the command has a pipe; a rule that allows matches one simple command of literal words"},
		{"script", "git status; rm x", "deny at deny_rules by 1; 1 yes: matches, and decides; " +
			"2 no: the command has several commands; a rule that allows matches one simple command of literal words"},
	} {
		if got := explain(tc.cliType, tc.command); got != tc.want {
			t.Errorf("%s %q:\n%s, want\n%s", tc.cliType, tc.command, got, tc.want)
		}
	}
	if list := call[rulesAnswer](rg, "GET", "/api/rules", "", 200).Rules; list[0].Uses != 0 || list[1].Uses != 0 {
		t.Errorf("an explanation counts as a use: %+v", list)
	}
	for body, why := range map[string]string{
		`{"projectDir":"/","tool":"Bash"}`:                                      "cliType: is missing",
		`{"cliType":"script","tool":"Bash"}`:                                    "projectDir",
		`{"cliType":"script","projectDir":"/","tool":"Bash","arguments":[]}`:    "want a JSON object",
		`{"cliType":"script","projectDir":"/","tool":"Bash","command":"x"}`:     "command",
		`{"cliType":"script","projectDir":"/","tool":"B\u001b","arguments":{}}`: "printable",
	} {
		if msg := rg.wantError("POST", "/api/rules/explain", body, 400, runnel.InvalidRequest); !strings.Contains(msg, why) {
			t.Errorf("%s: %q, want %q", body, msg, why)
		}
	}
	rg.wantError("POST", "/api/rules/explain", `{"cliType":"nobody","projectDir":"/","tool":"Bash"}`, 400, runnel.UnsupportedCLIType)
}

// A credential of one project reads nothing about rules and files elsewhere.
func TestExplainForABoundCredential(t *testing.T) {
	rg := newRig(t)
	mine, theirs := t.TempDir(), t.TempDir()
	if err := os.Symlink(theirs, filepath.Join(mine, "away")); err != nil {
		t.Fatal(err)
	}
	rg.addRule(`{"effect":"deny","kind":"execute","pattern":"git *"}`, 201)
	rg.addRule(fmt.Sprintf(`{"effect":"allow","kind":"edit","pattern":%q,"projectDir":%q}`, mine, mine), 201)
	rg.token = rg.bind(mine, "read")
	ask := func(dir, tool, args string) string {
		return fmt.Sprintf(`{"cliType":"script","projectDir":%q,"tool":%q,"arguments":%s}`, dir, tool, args)
	}
	explain := func(body string) command.ExplainAnswer {
		return call[command.ExplainAnswer](rg, "POST", "/api/rules/explain", body, 200)
	}
	if a := explain(ask("", "Bash", `{"command":"git status"}`)); a.Decision != "ask" || !a.Partial || len(a.Rules) != 1 || a.Rules[0].ID != 2 {
		t.Errorf("it reads of %+v", a)
	}
	file := func(path string) string { return fmt.Sprintf(`{"file_path":%q}`, path) }
	if a := explain(ask(mine, "Write", file(filepath.Join(mine, "x")))); a.Decision != "allow" || a.Rule != 2 {
		t.Errorf("got %+v", a)
	}
	for _, body := range []string{
		ask(theirs, "Bash", "{}"), ask(filepath.Dir(mine), "Bash", "{}"), ask(filepath.Join(mine, "away"), "Bash", "{}"), ask(mine+"/../x", "Bash", "{}"),
		ask(mine, "Write", file(filepath.Join(theirs, "x"))), ask(mine, "Write", file("../x")), ask(mine, "Grep", `{"path":"/etc/passwd/x"}`),
		ask(mine, "Bash", `{"command":"ls","cwd":"/"}`),
	} {
		rg.wantError("POST", "/api/rules/explain", body, 403, runnel.Forbidden)
	}
	rg.token = rg.mint(auth.Send)
	rg.wantError("POST", "/api/rules/explain", ask(mine, "Bash", "{}"), 403, runnel.Forbidden)
}

// wantError does a request that must be rejected, and returns the message.
func (rg *rig) wantError(method, target, body string, status int, want runnel.Code) string {
	rg.t.Helper()
	w := rg.do(method, target, body)
	if w.Code != status || code(w) != string(want) {
		rg.t.Errorf("%s %s %s: got %d %s, want %d %s", method, target, body, w.Code, w.Body, status, want)
	}
	var b struct{ Error struct{ Message string } }
	_ = json.Unmarshal(w.Body.Bytes(), &b)
	return b.Error.Message
}

// The WebSocket remembers a decision as HTTP does.
func TestADecisionOnTheWebSocketBecomesARule(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	a := s.asked(id, "git status")
	p := s.join(stream.FamilyUpsert)
	decide := func(remember string) frame {
		p.send(`{"type":"session:decide","requestId":"d","sessionId":%q,"approvalId":%q,"choice":"allow","argumentsDigest":%q,"remember":%s}`, id, a.ID, a.ArgumentsDigest, remember)
		return p.await("response", "error")
	}
	if f := decide(`{"kind":"execute","pattern":"git *"}`); f.Type != "error" || !strings.Contains(f.Error.Message, "name the subcommand first") {
		t.Errorf("got %+v", f)
	}
	if f := decide(`{"kind":"execute","pattern":"git status"}`); f.Type != "response" {
		t.Errorf("got %+v", f.Error)
	}
	if list := call[rulesAnswer](s.rig, "GET", "/api/rules", "", 200).Rules; len(list) != 1 || list[0].Pattern != "git status" {
		t.Errorf("listed %+v", list)
	}
	_ = p.conn.CloseNow()
}
