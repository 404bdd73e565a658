//go:build unix

package conformance

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

var (
	_ = register(61, modes)
	_ = register(62, decisions)
)

// Tool calls of the scripted agent, each as a step of its script.
var (
	command  = object{"name": "Bash", "kind": "execute", "arguments": object{"command": "git status"}, "output": "clean", "ask": object{"editable": true}}
	edit     = object{"name": "Write", "kind": "edit", "arguments": object{"file_path": "/x"}, "output": "written", "changes": []any{object{"path": "/x", "kind": "create", "hunks": []any{}}}, "ask": object{}}
	question = object{"name": "ask_user", "arguments": object{"questions": []any{}}, "ask": object{"kind": "question"}}
	form     = object{"name": "fill_in", "arguments": object{}, "ask": object{"kind": "form"}}
	plain    = object{"name": "Read", "kind": "read", "arguments": object{"file_path": "/x"}, "output": "text"}
)

func modes() table {
	var s server
	tab := table{
		name: "permission modes", title: "Approvals: permission modes", file: "approvals_test.go",
		intro: "What happens to each kind of call in each mode, with the scripted agent on a server with `allow-bypass`. It shows a call for which it would ask, and asks in the mode `plan` as in `default`; real agents plan.",
		head:  []string{"mode", "call", "outcome"},
	}
	tab.setup = func(t *testing.T) {
		s.Args = []string{"--allow-bypass"}
		s.start(t)
	}
	const asked, allowed, denied = "asked", "runs without asking", "denied without asking"
	for _, m := range []struct {
		mode     string
		outcomes [5]string
	}{
		{"default", [5]string{asked, asked, asked, asked, allowed}},
		{"acceptEdits", [5]string{asked, allowed, asked, asked, allowed}},
		{"plan", [5]string{asked, asked, asked, asked, allowed}},
		{"dontAsk", [5]string{denied, denied, denied, denied, allowed}},
		{"bypass", [5]string{allowed, allowed, asked, asked, allowed}},
	} {
		for i, c := range []struct {
			name string
			tool object
		}{
			{"a command", command}, {"an edit", edit}, {"a question", question}, {"a form", form}, {"a call for which the agent never asks", plain},
		} {
			outcome := m.outcomes[i]
			tab.rows = append(tab.rows, row{cells: []string{"`" + m.mode + "`", c.name, outcome}, check: func(t *testing.T) {
				id := s.session(t, object{"permissionMode": m.mode})
				turn := s.send(t, id, script(object{"tool": c.tool}))
				seen := s.events(t, id, func(f frame) bool { return f.ends() || f.event == "approval_requested" })
				last := seen[len(seen)-1]
				if last.event == "approval_requested" {
					s.post(t, "/api/session/"+id+"/cancel", object{}).ok(t, http.StatusOK)
					s.turn(t, id, turn)
				}
				got := allowed
				switch {
				case last.event == "approval_requested":
					got = asked
				case failedOutput(seen):
					got = denied
				}
				equal(t, "outcome", got, outcome)
			}})
		}
	}
	return with(tab,
		row{cells: []string{"`bypass`", "any, on a server without `allow-bypass`", "the session is refused with INVALID_REQUEST"}, test: "httpapi.TestEveryRouteRefusesOptionsAlike"},
		row{cells: []string{"`bypass`", "any, chosen without the scope `approve`", "the session is refused with FORBIDDEN"}, test: "httpapi.TestNoAnswersInAdvance"},
	)
}

// failedOutput reports whether a tool call ended with an error.
func failedOutput(seen frames) bool {
	for _, f := range seen {
		if f.event == "item_done" && at(f.payload(), "finalItem", "isError") == true {
			return true
		}
	}
	return false
}

// An open is an approval that waits for a decision.
type open struct {
	session, turn, path string
	approval            object
}

// ask starts a turn in which the scripted agent requests an approval, and waits
// for that approval.
func (s *server) ask(t *testing.T, tools ...object) open {
	t.Helper()
	var steps []object
	for _, tool := range tools {
		steps = append(steps, object{"tool": tool})
	}
	o := open{session: s.session(t, nil)}
	o.turn = s.send(t, o.session, script(append(steps, object{"text": "done"})...))
	seen := s.events(t, o.session, func(f frame) bool { return f.event == "approval_requested" })
	o.approval = seen[len(seen)-1].payload()["approval"].(object)
	o.path = "/api/session/" + o.session + "/approvals/" + o.approval["id"].(string)
	return o
}

// answer returns the body of a decision that quotes the arguments shown by the
// approval.
func (o open) answer(choice string, more object) object {
	body := object{"choice": choice, "argumentsDigest": o.approval["argumentsDigest"]}
	for key, value := range more {
		body[key] = value
	}
	return body
}

func decisions() table {
	var s, hurried, alone server
	tab := table{
		name: "decisions", title: "Approvals: answers", file: "approvals_test.go",
		intro: "What each answer to an approval does. The scripted agent asks before it runs `git status`.",
		head:  []string{"answer", "outcome"},
	}
	tab.setup = func(t *testing.T) {
		s.start(t)
		hurried.Args = []string{"--approval-timeout", "1ms"}
		hurried.start(t)
		alone.Args = []string{"--stall-timeout", "300ms"}
		alone.start(t)
	}
	add := func(what, outcome string, check func(t *testing.T)) {
		tab.rows = append(tab.rows, row{cells: []string{what, outcome}, check: check})
	}
	// finish sends a decision, and returns the resolution, the output of the
	// call and the end of the turn.
	finish := func(t *testing.T, o open, body object) (resolved object, output string, end frame) {
		t.Helper()
		s.post(t, o.path, body).ok(t, http.StatusOK)
		turn := frames(s.turn(t, o.session, o.turn))
		for _, f := range turn {
			if f.event == "item_done" && at(f.payload(), "finalItem", "type") == "function_call_output" {
				output = fmt.Sprint(at(f.payload(), "finalItem", "output"))
			}
		}
		return turn.find("approval_resolved").payload(), output, turn[len(turn)-1]
	}
	add("`allow`", "the call runs once; the event `approval_resolved` says who decided", func(t *testing.T) {
		o := s.ask(t, command)
		resolved, output, _ := finish(t, o, o.answer("allow", nil))
		equal(t, "resolved", []any{resolved["choice"], resolved["by"], output}, []any{"allow", "user", "clean"})
	})
	add("`allow`, and the agent asks again", "it is asked again", func(t *testing.T) {
		o := s.ask(t, command, command)
		s.post(t, o.path, o.answer("allow", nil)).ok(t, http.StatusOK)
		n := 0
		s.events(t, o.session, func(f frame) bool {
			if f.event == "approval_requested" {
				n++
			}
			return n == 2
		})
		s.post(t, "/api/session/"+o.session+"/cancel", object{}).ok(t, http.StatusOK)
	})
	add("`allow_session`, and the agent asks again", "the second call runs without asking", func(t *testing.T) {
		o := s.ask(t, command, command)
		s.post(t, o.path, o.answer("allow_session", nil)).ok(t, http.StatusOK)
		equal(t, "questions", strings.Count(frames(s.turn(t, o.session, o.turn)).names(), "approval_requested"), 1)
	})
	add("`deny` with `reason`", "the call does not run, the agent reads the reason, and the turn goes on", func(t *testing.T) {
		o := s.ask(t, command)
		resolved, output, end := finish(t, o, object{"choice": "deny", "reason": "not now"})
		equal(t, "outcome", []any{resolved["reason"], output, end.payload()["status"]}, []any{"not now", "not now", "completed"})
	})
	add("`deny_stop`", "the call does not run, and the turn ends as cancelled", func(t *testing.T) {
		_, _, end := finish(t, s.ask(t, command), object{"choice": "deny_stop"})
		equal(t, "status", end.payload()["status"], "cancelled")
	})
	add("`updatedArguments`, where the approval allows it", "the event `approval_resolved` has the changed arguments", func(t *testing.T) {
		o := s.ask(t, command)
		resolved, _, _ := finish(t, o, o.answer("allow", object{"updatedArguments": object{"command": "git diff"}}))
		equal(t, "arguments", resolved["updatedArguments"], object{"command": "git diff"})
	})
	// refuse adds a row for a decision that is rejected: the approval still
	// waits afterwards.
	refuse := func(what, outcome string, tool object, body func(o open) any, status int, typ string) {
		add(what, outcome, func(t *testing.T) {
			o := s.ask(t, tool)
			s.post(t, o.path, body(o)).fails(t, status, typ)
			s.get(t, o.path).ok(t, http.StatusOK)
			finish(t, o, object{"choice": "deny"})
		})
	}
	const bad = http.StatusBadRequest
	refuse("no `choice`", "400 INVALID_REQUEST, and the approval still waits", command, func(open) any { return object{} }, bad, "INVALID_REQUEST")
	refuse("a `choice` that the approval does not have", "400 INVALID_REQUEST, and the approval still waits", command, func(o open) any { return o.answer("maybe", nil) }, bad, "INVALID_REQUEST")
	refuse("`allow` without `argumentsDigest`", "400 INVALID_REQUEST, and the approval still waits", command, func(open) any { return object{"choice": "allow"} }, bad, "INVALID_REQUEST")
	refuse("`allow` with the digest of other arguments", "409 APPROVAL_GONE, and the approval still waits", command, func(open) any { return object{"choice": "allow", "argumentsDigest": "0"} }, http.StatusConflict, "APPROVAL_GONE")
	refuse("`updatedArguments`, where the approval does not allow it", "400 INVALID_REQUEST, and the approval still waits", edit, func(o open) any { return o.answer("allow", object{"updatedArguments": object{}}) }, bad, "INVALID_REQUEST")
	refuse("an unknown field", "400 INVALID_REQUEST, and the approval still waits", command, func(o open) any { return o.answer("allow", object{"always": true}) }, bad, "INVALID_REQUEST")
	refuse("`remember` with `updatedArguments`", "400 INVALID_REQUEST, and the approval still waits", command, func(o open) any {
		return o.answer("allow", object{"updatedArguments": object{"command": "x"}, "remember": object{"kind": "execute", "pattern": "git status"}})
	}, bad, "INVALID_REQUEST")
	refuse("`remember` with a rule that would not decide this approval", "400 INVALID_REQUEST, and the approval still waits", command, func(o open) any {
		return o.answer("allow", object{"remember": object{"kind": "execute", "pattern": "git diff"}})
	}, bad, "INVALID_REQUEST")
	refuse("`remember` with an effect that contradicts the choice", "400 INVALID_REQUEST, and the approval still waits", command, func(o open) any {
		return o.answer("allow", object{"remember": object{"effect": "deny", "kind": "execute", "pattern": "git status"}})
	}, bad, "INVALID_REQUEST")
	add("a second answer", "409 APPROVAL_GONE; the first answer counts", func(t *testing.T) {
		o := s.ask(t, command)
		finish(t, o, o.answer("allow", nil))
		s.post(t, o.path, object{"choice": "deny"}).fails(t, http.StatusConflict, "APPROVAL_GONE")
		s.get(t, o.path).fails(t, http.StatusConflict, "APPROVAL_GONE")
	})
	add("an answer without the scope `approve`", "403 FORBIDDEN", func(t *testing.T) {
		o := s.ask(t, command)
		s.as(s.Token(t, "read,send")).post(t, o.path, o.answer("allow", nil)).fails(t, http.StatusForbidden, "FORBIDDEN")
		finish(t, o, object{"choice": "deny"})
	})
	add("none: the agent withdraws its question", "the event `approval_resolved` says withdrawn, by the agent; a later answer gets 409 APPROVAL_GONE", func(t *testing.T) {
		id := s.session(t, nil)
		_, events := s.play(t, id, object{"tool": object{"name": "Bash", "arguments": object{}, "ask": object{"withdraw": true}}})
		resolved := frames(events).find("approval_resolved").payload()
		equal(t, "resolved", []any{resolved["choice"], resolved["by"]}, []any{"withdrawn", "agent"})
		path := "/api/session/" + id + "/approvals/" + resolved["approvalId"].(string)
		s.post(t, path, object{"choice": "deny"}).fails(t, http.StatusConflict, "APPROVAL_GONE")
	})
	add("none: the turn is cancelled", "the approval is withdrawn before the turn ends", func(t *testing.T) {
		o := s.ask(t, command)
		s.post(t, "/api/session/"+o.session+"/cancel", object{}).ok(t, http.StatusOK)
		equal(t, "choice", frames(s.turn(t, o.session, o.turn)).find("approval_resolved").payload()["choice"], "withdrawn")
	})
	add("none, on a server with `approval-timeout`", "the approval is denied after that time", func(t *testing.T) {
		id := hurried.session(t, nil)
		_, events := hurried.play(t, id, object{"tool": command})
		resolved := frames(events).find("approval_resolved").payload()
		equal(t, "resolved", []any{resolved["choice"], resolved["by"]}, []any{"deny", "timeout"})
	})
	add("none, and no client is connected, on a server without `approval-timeout`", "the question is no yes and waits, also longer than `stall-timeout`; a client that comes later answers it", func(t *testing.T) {
		o := alone.ask(t, command)
		alone.http.CloseIdleConnections()
		id := alone.session(t, nil)
		_, events := alone.play(t, id, object{"hang": true}) // a turn that began later, and stalls
		equal(t, "code", at(events[len(events)-1].payload(), "error", "code"), "AGENT_STALLED")
		later := alone.as(alone.Token(t, "read,approve"))
		equal(t, "approval", at(later.get(t, o.path).ok(t, http.StatusOK), "approval", "id"), o.approval["id"])
		equal(t, "activity", later.get(t, "/api/session/"+o.session+"/status").ok(t, http.StatusOK)["activity"], "waiting")
		later.post(t, o.path, o.answer("allow", nil)).ok(t, http.StatusOK)
		turn := frames(alone.turn(t, o.session, o.turn))
		resolved := turn.find("approval_resolved").payload()
		equal(t, "outcome", []any{resolved["choice"], resolved["by"], turn[len(turn)-1].payload()["status"]}, []any{"allow", "user", "completed"})
	})
	add("none, and no client is connected, on a server with `approval-timeout`", "the approval is denied after that time", func(t *testing.T) {
		id := hurried.session(t, nil)
		hurried.send(t, id, script(object{"tool": command}))
		path, deadline := "/api/session/"+id+"/status", time.Now().Add(waitTimeout)
		for hurried.get(t, path).ok(t, http.StatusOK)["activity"] != "idle" { // no stream is open
			if time.Now().After(deadline) {
				t.Fatal("the approval still waits")
			}
		}
		resolved := hurried.events(t, id, frame.ends).find("approval_resolved").payload()
		equal(t, "resolved", []any{resolved["choice"], resolved["by"]}, []any{"deny", "timeout"})
	})
	add("`remember` with `allow`", "the rule is stored and decides the next call; once it is removed, the agent's question waits again", func(t *testing.T) {
		tool := object{"name": "Bash", "kind": "execute", "arguments": object{"command": "git log"}, "ask": object{}}
		o := s.ask(t, tool)
		made := s.post(t, o.path, o.answer("allow", object{"remember": object{"kind": "execute", "pattern": "git log"}})).ok(t, http.StatusOK)
		s.turn(t, o.session, o.turn)
		rule := at(made, "rule", "id").(float64)
		_, events := s.play(t, o.session, object{"tool": tool})
		resolved := frames(events).find("approval_resolved").payload()
		reason, _ := resolved["reason"].(string)
		if resolved["by"] != "policy" || !strings.HasPrefix(reason, fmt.Sprintf("allowed by rule %.0f, made by test on ", rule)) {
			t.Errorf("got %v", resolved)
		}
		path := fmt.Sprintf("/api/rules/%.0f", rule)
		s.do(t, http.MethodDelete, path, nil).ok(t, http.StatusOK)
		s.do(t, http.MethodDelete, path, nil).fails(t, http.StatusNotFound, "INVALID_REQUEST")
		o = s.ask(t, tool)
		finish(t, o, object{"choice": "deny"})
	})
	add("`remember` with `deny`", "the rule denies the next call, also in `acceptEdits`", func(t *testing.T) {
		tool := object{"name": "Bash", "kind": "execute", "arguments": object{"command": "rm -r build"}, "ask": object{}}
		o := s.ask(t, tool)
		s.post(t, o.path, o.answer("deny", object{"remember": object{"kind": "execute", "pattern": "rm *", "projectDir": s.project}})).ok(t, http.StatusOK)
		s.turn(t, o.session, o.turn)
		_, events := s.play(t, s.session(t, object{"permissionMode": "acceptEdits"}), object{"tool": tool})
		resolved := frames(events).find("approval_resolved").payload()
		equal(t, "resolved", []any{resolved["choice"], resolved["by"]}, []any{"deny", "policy"})
	})
	add("`GET` of the approval", "the approval, and rules that would allow calls like it, the narrowest first", func(t *testing.T) {
		o := s.ask(t, command)
		got := s.get(t, o.path).ok(t, http.StatusOK)
		equal(t, "approval", at(got, "approval", "id"), o.approval["id"])
		equal(t, "pattern", at(got, "suggestedRules", 0, "pattern"), "git status")
		equal(t, "folder", at(got, "suggestedRules", 0, "projectDir"), filepath.Clean(s.project))
		finish(t, o, object{"choice": "deny"})
	})
	add("none yet", "the session waits; a client that comes later sees the same approval, with its choices", func(t *testing.T) {
		o := s.ask(t, command)
		for range 2 {
			seen := s.as(s.Token(t, "read")).events(t, o.session, func(f frame) bool { return f.event == "approval_requested" })
			equal(t, "approval", seen[len(seen)-1].payload()["approval"], o.approval)
		}
		var kinds []any
		for i := range o.approval["choices"].([]any) {
			kinds = append(kinds, at(o.approval, "choices", i, "kind"))
		}
		equal(t, "choices", kinds, []any{"allow_once", "allow_session", "deny", "deny_stop"})
		equal(t, "activity", s.get(t, "/api/session/"+o.session+"/status").ok(t, http.StatusOK)["activity"], "waiting")
		finish(t, o, object{"choice": "deny"})
	})
	return with(tab,
		row{cells: []string{"two at the same time", "the first counts, and every client sees the same"}, test: "gateway.TestFirstOfTwoApproversWins"},
		row{cells: []string{"none, of a run with no approver", "denied at once, with the message `approval required`"}, test: "..TestRunDeniesWithoutAnApprover"},
		row{cells: []string{"none, in a session of the library without a time limit", "the question waits for a year, and is answered then"}, check: waitsForAYear},
		row{cells: []string{"none, in a session of the library with a time limit", "the approval is denied after that time; with a negative one at once"}, test: "..TestUnansweredApprovalsAreDenied"},
		row{cells: []string{"`updatedArguments` that a rule denies", "403 FORBIDDEN"}, test: "gateway.TestChangedArgumentsAreComparedWithDenyRules"},
	)
}

// waitsForAYear requests an approval in a session whose fake clock then
// advances by a year.
func waitsForAYear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := conversation(t, runnel.Config{})
		turn := sent(t, s, object{"tool": command})
		a := approvalOf(t, turn)
		time.Sleep(365 * 24 * time.Hour)
		if pending := s.Status().Pending; len(pending) != 1 || pending[0].ID != a.ID {
			t.Fatalf("pending: %v", pending)
		}
		if err := s.Decide(t.Context(), a.ID, runnel.Decision{Choice: "allow", ArgumentsDigest: a.ArgumentsDigest}); err != nil {
			t.Fatal(err)
		}
		if res, err := turn.Wait(t.Context()); err != nil || res.Status != event.StatusCompleted {
			t.Errorf("got %+v, %v", res, err)
		}
	})
}
