//go:build unix

package conformance

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/profile"
)

var (
	_ = register(54, profileFields)
	_ = register(55, profilesOverHTTP)
	_ = register(56, delegationGates)
)

func profileFields() table {
	tab := table{
		name: "profile files", title: "Profiles: the file", file: "profiles_test.go",
		intro: "What the front matter of a profile may hold, and the error for what it may not. Every error names the file and the line.",
		head:  []string{"front matter", "read as, or the error"},
	}
	for _, f := range []struct {
		front, shown string
		got          func(profile.Profile) any
		want         any
	}{
		{"description: Reads a change", "`description`: one line for people", func(p profile.Profile) any { return p.Description }, "Reads a change"},
		{"model: opus", "`model`: the option `model`", func(p profile.Profile) any { return profile.Of(p).Options.Model }, "opus"},
		{"tools: [Read, Grep]", "`tools`: the option `tools`", func(p profile.Profile) any { return profile.Of(p).Options.Tools }, []string{"Read", "Grep"}},
		{"max_turns: 20", "`max_turns`: the option `maxTurns`", func(p profile.Profile) any { return profile.Of(p).Options.MaxTurns }, 20},
		{"subagents: [tester]", "`subagents`: the profiles to which a governed session may delegate", func(p profile.Profile) any { return p.Subagents }, []string{"tester"}},
		{"disallowed_tools: [Bash]", "`disallowed_tools`: tools that are never allowed", func(p profile.Profile) any { return p.DisallowedTools }, []string{"Bash"}},
		{"auto_approve_tools: [Read]", "`auto_approve_tools`: tools that are allowed without asking", func(p profile.Profile) any { return p.AutoApproveTools }, []string{"Read"}},
		{"AGENT_TYPE: 2", "`AGENT_TYPE`: others may delegate to this profile", func(p profile.Profile) any { return p.AgentType }, "2"},
		{"AGENT_CLASS: TASK", "`AGENT_CLASS`: without it a delegation is allowed with a warning", func(p profile.Profile) any { return p.AgentClass }, "TASK"},
		{"# only a comment", "the text after the front matter: the option `systemPromptAppend`", func(p profile.Profile) any { return profile.Of(p).Options.SystemPromptAppend }, "You review."},
	} {
		tab.rows = append(tab.rows, row{cells: []string{"`" + f.front + "`", f.shown}, check: func(t *testing.T) {
			p, err := profile.Parse("reviewer", []byte("---\n"+f.front+"\n---\nYou review.\n"))
			if err != nil {
				t.Fatal(err)
			}
			equal(t, f.front, f.got(p), f.want)
		}})
	}
	for _, f := range []struct{ front, message string }{
		{"description: [a]", "description: must be text, not a list"},
		{"description: ''", "description: is blank; leave it out"},
		{"model: 5", `model: must be text, not "5"`},
		{"tools: Read", `tools: must be a list such as [one, two], not "Read"`},
		{"tools: []", "tools: is an empty list; name tools, or leave it out for the agent's own"},
		{"tools: [Read, Read]", `tools: "Read" is in the list twice; remove one of them`},
		{"max_turns: 0", "max_turns: 0 is not a number from 1 to 10000"},
		{"max_turns: 10001", "max_turns: 10001 is not a number from 1 to 10000"},
		{"max_turns: many", `max_turns: must be a number, not "many"`},
		{"subagents: [Explore]", `subagents: "Explore" is not the name of a profile; it has a to z, 0 to 9, _ and -, at most 64 of them`},
		{"disallowed_tools: ['Bash(git push:*)']", `disallowed_tools: "Bash(git push:*)" is a pattern; name a whole tool such as Bash, or an MCP server such as mcp__server, and make a rule for a command`},
		{"auto_approve_tools: [a b]", `auto_approve_tools: "a b" is not the name of a tool; it has letters, digits and . _ : / @ -`},
		{"AGENT_TYPE: [2]", "AGENT_TYPE: must be one value, not a list"},
		{"AGENT_CLASS:", "AGENT_CLASS: must be one value, not nothing"},
		{"max_turn: 3", `unknown key "max_turn"; did you mean max_turns?`},
		{"- model", "must be settings, each as name: value"},
	} {
		tab.rows = append(tab.rows, row{cells: []string{"`" + f.front + "`", "reviewer.md:3: " + f.message}, check: func(t *testing.T) {
			_, err := profile.Parse("reviewer", []byte("---\n\n"+f.front+"\n---\n"))
			if err == nil || err.Error() != "reviewer.md:3: "+f.message {
				t.Errorf("got %v", err)
			}
		}})
	}
	return with(tab,
		row{cells: []string{"the same key twice", "the line of the second, and the line of the first"}, test: "profile.TestParseNamesFileLineAndCause"},
		row{cells: []string{"262,144 bytes", "the file is read; one byte more is an error"}, test: "profile.TestParseTakesTheLargestFile"},
		row{cells: []string{"a link, a pipe or a file that others may write", "an error; the file cannot be chosen"}, test: "profile.TestListReadsPlainFilesOnly"},
	)
}

// with returns the table with more rows at its end.
func with(tab table, rows ...row) table {
	tab.rows = append(tab.rows, rows...)
	return tab
}

func profilesOverHTTP() table {
	var s server
	tab := table{
		name: "profiles", title: "Profiles: choosing and enforcement", file: "profiles_test.go",
		intro: "A server with a default profile and the profiles of a trusted and of an untrusted project; the scripted agent asks before it uses a tool.",
		head:  []string{"case", "outcome"},
	}
	tab.setup = func(t *testing.T) { startWithProfiles(t, &s) }
	add := func(what, outcome string, check func(t *testing.T)) {
		tab.rows = append(tab.rows, row{cells: []string{what, outcome}, check: check})
	}
	create := func(t *testing.T, dir string, options object) answer {
		t.Helper()
		return s.post(t, "/api/session/create", object{"cliType": "script", "projectDir": dir, "options": options})
	}
	persona := func(t *testing.T, id string) any {
		t.Helper()
		return at(s.get(t, "/api/session/"+id+"/status").ok(t, http.StatusOK), "persona")
	}
	add("a session without `persona`", "has the default profile of the server", func(t *testing.T) {
		equal(t, "persona", persona(t, s.session(t, nil)), "usual")
	})
	add("a session with `persona`", "has that profile", func(t *testing.T) {
		equal(t, "persona", persona(t, s.session(t, object{"persona": "strict"})), "strict")
	})
	add("`persona` in `POST /api/harness/session/create`", "the session has that profile", func(t *testing.T) {
		made := s.post(t, "/api/harness/session/create", object{"projectRoot": s.project, "persona": "strict", "cliType": "script"}).ok(t, http.StatusOK)
		equal(t, "persona", persona(t, at(made, "session", "sessionId").(string)), "strict")
	})
	for _, given := range [][2]string{{"a name of no profile", "nobody"}, {"a name that leads elsewhere", "../strict"}, {"a profile whose file is invalid", "broken"}} {
		what, name := given[0], given[1]
		add(what, "404 PERSONA_NOT_FOUND", func(t *testing.T) {
			create(t, s.project, object{"persona": name}).fails(t, http.StatusNotFound, "PERSONA_NOT_FOUND")
		})
	}
	add("a profile of the project, which is trusted", "the session has it", func(t *testing.T) {
		create(t, filepath.Join(s.Home, "trusted"), object{"persona": "ours"}).ok(t, http.StatusCreated)
	})
	add("a profile of the project, which is not trusted", "404 PERSONA_NOT_FOUND, and the list of profiles has a warning", func(t *testing.T) {
		dir := filepath.Join(s.Home, "untrusted")
		create(t, dir, object{"persona": "ours"}).fails(t, http.StatusNotFound, "PERSONA_NOT_FOUND")
		list := s.get(t, "/api/profiles?projectDir="+dir).ok(t, http.StatusOK)
		if warning, _ := at(list, "warnings", 0).(string); !strings.Contains(warning, "this folder is not trusted") {
			t.Errorf("got %v", list)
		}
	})
	add("the list of profiles", "has the profiles by name, and says of an invalid one what is wrong in which line", func(t *testing.T) {
		list := s.get(t, "/api/profiles").ok(t, http.StatusOK)
		equal(t, "error", at(list, "profiles", 0, "error"), `broken.md:2: unknown key "modell"; did you mean model?`)
		equal(t, "default", at(list, "profiles", 3, "default"), true)
	})
	for _, f := range []struct{ what, persona, tool, choice, reason string }{
		{"a tool in `disallowed_tools`", "strict", "Bash", "deny", `the profile "strict" does not allow Bash`},
		{"the same tool in another case of letters", "strict", "BASH", "deny", `the profile "strict" does not allow BASH`},
		{"a tool in `auto_approve_tools`", "strict", "Read", "allow", `the profile "strict" approves Read`},
		{"a tool in both lists", "strict", "Write", "deny", `the profile "strict" does not allow Write`},
		{"a tool of an MCP server in `disallowed_tools`", "strict", "mcp__issues__close", "deny", `the profile "strict" does not allow mcp__issues__close`},
	} {
		outcome := "denied by the profile before anybody is asked"
		if f.choice == "allow" {
			outcome = "allowed by the profile before anybody is asked"
		}
		add(f.what, outcome, func(t *testing.T) {
			id := s.session(t, object{"persona": f.persona})
			_, events := s.play(t, id, asking(f.tool))
			got := frames(events).find("approval_resolved").payload()
			equal(t, "answer", []any{got["choice"], got["by"], got["reason"]}, []any{f.choice, "policy", f.reason})
		})
	}
	add("a tool in neither list", "waits for an answer", func(t *testing.T) {
		id := s.session(t, object{"persona": "strict"})
		turn := s.send(t, id, script(asking("Fetch")))
		s.events(t, id, func(f frame) bool { return f.event == "approval_requested" })
		s.post(t, "/api/session/"+id+"/cancel", object{}).ok(t, http.StatusOK)
		s.turn(t, id, turn)
	})
	add("`persona` in `opts`, with a profile that only forbids and approves", "counts for this turn alone", func(t *testing.T) {
		id := s.session(t, nil)
		sent := s.post(t, "/api/session/"+id+"/send", object{"content": script(asking("Bash")), "opts": object{"persona": "strict"}}).ok(t, http.StatusAccepted)
		got := frames(s.turn(t, id, sent["turnId"].(string))).find("approval_resolved").payload()
		equal(t, "by", got["by"], "policy")
		equal(t, "persona", persona(t, id), "usual")
	})
	add("`persona` in `opts`, with a profile that has a text", "400 UNSUPPORTED_CAPABILITY, because a running agent does not change its text", func(t *testing.T) {
		id := s.session(t, nil)
		s.post(t, "/api/session/"+id+"/send", object{"content": "text", "opts": object{"persona": "prompter"}}).fails(t, http.StatusBadRequest, "UNSUPPORTED_CAPABILITY")
	})
	add("a profile with a text, for an agent that takes none", "400 UNSUPPORTED_CAPABILITY, which names the file", func(t *testing.T) {
		p := create(t, s.project, object{"persona": "prompter"}).fails(t, http.StatusBadRequest, "UNSUPPORTED_CAPABILITY")
		if !strings.Contains(p.Message, "prompter.md") {
			t.Error(p.Message)
		}
	})
	add("a profile that approves tools, chosen without the scope `approve`", "403 FORBIDDEN", func(t *testing.T) {
		weak := s.as(s.Token(t, "read,send"))
		weak.post(t, "/api/session/create", object{"cliType": "script", "projectDir": s.project, "options": object{"persona": "strict"}}).fails(t, http.StatusForbidden, "FORBIDDEN")
	})
	return with(tab,
		row{cells: []string{"`runnel run --persona NAME`", "the profile's options and its decisions about tools count; the error for an unknown name lists the profiles, with exit code 2"}, test: "cmd/runnel.TestScripts"},
		row{cells: []string{"a server whose default profile does not exist", "does not start"}, test: "httpapi.TestServerWithoutItsDefaultProfileDoesNotStart"},
		row{cells: []string{"a disallowed tool that ran without asking", "a notice FORBIDDEN_TOOL_RAN"}, test: "httpapi.TestForbiddenToolThatRanIsANotice"},
		row{cells: []string{"a profile that changed", "counts from the next start of the agent on"}, test: "httpapi.TestProfileIsReadAgainWheneverTheAgentStarts"},
	)
}

// asking returns a step in which the agent requests approval for a tool call.
func asking(tool string) object {
	return object{"tool": object{"name": tool, "kind": "execute", "arguments": object{}, "ask": object{}}}
}

func startWithProfiles(t *testing.T, s *server) {
	t.Helper()
	s.Home = folder(t)
	for name, text := range map[string]string{
		"usual":    "---\ndescription: for sessions that choose none\n---\n",
		"strict":   "---\ndisallowed_tools: [Bash, Write, mcp__issues]\nauto_approve_tools: [Read, Write]\n---\n",
		"prompter": "---\n---\nYou review.\n",
		"broken":   "---\nmodell: m\n---\n",
	} {
		write(t, s.Home, "profiles/"+name+".md", text)
	}
	if err := os.Chmod(filepath.Join(s.Home, "profiles"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"trusted", "untrusted"} {
		write(t, filepath.Join(s.Home, dir), profile.ProjectDir+"/ours.md", "---\n---\n")
	}
	s.Args = []string{"--profile", "usual", "--profiles-dir", filepath.Join(s.Home, "profiles"), "--trusted-folders", filepath.Join(s.Home, "trusted")}
	s.start(t)
}

func delegationGates() table {
	tab := table{
		name: "delegation", title: "Delegation: the gates", file: "profiles_test.go",
		intro: "The gates of a governed session in their order. In each row every gate before passes and all after it fail, too; the answer names the first that fails.",
		head:  []string{"gate", "fails because", "decision"},
	}
	sealed := profile.Governance{ContextSealed: true, PipelineRunApproved: true, ApprovalRef: "run-7"}
	lists := &profile.Profile{Name: "lead", Subagents: []string{"tester"}}
	passes := profile.Delegation{On: true, Profile: lists, Subagent: "tester", Governance: &sealed,
		Target: &profile.Profile{Name: "tester", AgentType: profile.TypeDelegate, AgentClass: profile.ClassTask}}
	add := func(gate profile.Gate, why string, edit func(*profile.Delegation), want profile.Permit) {
		decision := "refused: " + want.Reason
		if want.Allowed {
			decision = "allowed: " + want.Reason
		}
		if want.Warning != "" {
			decision += "; warning: " + want.Warning
		}
		cell := "`" + string(gate) + "`"
		if gate == "" {
			cell = "all"
		}
		tab.rows = append(tab.rows, row{cells: []string{cell, why, decision}, check: func(t *testing.T) {
			d := passes
			edit(&d)
			equal(t, "permit", d.Decide(), want)
		}})
	}
	refuse := func(gate profile.Gate, why, reason string, edit func(*profile.Delegation)) {
		add(gate, why, edit, profile.Permit{Gate: gate, Reason: reason})
	}
	none := &profile.Profile{Name: "lead"}
	refuse(profile.GateSwitch, "the server does not switch governed delegation on", "governed delegation is switched off on this server", func(d *profile.Delegation) {
		*d = profile.Delegation{Subagent: "tester"}
	})
	refuse(profile.GateProfile, "the session has no profile", "the session has no profile, and only a profile can list subagents", func(d *profile.Delegation) {
		*d = profile.Delegation{On: true, Subagent: "tester"}
	})
	refuse(profile.GateProfile, "the agent names no subagent", "the agent does not name the subagent to which it delegates", func(d *profile.Delegation) {
		*d = profile.Delegation{On: true, Profile: lists}
	})
	refuse(profile.GateProfile, "the profile does not list the subagent", `the profile "lead" does not list the subagent "tester"`, func(d *profile.Delegation) {
		*d = profile.Delegation{On: true, Profile: none, Subagent: "tester"}
	})
	refuse(profile.GateObject, "there is no governance object", "there is no governance object", func(d *profile.Delegation) {
		d.Governance, d.Target = nil, nil
	})
	refuse(profile.GateSealed, "`contextSealed` is not true", "contextSealed is not true", func(d *profile.Delegation) {
		d.Governance, d.Target = &profile.Governance{}, nil
	})
	refuse(profile.GateApproved, "`pipelineRunApproved` is not true", "pipelineRunApproved is not true", func(d *profile.Delegation) {
		d.Governance, d.Target = &profile.Governance{ContextSealed: true}, nil
	})
	refuse(profile.GateRef, "`approvalRef` is blank", "approvalRef is blank or not text", func(d *profile.Delegation) {
		d.Governance, d.Target = &profile.Governance{ContextSealed: true, PipelineRunApproved: true, ApprovalRef: " "}, nil
	})
	refuse(profile.GateType, "the subagent has no profile", `there is no profile "tester"`, func(d *profile.Delegation) { d.Target = nil })
	refuse(profile.GateType, "the subagent's profile does not declare `AGENT_TYPE: 2`", `the profile "tester" does not declare AGENT_TYPE: 2`, func(d *profile.Delegation) {
		d.Target = &profile.Profile{Name: "tester", AgentType: "1"}
	})
	allowed := profile.Permit{Allowed: true, Reason: `every gate passed for the subagent "tester", approved as "run-7"`}
	add("", "nothing fails", func(*profile.Delegation) {}, allowed)
	allowed.Warning = `the profile "tester" does not declare AGENT_CLASS: TASK`
	add("", "nothing fails, and `AGENT_CLASS: TASK` is missing", func(d *profile.Delegation) {
		d.Target = &profile.Profile{Name: "tester", AgentType: profile.TypeDelegate}
	}, allowed)

	for _, g := range []struct{ given, decision string }{
		{`{"contextSealed":"true","pipelineRunApproved":true,"approvalRef":"run-7"}`, "contextSealed is not true"},
		{`{"contextSealed":1,"pipelineRunApproved":true,"approvalRef":"run-7"}`, "contextSealed is not true"},
		{`{"contextSealed":true,"pipelineRunApproved":"yes","approvalRef":"run-7"}`, "pipelineRunApproved is not true"},
		{`{"contextSealed":true,"pipelineRunApproved":true,"approvalRef":7}`, "approvalRef is blank or not text"},
		{`{"contextSealed":true,"pipelineRunApproved":true}`, "approvalRef is blank or not text"},
		{`[]`, "there is no governance object"},
	} {
		tab.rows = append(tab.rows, row{cells: []string{"`" + g.given + "`", "a value of another type counts as absent", "refused: " + g.decision}, check: func(t *testing.T) {
			d := passes
			d.Governance = profile.ParseGovernance([]byte(g.given))
			equal(t, "reason", d.Decide().Reason, g.decision)
		}})
	}
	for _, g := range []struct {
		what          string
		session, turn profile.Governance
		allowed       bool
	}{
		{"a turn takes `contextSealed` back", sealed, profile.Governance{PipelineRunApproved: true, ApprovalRef: "run-7"}, false},
		{"a turn takes `pipelineRunApproved` back", sealed, profile.Governance{ContextSealed: true, ApprovalRef: "run-7"}, false},
		{"a turn takes `approvalRef` back", sealed, profile.Governance{ContextSealed: true, PipelineRunApproved: true}, false},
		{"a turn permits what its session does not", profile.Governance{}, sealed, false},
		{"a turn permits what its session permits", sealed, sealed, true},
	} {
		decision := "refused: a turn only tightens the governance of its session"
		if g.allowed {
			decision = "allowed"
		}
		tab.rows = append(tab.rows, row{cells: []string{"a turn's `subagentGovernance`", g.what, decision}, check: func(t *testing.T) {
			d := passes
			d.Governance = g.session.Tighten(&g.turn)
			equal(t, "allowed", d.Decide().Allowed, g.allowed)
		}})
	}
	return with(tab,
		row{cells: []string{"`switch`", "`RUNNEL_GOVERNED_DELEGATION` has another value than exactly `true`", "refused"}, test: "cmd/runnel.TestVariableSwitchesDelegationOnOnlyWithTrue"},
		row{cells: []string{"the session's `delegation`", "`POST /api/harness/session/create` does not give it", "governed"}, test: "httpapi.TestGovernedSessionsAreClosedByDefault"},
		row{cells: []string{"the session's `delegation`", "`POST /api/session/create` does not give it", "left to the agent"}, test: "httpapi.TestOtherSessionsLeaveDelegationToTheirAgent"},
		row{cells: []string{"every gate", "an agent asks to delegate", "the decision answers the approval, is a notice of the turn and is logged; a refusal does not fail the turn"}, test: "httpapi.TestGovernedSessionsDelegateThroughTheGates"},
	)
}
