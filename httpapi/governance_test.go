package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/profile"
	"github.com/runnel-dev/runnel/provider/script"
)

// An able is a scripted agent that accepts every option and records the
// options.
type able struct {
	*script.Provider
	opened []runnel.Options
}

func (p *able) Takes() runnel.Takes {
	return runnel.Takes{
		Tools: true, MaxTurns: true, SystemPromptAppend: true, Resume: true, DisallowedTools: true, SubagentTools: []string{"Agent"},
		Delegations: []runnel.Delegation{runnel.DelegateAsking, runnel.DelegateNever},
	}
}

func (p *able) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	p.opened = append(p.opened, opt)
	return p.Provider.Open(ctx, opt)
}

func (p *able) last() runnel.Options { return p.opened[len(p.opened)-1] }

func withAble(t *testing.T, profiles map[string]string, edit ...func(*Config, *gateway.Config)) (*rig, *able) {
	p := &able{Provider: script.New()}
	return withProfiles(t, profiles, nil, append([]func(*Config, *gateway.Config){func(_ *Config, g *gateway.Config) {
		g.Providers = []runnel.Provider{p}
	}}, edit...)...), p
}

// createWith creates a session with options.
func (rg *rig) createWith(options string) string {
	rg.t.Helper()
	return call[createAnswer](rg, "POST", "/api/session/create", `{"cliType":"script","projectDir":"`+rg.dir+`","options":`+options+`}`, 201).SessionID
}

// harnessWith creates a session through the harness routes.
func (rg *rig) harnessWith(fields string) string {
	rg.t.Helper()
	return call[harnessSession](rg, "POST", "/api/harness/session/create", `{"projectRoot":"`+rg.dir+`"`+fields+`}`, 200).Session.SessionID
}

// toolCalls returns a prompt that makes the agent call tools, one after the
// other. A tool whose name ends with ! runs without asking.
func toolCalls(tools ...string) string {
	var steps []script.Step
	for _, name := range tools {
		name, args, _ := strings.Cut(name, " ")
		name, silent := strings.CutSuffix(name, "!")
		tool := &script.Tool{Name: name, Output: "it ran", Arguments: json.RawMessage(`{"subagent_type":"` + args + `"}`)}
		if !silent {
			tool.Ask = &script.Ask{Title: name}
		}
		steps = append(steps, script.Step{Tool: tool})
	}
	data, err := json.Marshal(script.Script{Steps: append(steps, script.Step{Text: "Done."})})
	if err != nil {
		panic(err)
	}
	return string(data)
}

// sendWith sends a prompt with options and waits for the end of its turn. It
// returns the decisions and notices of the turn. It denies approvals that wait
// for a person.
func (rg *rig) sendWith(id, prompt, opts string) (out []string) {
	rg.t.Helper()
	body := `{"content":` + string(mustJSON(prompt)) + `,"opts":` + opts + `}`
	var sent struct{ TurnID string }
	w := rg.do("POST", "/api/session/"+id+"/send", body)
	if err := json.Unmarshal(w.Body.Bytes(), &sent); err != nil || w.Code != 202 {
		rg.t.Fatalf("send: got %d %s", w.Code, w.Body)
	}
	return rg.decided(id, sent.TurnID)
}

func mustJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// decided follows a turn to its end and returns its decisions and notices.
func (rg *rig) decided(id, turn string) (out []string) {
	rg.t.Helper()
	tools := make(map[string]string)
	for ev, err := range runnel.Follow(rg.t.Context(), rg.log, id, 0) {
		if err != nil {
			rg.t.Fatal(err)
		}
		if ev.Turn != turn {
			continue
		}
		switch b := ev.Body.(type) {
		case event.ApprovalRequested:
			tools[b.Approval.ID] = b.Approval.ToolName
			// This answer counts only if the policy has left the decision to a
			// person.
			rg.do("POST", "/api/session/"+id+"/approvals/"+b.Approval.ID, `{"choice":"deny"}`)
		case event.ApprovalResolved:
			line := tools[b.ApprovalID] + " " + b.Choice + " by " + string(b.By)
			if b.Reason != "" {
				line += ": " + b.Reason
			}
			out = append(out, line)
		case event.Notice:
			out = append(out, b.Code+" "+b.Message)
		case event.ResponseDone:
			return append(out, string(b.Status))
		case event.ResponseError:
			return append(out, b.Error.Message)
		}
	}
	return out
}

const reviewer = "---\nmodel: opus\ntools: [Read, Bash]\nmax_turns: 3\ndisallowed_tools: [Bash]\nauto_approve_tools: [Read, Bash]\n---\nReview.\n"

func TestProfileOfASessionIsEnforced(t *testing.T) {
	rg, p := withAble(t, map[string]string{"reviewer": reviewer})
	for _, id := range []string{rg.createWith(`{"persona":"reviewer"}`), rg.harnessWith(`,"persona":"reviewer"`)} {
		opt := p.last()
		if opt.Model != "opus" || !slices.Equal(opt.Tools, []string{"Read", "Bash"}) || opt.MaxTurns != 3 || opt.SystemPromptAppend != "Review." || !slices.Equal(opt.ServerDisallowedTools, []string{"Bash"}) {
			t.Errorf("started with %+v", opt)
		}
		got := rg.sendWith(id, toolCalls("Bash", "Read", "Write"), `{}`)
		want := []string{
			`Bash deny by policy: the profile "reviewer" does not allow Bash`, `Read allow by policy: the profile "reviewer" approves Read`,
			"Write deny by user", "completed",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q", got)
		}
		st := call[gateway.Status](rg, "GET", "/api/session/"+id+"/status", "", 200)
		if st.Persona != "reviewer" || st.Resolved["model"].From != "profile" {
			t.Errorf("status %+v", st)
		}
	}
	// The client's options override those of a profile, except for the
	// profile's rules.
	rg.createWith(`{"persona":"reviewer","model":"mine","maxTurns":9,"systemPromptAppend":"Be brief."}`)
	if opt := p.last(); opt.Model != "mine" || opt.MaxTurns != 9 || opt.SystemPromptAppend != "Review.\n\nBe brief." || len(opt.ServerDisallowedTools) != 1 {
		t.Errorf("started with %+v", opt)
	}
}

// An agent that does not ask may run a tool that a profile forbids. Readers
// then get one notice, after the call.
func TestForbiddenToolThatRanIsANotice(t *testing.T) {
	rg, _ := withAble(t, map[string]string{"reviewer": reviewer})
	id := rg.createWith(`{"persona":"reviewer"}`)
	got := rg.sendWith(id, toolCalls("Bash!", "Read!", "Bash"), `{}`)
	want := []string{
		`FORBIDDEN_TOOL_RAN "Bash" ran without asking: the profile "reviewer" does not allow Bash`,
		`Bash deny by policy: the profile "reviewer" does not allow Bash`, "completed",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	// A failed call did not run the tool.
	failed := `{"steps":[{"tool":{"name":"Bash","output":"no such tool","isError":true}},{"tool":{"name":"Bash","output":"","isError":true,"exitCode":1}}]}`
	if got := rg.sendWith(id, failed, `{}`); len(got) != 2 || !strings.HasPrefix(got[0], "FORBIDDEN_TOOL_RAN") {
		t.Errorf("got %q", got)
	}
}

func TestUnknownPersonaStartsNothing(t *testing.T) {
	rg, p := withAble(t, map[string]string{"broken": "---\nmodel: 1\n---\n", "ok": "---\n---\n"})
	id := rg.createWith(`{"persona":"ok"}`)
	started := len(p.opened)
	for name, why := range map[string]string{"nobody": "there is no profile", "broken": "broken.md:2: model: must be text", "../ok": "is not the name of a profile"} {
		for target, body := range map[string]string{
			"/api/session/create":           `{"cliType":"script","projectDir":"` + rg.dir + `","options":{"persona":"` + name + `"}}`,
			"/api/harness/session/create":   `{"projectRoot":"` + rg.dir + `","persona":"` + name + `"}`,
			"/api/session/" + id + "/send":  `{"content":"text","opts":{"persona":"` + name + `"}}`,
			"/api/harness/turn":             `{"sessionId":"` + id + `","message":"text","opts":{"persona":"` + name + `"}}`,
			"/api/harness/session/create?2": `{"projectRoot":"` + rg.dir + `","opts":{"persona":"` + name + `"}}`,
		} {
			if w := rg.do("POST", target, body); w.Code != 404 || code(w) != "PERSONA_NOT_FOUND" || !strings.Contains(w.Body.String(), why) {
				t.Errorf("%s with %s: got %d %s", target, name, w.Code, w.Body)
			}
		}
	}
	if len(p.opened) != started {
		t.Errorf("%d agents were started", len(p.opened)-started)
	}
}

func TestTurnHasAProfileOfItsOwnAsFarAsItCan(t *testing.T) {
	rg, _ := withAble(t, map[string]string{
		"reviewer": reviewer, "strict": "---\ndisallowed_tools: [Write]\nauto_approve_tools: [Edit, Bash]\nmodel: small\n---\n",
		"texts": "---\n---\nText", "tools": "---\ntools: [Read]\nmax_turns: 2\n---\n",
	})
	id := rg.createWith(`{"persona":"reviewer"}`)
	for persona, why := range map[string]string{"texts": "has a text, which cannot change for one turn", "tools": "has tools, max_turns, which"} {
		w := rg.do("POST", "/api/session/"+id+"/send", `{"content":"text","opts":{"persona":"`+persona+`"}}`)
		if w.Code != 400 || code(w) != "UNSUPPORTED_CAPABILITY" || !strings.Contains(w.Body.String(), why) {
			t.Errorf("%s: got %d %s", persona, w.Code, w.Body)
		}
	}
	all := toolCalls("Bash", "Read", "Write", "Edit")
	own := []string{
		`Bash deny by policy: the profile "reviewer" does not allow Bash`, `Read allow by policy: the profile "reviewer" approves Read`,
		"Write deny by user", "Edit deny by user", "completed",
	}
	turn := []string{
		`Bash deny by policy: the profile "reviewer" does not allow Bash`, "Read deny by user",
		`Write deny by policy: the profile "strict" does not allow Write`, `Edit allow by policy: the profile "strict" approves Edit`, "completed",
	}
	if got := rg.sendWith(id, all, `{"persona":"reviewer"}`); !slices.Equal(got, own) {
		t.Errorf("with the session's own: %q", got)
	}
	if got := rg.sendWith(id, all, `{"persona":"strict"}`); !slices.Equal(got, turn) {
		t.Errorf("with another: %q", got)
	}
	if got := rg.sendWith(id, all, `{}`); !slices.Equal(got, own) {
		t.Errorf("afterwards: %q", got)
	}
	var models []string
	for ev, err := range rg.log.Read(t.Context(), id, 0) {
		if b, ok := ev.Body.(event.SessionUpdated); ok && err == nil && b.ModelID != "" {
			models = append(models, b.ModelID)
		}
	}
	if s := fmt.Sprint(models); !strings.Contains(s, "small opus") {
		t.Errorf("models %s", s)
	}
	// A queued prompt keeps its profile.
	rg.sendWith(id, "text", `{}`)
	first := rg.prompt(id, "hang")
	rg.until(id, func(ev event.Event) bool { return ev.Turn == first && is[event.ItemDelta](ev) })
	body := `{"content":` + string(mustJSON(all)) + `,"queue":true,"opts":{"persona":"strict"}}`
	queued := call[struct{ TurnID string }](rg, "POST", "/api/session/"+id+"/send", body, 202).TurnID
	call[struct{}](rg, "POST", "/api/session/"+id+"/cancel", `{"continueQueue":true}`, 200)
	if got := rg.decided(id, queued); !slices.Equal(got, turn) {
		t.Errorf("queued: %q", got)
	}
}

const (
	lead     = "---\nsubagents: [tester, plain, missing]\n---\n"
	tester   = "---\nAGENT_TYPE: 2\nAGENT_CLASS: TASK\nmodel: small\ntools: [Read]\n---\nYou test."
	approved = `{"contextSealed":true,"pipelineRunApproved":true,"approvalRef":"run-7"}`
)

func delegating(t *testing.T, on bool) (*rig, *able) {
	return withAble(t, map[string]string{"lead": lead, "tester": tester, "plain": "---\n---\n"}, func(_ *Config, g *gateway.Config) { g.GovernedDelegation = on })
}

func TestGovernedSessionsDelegateThroughTheGates(t *testing.T) {
	rg, p := delegating(t, true)
	id := rg.harnessWith(`,"persona":"lead","opts":{"subagentGovernance":` + approved + `}`)
	if got := p.last().Delegation; got != runnel.DelegateAsking {
		t.Errorf("started with %q", got)
	}
	// The agent gets the profiles that it may delegate to.
	want := []runnel.Subagent{{Name: "tester", Description: "The profile tester", Prompt: "You test.", Tools: []string{"Read"}, Model: "small"}, {Name: "plain", Description: "The profile plain"}}
	if got := p.last().Subagents; !reflect.DeepEqual(got, want) {
		t.Errorf("subagents %+v", got)
	}
	const yes = `delegation allowed: every gate passed for the subagent "tester", approved as "run-7"`
	no := `delegation refused at the gate `
	all := toolCalls("Agent tester", "Agent plain", "Agent missing", "Agent other", "Agent")
	refusals := []string{
		no + `agentType: the profile "plain" does not declare AGENT_TYPE: 2`,
		no + `agentType: the subagent's profile cannot be used: there is no profile "missing"; GET /api/profiles and 'runnel profiles' list them`,
		no + `profile: the profile "lead" does not list the subagent "other"`,
		no + `profile: the agent does not name the subagent to which it delegates`,
	}
	var rest []string
	for _, why := range refusals {
		rest = append(rest, "Agent deny by policy: "+why, "DELEGATION_REFUSED "+why)
	}
	rest = append(rest, "completed")
	first := []string{"DELEGATION_ALLOWED " + yes + "; the agent asks before each delegation"}
	allowed := []string{"Agent allow by policy: " + yes, "DELEGATION_ALLOWED " + yes}
	if got, want := rg.sendWith(id, all, `{}`), slices.Concat(first, allowed, rest); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got, want := rg.sendWith(id, all, `{}`), slices.Concat(allowed, rest); !slices.Equal(got, want) {
		t.Errorf("again: %q", got)
	}
	// A turn can only restrict what its session may do, and only for itself.
	for governance, gate := range map[string]string{
		`{}`: "contextSealed: contextSealed is not true", `{"contextSealed":true}`: "pipelineRunApproved: pipelineRunApproved is not true",
		`{"contextSealed":true,"pipelineRunApproved":true,"approvalRef":" "}`:  "approvalRef: approvalRef is blank or not text",
		`{"contextSealed":"true","pipelineRunApproved":1,"approvalRef":"run"}`: "contextSealed: contextSealed is not true",
	} {
		got := rg.sendWith(id, toolCalls("Agent tester"), `{"subagentGovernance":`+governance+`}`)
		if want := []string{"Agent deny by policy: " + no + gate, "DELEGATION_REFUSED " + no + gate, "completed"}; !slices.Equal(got, want) {
			t.Errorf("%s: got %q", governance, got)
		}
	}
	if got := rg.sendWith(id, toolCalls("Agent tester"), `{}`); !slices.Equal(got, append(slices.Clone(allowed), "completed")) {
		t.Errorf("after it: %q", got)
	}
	for _, want := range []string{`"delegation decided"`, "allowed=true", "gate=contextSealed", "subagent=tester"} {
		if !strings.Contains(rg.logged.String(), want) {
			t.Errorf("%s is not logged", want)
		}
	}
}

// A selectiveAsker is an agent that asks only before some delegations, and that
// cannot be started without its delegation tool.
type selectiveAsker struct{ *able }

func (p *selectiveAsker) Takes() runnel.Takes {
	t := p.able.Takes()
	t.Delegations = nil
	return t
}

// A selectiveAsker asks before some delegations, and the gates decide those. A
// delegation that it makes without asking is reported in a notice.
func TestGatesDecideWheneverAnAgentAsks(t *testing.T) {
	rg, _ := withAble(t, map[string]string{"lead": lead, "tester": tester, "plain": "---\n---\n"}, func(_ *Config, g *gateway.Config) {
		g.GovernedDelegation = true
		g.Providers = []runnel.Provider{&selectiveAsker{&able{Provider: script.New()}}}
	})
	id := rg.harnessWith(`,"persona":"lead","opts":{"subagentGovernance":` + approved + `}`)
	const (
		yes = `delegation allowed: every gate passed for the subagent "tester", approved as "run-7"`
		no  = `delegation refused at the gate profile: the profile "lead" does not list the subagent "other"`
	)
	want := []string{
		"DELEGATION_ALLOWED " + yes + "; the gates decide again when the agent asks, and a delegation without asking is reported",
		"Agent allow by policy: " + yes, "DELEGATION_ALLOWED " + yes,
		"Agent deny by policy: " + no, "DELEGATION_REFUSED " + no,
		`FORBIDDEN_TOOL_RAN "Agent" ran without asking: the session's delegation is governed, and Agent was not allowed`,
		"completed",
	}
	if got := rg.sendWith(id, toolCalls("Agent tester", "Agent other", "Agent! tester"), `{}`); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// Governed delegation is denied unless every gate permits it. If it is denied,
// the agent starts without its delegation tool, and a call that it makes
// nevertheless is denied.
func TestGovernedSessionsAreClosedByDefault(t *testing.T) {
	for name, tt := range map[string]struct {
		on     bool
		fields string
		gate   string
		told   bool // readers get a notice at the beginning
	}{
		"nothing":       {true, ``, "profile: the session has no profile", false},
		"switched off":  {false, `,"persona":"lead","opts":{"subagentGovernance":` + approved + `}`, "switch: governed delegation is switched off", true},
		"no object":     {true, `,"persona":"lead"`, "governance: there is no governance object", true},
		"not sealed":    {true, `,"persona":"lead","opts":{"subagentGovernance":{"pipelineRunApproved":true,"approvalRef":"x"}}`, "contextSealed", true},
		"no subagents":  {true, `,"persona":"tester","opts":{"subagentGovernance":` + approved + `}`, "profile: ", true},
		"only untyped":  {true, `,"persona":"other","opts":{"subagentGovernance":` + approved + `}`, "agentType: ", true},
		"session asked": {true, `,"opts":{"delegation":"governed"}`, "profile: the session has no profile", false},
	} {
		t.Run(name, func(t *testing.T) {
			rg, p := delegating(t, tt.on)
			putProfiles(t, rg.profiles, map[string]string{"other": "---\nsubagents: [plain]\n---\n"})
			id := rg.harnessWith(tt.fields)
			if opt := p.last(); opt.Delegation != runnel.DelegateNever || len(opt.Subagents) > 0 {
				t.Errorf("started with %q, %+v", opt.Delegation, opt.Subagents)
			}
			got := rg.sendWith(id, toolCalls("Agent plain", "Agent! plain"), `{}`)
			if tt.told {
				if !strings.HasPrefix(got[0], "DELEGATION_REFUSED delegation refused at the gate "+tt.gate) || !strings.Contains(got[0], "without its tools for subagents") {
					t.Errorf("got %q", got)
				}
				got = got[1:]
			}
			if len(got) != 4 || !strings.HasPrefix(got[0], "Agent deny by policy: delegation refused at the gate "+tt.gate) ||
				!strings.HasPrefix(got[1], "DELEGATION_REFUSED delegation refused at the gate "+tt.gate) ||
				got[2] != `FORBIDDEN_TOOL_RAN "Agent" ran without asking: the session's delegation is governed, and Agent was not allowed` || got[3] != "completed" {
				t.Errorf("got %q", got)
			}
			if got := rg.sendWith(id, "text", `{}`); !slices.Equal(got, []string{"completed"}) {
				t.Errorf("a plain turn: %q", got)
			}
		})
	}
}

func TestOtherSessionsLeaveDelegationToTheirAgent(t *testing.T) {
	rg, p := delegating(t, true)
	for _, id := range []string{rg.createWith(`{"persona":"lead"}`), rg.harnessWith(`,"opts":{"delegation":"agent"}`)} {
		if got := p.last().Delegation; got != runnel.DelegateFreely {
			t.Errorf("started with %q", got)
		}
		if got := rg.sendWith(id, toolCalls("Agent! plain", "Agent plain"), `{}`); !slices.Equal(got, []string{"Agent deny by user", "completed"}) {
			t.Errorf("got %q", got)
		}
		if st := call[gateway.Status](rg, "GET", "/api/session/"+id+"/status", "", 200); st.Delegation != "agent" {
			t.Errorf("delegation %q", st.Delegation)
		}
		for _, opts := range []string{`{"subagentGovernance":` + approved + `}`, `{"delegation":"governed"}`, `{"delegation":"agent"}`} {
			if w := rg.do("POST", "/api/session/"+id+"/send", `{"content":"text","opts":`+opts+`}`); w.Code != 400 || code(w) != "UNSUPPORTED_CAPABILITY" {
				t.Errorf("a turn with %s: got %d %s", opts, w.Code, w.Body)
			}
		}
	}
	// The profile of a prompt is checked before its delegation.
	both := `{"content":"text","opts":{"persona":"nobody","subagentGovernance":{}}}`
	if w := rg.do("POST", "/api/session/"+rg.createWith(`{}`)+"/send", both); w.Code != 404 || code(w) != "PERSONA_NOT_FOUND" {
		t.Errorf("both: got %d %s", w.Code, w.Body)
	}
	for options, want := range map[string]string{
		`{"subagentGovernance":` + approved + `}`: "UNSUPPORTED_CAPABILITY", `{"delegation":"mine"}`: "INVALID_REQUEST",
	} {
		if w := rg.do("POST", "/api/session/create", `{"cliType":"script","projectDir":"`+rg.dir+`","options":`+options+`}`); w.Code != 400 || code(w) != want {
			t.Errorf("%s: got %d %s", options, w.Code, w.Body)
		}
	}
}

// Choosing a profile that approves tools answers approvals in advance.
func TestProfileThatApprovesNeedsTheScopeApprove(t *testing.T) {
	rg, _ := withAble(t, map[string]string{"approves": "---\nauto_approve_tools: [Bash]\n---\n", "forbids": "---\ndisallowed_tools: [Bash]\n---\n"})
	all := rg.token
	id := rg.createWith(`{}`)
	rg.token = rg.mint(auth.Read, auth.Send)
	for target, body := range map[string]string{
		"/api/session/create":          `{"cliType":"script","projectDir":"` + rg.dir + `","options":{"persona":"%s"}}`,
		"/api/harness/session/create":  `{"projectRoot":"` + rg.dir + `","persona":"%s"}`,
		"/api/session/" + id + "/send": `{"content":"text","opts":{"persona":"%s"}}`,
	} {
		if w := rg.do("POST", target, fmt.Sprintf(body, "approves")); w.Code != 403 || code(w) != "FORBIDDEN" {
			t.Errorf("%s: got %d %s", target, w.Code, w.Body)
		}
		if w := rg.do("POST", target, fmt.Sprintf(body, "forbids")); w.Code >= 300 {
			t.Errorf("%s: got %d %s", target, w.Code, w.Body)
		}
	}
	rg.token = all
	rg.createWith(`{"persona":"approves"}`)
}

// A profile that approves no tool when it is chosen may approve tools later,
// because its file can change. A project's profile also replaces a profile of
// the same name beside the configuration, even the server's default. So in a
// session that was created without the scope approve, only the server's default
// beside the configuration may approve tools.
func TestProfilesApproveNothingForWhoMustNotApprove(t *testing.T) {
	const approves = "---\nauto_approve_tools: [Bash]\n---\n"
	rg, _ := withAble(t, map[string]string{"default": approves, "plain": "---\n---\n"}, func(_ *Config, g *gateway.Config) { g.Profile = "default" })
	all, send := rg.token, rg.mint(auth.Read, auth.Send)
	own := func(profiles map[string]string) { putProfiles(t, filepath.Join(rg.dir, profile.ProjectDir), profiles) }
	asks := func(name, id string, want int) {
		t.Helper()
		rg.token = all
		a := rg.asked(id, "touch x")
		w := rg.do("POST", "/api/session/"+id+"/approvals/"+a.ID, `{"choice":"deny","argumentsDigest":"`+a.ArgumentsDigest+`"}`)
		if w.Code != want {
			t.Errorf("%s: an answer to the approval got %d %s, want %d", name, w.Code, w.Body, want)
		}
		rg.token = send
	}
	rg.token = send
	asks("the server's default", rg.createWith(`{}`), 409)

	changed, turn := rg.createWith(`{"persona":"plain"}`), rg.createWith(`{"persona":"plain"}`)
	own(map[string]string{"default": approves, "plain": approves})
	asks("the project's own default", rg.createWith(`{}`), 200)
	for _, what := range []string{"kill", "load"} {
		call[struct{}](rg, "POST", "/api/session/"+changed+"/"+what, "{}", 200)
	}
	asks("a profile that was changed", changed, 200)
	asks("a profile that was changed, of an agent that runs", turn, 200)

	rg.token = all
	asks("whoever may approve", rg.createWith(`{"persona":"plain"}`), 409)
}

func TestDefaultProfileIsThatOfSessionsThatChooseNone(t *testing.T) {
	rg, p := withAble(t, map[string]string{"reviewer": reviewer, "none": "---\n---\n"}, func(_ *Config, g *gateway.Config) { g.Profile = "reviewer" })
	id := rg.createWith(`{}`)
	if p.last().Model != "opus" || call[gateway.Status](rg, "GET", "/api/session/"+id+"/status", "", 200).Persona != "reviewer" {
		t.Errorf("started with %+v", p.last())
	}
	rg.createWith(`{"persona":"none"}`)
	if p.last().Model != "" {
		t.Errorf("started with %+v", p.last())
	}
}

// The profile's file is read again when the agent starts. A session whose
// profile was deleted does not continue without it.
func TestProfileIsReadAgainWheneverTheAgentStarts(t *testing.T) {
	rg, p := withAble(t, map[string]string{"reviewer": reviewer})
	id := rg.createWith(`{"persona":"reviewer"}`)
	again := func() *http.Response {
		call[struct{}](rg, "POST", "/api/session/"+id+"/kill", "{}", 200)
		return rg.do("POST", "/api/session/"+id+"/load", "{}").Result()
	}
	putProfiles(t, rg.profiles, map[string]string{"reviewer": "---\nmodel: other\ndisallowed_tools: [Read]\n---\n"})
	if res := again(); res.StatusCode != 200 {
		t.Fatalf("load: %d", res.StatusCode)
	}
	got := rg.sendWith(id, toolCalls("Bash", "Read"), `{}`)
	if want := []string{"Bash deny by user", `Read deny by policy: the profile "reviewer" does not allow Read`, "completed"}; !slices.Equal(got, want) || p.last().Model != "other" {
		t.Errorf("got %q with %+v", got, p.last())
	}
	if err := os.Remove(filepath.Join(rg.profiles, "reviewer.md")); err != nil {
		t.Fatal(err)
	}
	started := len(p.opened)
	again()
	if w := rg.do("POST", "/api/session/"+id+"/send", `{"content":"text"}`); w.Code != 404 || code(w) != "PERSONA_NOT_FOUND" || len(p.opened) != started {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

// The session's record contains the profile and the delegation as the client
// chose them, not the options that follow from them.
func TestRecordKeepsProfileAndDelegation(t *testing.T) {
	rg, _ := delegating(t, true)
	id := rg.harnessWith(`,"persona":"lead","opts":{"subagentGovernance":` + approved + `}`)
	rec, err := rg.cat.Session(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	var kept map[string]any
	if err := json.Unmarshal(rec.Options, &kept); err != nil {
		t.Fatal(err)
	}
	var governance any
	_ = json.Unmarshal([]byte(approved), &governance)
	if want := map[string]any{"persona": "lead", "delegation": "governed", "subagentGovernance": governance}; !reflect.DeepEqual(kept, want) {
		t.Errorf("the record has %s", rec.Options)
	}
}
