package claude

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

func TestDisallowedToolsAreOneArgument(t *testing.T) {
	for _, tt := range []struct {
		opt  runnel.Options
		want string // the argument --disallowedTools; "" if it is missing
	}{
		{runnel.Options{}, ""},
		{runnel.Options{ServerDisallowedTools: []string{"Bash", "mcp__mail"}}, "--disallowedTools=Bash,mcp__mail"},
		{runnel.Options{Delegation: runnel.DelegateAsking}, ""},
		{runnel.Options{Delegation: runnel.DelegateNever}, "--disallowedTools=Agent,Task,Workflow,SendMessage"},
		{runnel.Options{ServerDisallowedTools: []string{"Task", "Bash"}}, "--disallowedTools=Task,Bash,Agent"},
		{runnel.Options{ServerDisallowedTools: []string{"Bash", "Agent"}, Delegation: runnel.DelegateNever}, "--disallowedTools=Bash,Agent,Task,Workflow,SendMessage"},
	} {
		args, err := argv(tt.opt, false)
		i := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "--disallowedTools") })
		if err != nil || (i >= 0) != (tt.want != "") || i >= 0 && args[i] != tt.want {
			t.Errorf("%+v: %q, %v", tt.opt, args, err)
		}
	}
	if _, err := argv(runnel.Options{ServerDisallowedTools: []string{"--settings={}"}}, false); runnel.CodeOf(err) != runnel.InvalidRequest {
		t.Errorf("a flag as a tool: %v", err)
	}
}

func TestDelegateAskingSetsAnAskRuleForSubagentTools(t *testing.T) {
	reqs, err := setup(runnel.Options{Delegation: runnel.DelegateAsking, AddDirs: []string{"/x"}})
	if err != nil || len(reqs) != 2 {
		t.Fatalf("%+v, %v", reqs, err)
	}
	if text := string(reqs[1].Settings); text != `{"permissions":{"additionalDirectories":["/x"],"ask":["EnterWorktree","Agent","Task","Workflow","SendMessage"],"disableAutoMode":"disable"}}` {
		t.Error(text)
	}
}

// The agent has neither a disallowed tool nor, without delegation, the tool for
// subagents. The turns continue without them.
func TestAgentLacksDisallowedTools(t *testing.T) {
	eachAgent(t, func(t *testing.T, r *rig) {
		r.Opt.ServerDisallowedTools, r.Opt.Delegation = []string{"Bash"}, runnel.DelegateNever
		r.Play(calls(bash("touch ran", "Touch")), says("ok"))
		evs := r.Finish(allowOnce)
		if n := len(bodies[event.ApprovalRequested](evs)); n != 0 {
			t.Errorf("%d approvals for a disallowed tool", n)
		}
		if exists(r.File("ran")) {
			t.Error("the disallowed tool ran")
		}
		r.Play(costing(calls(agent("One", false, says("Ran."))), says("ok"))...)
		evs = r.Finish(allowOnce)
		if ran, failed := delegated(evs); len(bodies[event.ApprovalRequested](evs)) != 0 || ran != 0 || failed != 1 {
			t.Errorf("%d subagents ran, %d calls failed; want 0 and 1, without approvals\n%s", ran, failed, dump(evs))
		}
	})
}

// A message continues a subagent that an earlier turn has started. Without
// delegation it fails, and if delegation asks, it needs an approval.
func TestSubagentContinuesOnlyWithDelegation(t *testing.T) {
	for name, c := range map[string]struct {
		delegation runnel.Delegation
		approvals  int
	}{"never": {runnel.DelegateNever, 0}, "asking": {runnel.DelegateAsking, 1}} {
		t.Run(name, func(t *testing.T) {
			eachAgent(t, func(t *testing.T, r *rig) {
				r.Play(costing(calls(agent("One", false, says("Ran."))), says("ok"))...)
				r.Finish("")
				session := r.agentSession()
				found, err := filepath.Glob(filepath.Join(r.Home.Config, "projects", "*", session, "subagents", "agent-*.jsonl"))
				if err != nil || len(found) != 1 {
					t.Fatalf("subagents %q, %v", found, err)
				}
				id := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(found[0]), "agent-"), ".jsonl")
				r.Conn.Close()
				r.Opt.Resume, r.Conn, r.Opt.Delegation = session, nil, c.delegation
				r.Play(costing(calls(use("SendMessage", args{"to": id, "summary": "Continue the work", "message": "More."})), says("ok"))...)
				evs := r.Finish(deny)
				if n := len(bodies[event.ApprovalRequested](evs)); n != c.approvals {
					t.Errorf("%d approvals, want %d", n, c.approvals)
				}
				for _, it := range items(evs) {
					if f, ok := it.Final.(event.FunctionCallOutput); ok && it.Name == "SendMessage" && !f.IsError {
						t.Errorf("the subagent continued\n%s", dump(evs))
					}
				}
			})
		})
	}
}

// delegated counts the calls that start subagents, by whether they succeeded.
func delegated(evs []event.Event) (ran, failed int) {
	for _, it := range items(evs) {
		if f, ok := it.Final.(event.FunctionCallOutput); ok && slices.Contains(subagentTools, it.Name) {
			if f.IsError {
				failed++
			} else {
				ran++
			}
		}
	}
	return ran, failed
}

// A denied call does not affect the next one.
func TestDelegateAskingRequestsAnApprovalForEachSubagent(t *testing.T) {
	eachAgent(t, func(t *testing.T, r *rig) {
		r.Opt.Delegation = runnel.DelegateAsking
		r.Play(costing(calls(agent("One", false, says("Ran one."))), calls(agent("Two", false, says("Ran two."))), says("ok"))...)
		n := 0
		evs := r.Until(func(ev event.Event) bool {
			if b, ok := ev.Body.(event.ApprovalRequested); ok {
				if !slices.Contains(subagentTools, b.Approval.ToolName) {
					t.Errorf("approval for %s", b.Approval.ToolName)
				}
				r.Decide(b.Approval, runnel.Decision{Choice: []string{deny, allowOnce}[n%2]})
				n++
			}
			return event.Ends(ev.Body)
		})
		if ran, failed := delegated(evs); n != 2 || ran != 1 || failed != 1 {
			t.Errorf("%d approvals, %d subagents ran, %d failed; want 2, 1 and 1\n%s", n, ran, failed, dump(evs))
		}
	})
}
