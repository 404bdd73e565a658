package codex

import (
	"encoding/json"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
)

// approval is a question of the agent that waits for an answer.
type approval struct {
	id      string // ours
	request jsonrpc.ID
	method  string
	turn    *turn  // in which it is asked
	aside   bool   // that holds nothing else
	native  string // the agent's turn; "" if it did not say
	choices []choice
	sheet   *sheet // of questions
	form    bool   // it asks for values
	params  string // digest of all that was asked
	shown   event.Approval
}

// choice is one answer, with the result that gives it.
type choice struct {
	event.Choice
	result json.RawMessage
	stops  bool // the turn has to be interrupted, too: the answer alone does not
}

// Ids of choices.
const (
	allowOnce    = "allow_once"
	allowSession = "allow_session"
	allowAlways  = "allow_always"
	deny         = "deny"
	denyStop     = "deny_stop"
	option       = "option_" // and the number of the answer, from 1
)

// maxOpen bounds the questions that wait for an answer, and maxAsking what one is
// about, in bytes.
const (
	maxOpen   = 100
	maxAsking = 2 * maxArguments
)

// question is the parameters of any of the agent's questions.
type question struct {
	ThreadID   string `json:"threadId"`
	TurnID     string `json:"turnId"`
	ItemID     string `json:"itemId"`
	ApprovalID string `json:"approvalId"`
	Reason     string `json:"reason"`

	// commandExecution
	Kind      string            `json:"kind"` // command, humanCommand, writeStdin
	Command   string            `json:"command"`
	CWD       string            `json:"cwd"`
	Further   json.RawMessage   `json:"additionalPermissions"`
	Amendment []string          `json:"proposedExecpolicyAmendment"`
	Hosts     []json.RawMessage `json:"proposedNetworkPolicyAmendments"`
	Network   *struct {
		Host     string `json:"host"`
		Protocol string `json:"protocol"`
	} `json:"networkApprovalContext"`

	// fileChange
	GrantRoot string `json:"grantRoot"`

	// permissions
	Permissions json.RawMessage `json:"permissions"`

	// requestUserInput
	Questions []userQuestion `json:"questions"`

	// elicitation
	Server  string          `json:"serverName"`
	Mode    string          `json:"mode"` // form, url, …
	Message string          `json:"message"`
	Schema  json.RawMessage `json:"requestedSchema"`
	URL     string          `json:"url"`
	Meta    struct {
		Kind    string          `json:"codex_approval_kind"` // mcp_tool_call
		Persist json.RawMessage `json:"persist"`             // session, always
		Params  json.RawMessage `json:"tool_params"`
		Title   string          `json:"tool_title"`
		About   string          `json:"tool_description"`
	} `json:"_meta"`
}

// ask takes a question of the agent. What we do not offer is refused at once:
// the agent waits for an answer without end.
func (t *translator) ask(m jsonrpc.Message) {
	q := loose[question](m.Params)
	a := &approval{request: m.ID, method: m.Method, native: q.TurnID, params: digest(m.Params)}
	ev, ok := a.describe(t, q)
	if ok && len(ev.Arguments) > maxAsking {
		ok = false
		t.notice(event.LevelWarning, "QUESTION_REFUSED", "The agent asked a question that was too large to be shown; it was denied.")
	}
	if !ok || len(t.approvals) >= maxOpen {
		if reply, due := t.peer.Unknown(m); due {
			t.reply(reply)
		}
		return
	}
	a.turn = t.turnToAsk(q, m, a)
	during := q.TurnID
	if during == "" { // and ids of requests begin anew with each process
		during = a.turn.id
	}
	a.id = derive(strings.Join([]string{"approval", q.ThreadID, during, q.ItemID, q.ApprovalID, m.ID.Key()}, " "))
	ev.ID, ev.Why = a.id, oneLine(q.Reason, 500)
	ev.ArgumentsDigest = digest(ev.Arguments)
	for _, c := range a.choices {
		ev.Choices = append(ev.Choices, c.Choice)
	}
	if c := t.calling(q); c != nil {
		if ev.CallID = c.native; strings.HasPrefix(c.id, a.turn.id+":") {
			ev.ItemID = c.id
		}
	}
	t.approvals[a.id], a.shown = a, ev
	t.emit(a.turn, event.ApprovalRequested{Approval: ev})
}

// asksAgain takes a question with the id of one that is open. If it is about
// something else, the answer to the first would be taken for one to this: both
// are refused.
func (t *translator) asksAgain(m jsonrpc.Message) {
	for _, id := range t.Waiting() {
		a := t.approvals[id]
		if !a.request.Same(m.ID) {
			continue
		}
		if a.method == m.Method && a.params == digest(m.Params) {
			return
		}
		delete(t.approvals, id)
		t.reply(jsonrpc.NewFailure(m.ID, jsonrpc.CodeInvalidRequest, "what is asked changed while it was looked at; ask again"))
		t.emit(a.turn, event.Notice{Level: event.LevelWarning, Code: "ARGUMENTS_CHANGED", Message: "The agent changed what it had asked for while the question was open; it was denied."})
		t.emit(a.turn, event.ApprovalResolved{ApprovalID: id, Choice: event.ChoiceWithdrawn, By: event.ByAgent})
		t.endAside(a)
	}
}

// turnToAsk returns the turn in which a question is asked. One of a subagent
// while no turn runs has a turn that holds nothing else.
func (t *translator) turnToAsk(q question, m jsonrpc.Message, a *approval) *turn {
	if tn := t.turnOf(note{ThreadID: q.ThreadID, TurnID: q.TurnID}); tn != nil && tn.agent == nil {
		return tn
	}
	if tn := t.current(); tn != nil {
		return tn
	}
	a.aside = true
	after := ""
	if q.TurnID == "" && len(t.over) > 0 {
		after = t.over[len(t.over)-1]
	}
	tn := &turn{id: derive(t.thread + " question " + q.TurnID + after + " " + m.ID.Key())}
	t.emit(tn, event.ResponseStart{ModelID: t.config.Model, ProviderID: providerID})
	return tn
}

// leaveQuestions takes the questions out of a turn that is over whose subagents
// go on, and wait. If we ended the turn, they are denied; else they are returned.
func (t *translator) leaveQuestions(over *turn) (left []*approval) {
	for _, id := range t.Waiting() {
		a := t.approvals[id]
		if asks := t.turns[a.native]; a.turn != over || asks == nil || asks.agent == nil {
			continue
		}
		delete(t.approvals, id)
		if !over.interrupted {
			left = append(left, a)
		} else if m, err := jsonrpc.NewResult(a.request, a.choices[len(a.choices)-1].result); err == nil {
			t.reply(m)
		}
	}
	return left
}

// askBeside asks again, in a turn that holds nothing else, what was asked in one
// that is over.
func (t *translator) askBeside(a *approval) {
	a.id = derive("approval beside " + a.id)
	a.turn, a.aside = &turn{id: derive("question beside " + a.id)}, true
	a.shown.ID, a.shown.ItemID = a.id, ""
	t.approvals[a.id] = a
	t.emit(a.turn, event.ResponseStart{ModelID: t.config.Model, ProviderID: providerID})
	t.emit(a.turn, event.ApprovalRequested{Approval: a.shown})
}

// calling returns the call that a question is about.
func (t *translator) calling(q question) *piece {
	tn := t.turns[q.TurnID]
	if tn == nil {
		return nil
	}
	if c := tn.items[q.ItemID]; c != nil && c.called {
		return c
	}
	if q.Server != "" { // it names the server only
		for _, c := range tn.inOrder() {
			if c.call && !c.done && strings.HasPrefix(c.name, "mcp__"+q.Server+"__") {
				return c
			}
		}
	}
	return nil
}

// describe says what a question is and what may be answered. It reports false
// for one that we do not know.
func (a *approval) describe(t *translator, q question) (event.Approval, bool) {
	switch a.method {
	case askCommand:
		return a.command(q), true
	case askFileChange:
		return a.fileChange(t, q), true
	case askPermissions:
		return a.permissions(q), true
	case askUser:
		return a.user(q)
	case askElicitation:
		return a.elicitation(q)
	}
	return event.Approval{}, false
}

func (a *approval) add(id string, kind event.ChoiceKind, label string, result any) {
	a.choices = append(a.choices, choice{Choice: event.Choice{ID: id, Kind: kind, Label: label}, result: object(result)})
}

// stop adds the answer that ends the turn, too. Where the agent does not end it
// by itself, it is interrupted.
func (a *approval) stop(result any, interrupt bool) {
	a.add(denyStop, event.ChoiceDenyStop, "Deny and stop", result)
	a.choices[len(a.choices)-1].stops = interrupt
}

type decided map[string]any

// maxLabel bounds the label of a choice, in bytes.
const maxLabel = 300

// command asks for leave to run one. All answers are offered although 0.169
// lists some only: it takes the others as well.
func (a *approval) command(q question) event.Approval {
	ev := event.Approval{Kind: event.ApprovalTool, ToolName: "shell", Title: oneLine(script(q.Command), 300)}
	args := map[string]any{"command": q.Command, "cwd": q.CWD}
	if len(q.Further) > 0 && string(q.Further) != "null" {
		args["additionalPermissions"] = q.Further
	}
	switch {
	case q.Network != nil:
		ev.Title = oneLine("Connect to "+q.Network.Host, 300)
		args["host"], args["protocol"] = q.Network.Host, q.Network.Protocol
	case q.Kind == "writeStdin":
		ev.Title = oneLine("Write to a running command: "+script(q.Command), 300)
	}
	ev.Arguments = object(args)
	a.add(allowOnce, event.ChoiceAllowOnce, "Allow once", decided{"decision": "accept"})
	a.add(allowSession, event.ChoiceAllowSession, "Allow for this session", decided{"decision": "acceptForSession"})
	if label := oneLine("Always allow commands that begin with: "+strings.Join(q.Amendment, " "), 4*maxLabel); len(q.Amendment) > 0 && len(label) <= maxLabel {
		a.add(allowAlways, event.ChoiceAllowAlways, label, decided{"decision": decided{"acceptWithExecpolicyAmendment": decided{"execpolicy_amendment": q.Amendment}}})
	}
	for _, raw := range q.Hosts[:min(len(q.Hosts), 10)] {
		h := loose[struct{ Host, Action string }](raw)
		if h.Action == "allow" && len(h.Host) <= 200 && !a.has(allowAlways) {
			a.add(allowAlways, event.ChoiceAllowAlways, oneLine("Always allow "+h.Host, maxLabel), decided{"decision": decided{"applyNetworkPolicyAmendment": decided{"network_policy_amendment": raw}}})
		}
	}
	a.add(deny, event.ChoiceDeny, "Deny", decided{"decision": "decline"})
	a.stop(decided{"decision": "cancel"}, false)
	return ev
}

func (a *approval) has(id string) bool {
	for _, c := range a.choices {
		if c.ID == id {
			return true
		}
	}
	return false
}

func (a *approval) fileChange(t *translator, q question) event.Approval {
	ev := event.Approval{Kind: event.ApprovalTool, ToolName: "apply_patch", Title: "Edit files"}
	if c := t.calling(q); c != nil {
		ev.Title, ev.Arguments, ev.Changes = c.title, c.args, c.changes
	}
	if len(ev.Arguments) == 0 {
		ev.Arguments = json.RawMessage("{}")
	}
	session := "Allow edits of these files for this session"
	if q.GrantRoot != "" {
		session = oneLine("Allow edits in "+q.GrantRoot+" for this session", maxLabel)
	}
	a.add(allowOnce, event.ChoiceAllowOnce, "Allow once", decided{"decision": "accept"})
	a.add(allowSession, event.ChoiceAllowSession, session, decided{"decision": "acceptForSession"})
	a.add(deny, event.ChoiceDeny, "Deny", decided{"decision": "decline"})
	a.stop(decided{"decision": "cancel"}, false)
	return ev
}

// permissions asks for more than the sandbox allows.
func (a *approval) permissions(q question) event.Approval {
	granted := arguments(q.Permissions)
	a.add(allowOnce, event.ChoiceAllowOnce, "Allow for this turn", decided{"permissions": granted, "scope": "turn"})
	a.add(allowSession, event.ChoiceAllowSession, "Allow for this session", decided{"permissions": granted, "scope": "session"})
	none := decided{"permissions": decided{}, "scope": "turn"}
	a.add(deny, event.ChoiceDeny, "Deny", none)
	a.stop(none, true)
	return event.Approval{
		Kind: event.ApprovalTool, ToolName: "request_permissions", Title: "Give the agent more permissions",
		Arguments: object(map[string]any{"permissions": granted, "cwd": q.CWD}),
	}
}

// elicitation asks on behalf of an MCP server: for values, for a visit to a
// page, or, in the agent's own name, for leave to call one of its tools.
func (a *approval) elicitation(q question) (event.Approval, bool) {
	answer := func(action string, content, meta any) decided {
		return decided{"action": action, "content": content, "_meta": meta}
	}
	no := answer("decline", nil, nil)
	stop := answer("cancel", nil, nil)
	ev := event.Approval{Kind: event.ApprovalForm, ToolName: oneLine("mcp__"+q.Server, 200), Title: oneLine(q.Server+": "+q.Message, 300)}
	switch {
	case q.Meta.Kind == "mcp_tool_call":
		ev.Kind, ev.Title = event.ApprovalTool, oneLine(q.Message, 300)
		ev.Arguments = object(map[string]any{"server": q.Server, "title": q.Meta.Title, "description": clip(q.Meta.About, 2000), "arguments": arguments(q.Meta.Params)})
		a.add(allowOnce, event.ChoiceAllowOnce, "Allow once", answer("accept", decided{}, nil))
		for _, p := range persists(q.Meta.Persist) {
			switch p {
			case "session":
				a.add(allowSession, event.ChoiceAllowSession, "Allow this tool for this session", answer("accept", decided{}, decided{"persist": p}))
			case "always":
				a.add(allowAlways, event.ChoiceAllowAlways, "Always allow this tool", answer("accept", decided{}, decided{"persist": p}))
			}
		}
	case q.Mode == "form" || q.Mode == "openai/form" || q.Mode == "openaiForm":
		ev.Arguments, ev.ArgumentsEditable = object(map[string]any{"message": q.Message, "schema": arguments(q.Schema)}), true
		a.form = true
		a.add(allowOnce, event.ChoiceAllowOnce, "Send", answer("accept", decided{}, nil))
	case q.Mode == "url" && !strings.HasPrefix(q.URL, "https://") && !strings.HasPrefix(q.URL, "http://"):
		return ev, false
	case q.Mode == "url":
		ev.Arguments = object(map[string]any{"message": q.Message, "url": q.URL})
		a.add(allowOnce, event.ChoiceAllowOnce, "Done", answer("accept", decided{}, nil))
	default:
		return ev, false
	}
	a.add(deny, event.ChoiceDeny, "Decline", no)
	a.stop(stop, true)
	return ev, true
}

// persists reads how long an answer may hold: a word or several.
func persists(raw json.RawMessage) []string {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}
	}
	words := loose[[]string](raw)
	return words[:min(len(words), 2)]
}

// answer returns the messages for a decision. It fails with ApprovalGone for an
// approval that is not open, and with InvalidRequest for a choice that it does
// not have.
func (t *translator) answer(id string, d runnel.Decision) ([]any, error) {
	a := t.approvals[id]
	if a == nil {
		return nil, runnel.Fail(runnel.ApprovalGone, "this approval is already settled")
	}
	for _, c := range a.choices {
		if c.ID != d.Choice {
			continue
		}
		result, err := a.fill(c, d.UpdatedArguments)
		if err != nil {
			return nil, err
		}
		line, err := outgoing(jsonrpc.NewResult(a.request, result))
		if err != nil {
			return nil, runnel.Fail(runnel.InvalidRequest, "updatedArguments is not a JSON object", err)
		}
		out := []any{line}
		if tn := t.turns[a.native]; c.stops && tn != nil {
			t.stopFor(tn.shown(), &out)
		}
		return out, nil
	}
	return nil, runnel.Fail(runnel.InvalidRequest, "choice: the approval has no such choice")
}

// stopFor adds the interrupt that an answer does not bring about by itself.
func (t *translator) stopFor(tn *turn, out *[]any) {
	if tn.native == "" {
		return
	}
	tn.stops++
	line, err := outgoing(jsonrpc.NewRequest(jsonrpc.String(interruptPrefix+tn.native+":"+itoa(tn.stops)), methodInterrupt,
		map[string]string{"threadId": t.thread, "turnId": tn.native}))
	if err == nil {
		*out = append(*out, line)
	}
}

// fill puts the values of an answer into its result.
func (a *approval) fill(c choice, values json.RawMessage) (json.RawMessage, error) {
	if a.sheet != nil {
		return a.sheet.fill(c, values)
	}
	if len(values) == 0 {
		return c.result, nil
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(values, &object) != nil || object == nil {
		return nil, runnel.Fail(runnel.InvalidRequest, "updatedArguments is not a JSON object")
	}
	if a.method != askElicitation || !a.form || c.ID != allowOnce {
		return nil, runnel.Fail(runnel.InvalidRequest, "updatedArguments: Codex does not let them be changed")
	}
	return json.Marshal(decided{"action": "accept", "content": object, "_meta": nil})
}

// decided takes an answer of ours as it passes.
func (t *translator) decided(m jsonrpc.Message) {
	for _, id := range t.Waiting() {
		a := t.approvals[id]
		if !a.request.Same(m.ID) {
			continue
		}
		delete(t.approvals, id)
		c := a.choiceOf(m.Result)
		if tn := t.turns[a.native]; c == denyStop && tn != nil {
			tn.shown().interrupted = true
		}
		t.emit(a.turn, event.ApprovalResolved{ApprovalID: id, Choice: c, By: event.ByUser})
		t.endAside(a)
		return
	}
}

// choiceOf names the choice that a result is of.
func (a *approval) choiceOf(result json.RawMessage) string {
	if a.sheet != nil {
		return a.sheet.choiceOf(result)
	}
	for _, c := range a.choices {
		if sameJSON(c.result, result) {
			return c.ID
		}
	}
	r := loose[struct{ Action string }](result)
	if r.Action == "accept" {
		return allowOnce
	}
	return deny
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	return string(object(x)) == string(object(y))
}

// withdraw takes the news that a question is settled. That it was answered we
// know already; else the agent took it back.
func (t *translator) withdraw(request jsonrpc.ID) {
	t.peer.Forget(request)
	for _, id := range t.Waiting() {
		a := t.approvals[id]
		if !a.request.Same(request) {
			continue
		}
		delete(t.approvals, id)
		t.emit(a.turn, event.ApprovalResolved{ApprovalID: id, Choice: event.ChoiceWithdrawn, By: event.ByAgent})
		t.endAside(a)
	}
	t.settleAsides()
}

// endAside has the end of a turn told that held nothing but a question: with
// the agent's next line, for an answer of ours is not one that is waited for.
func (t *translator) endAside(a *approval) {
	if a.aside {
		t.asides = append(t.asides, a.turn)
	}
}

func (t *translator) settleAsides() {
	for _, tn := range t.asides {
		t.emit(tn, event.ResponseDone{Status: event.StatusCompleted})
	}
	t.asides = nil
}

// dropApprovals forgets the questions of a turn that is over; its end resolves
// them.
func (t *translator) dropApprovals(tn *turn) {
	for id, a := range t.approvals {
		if a.turn == tn {
			t.peer.Forget(a.request)
			delete(t.approvals, id)
		}
	}
}
