package codex

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
	"github.com/runnel-dev/runnel/internal/translate"
)

// An approval is the Codex-specific part of an open question.
type approval struct {
	request   jsonrpc.ID
	method    string
	native    string // the native turn; "" if unknown
	choices   []choice
	questions *questionSet // set if the agent asks the user questions; see user
	form      bool         // the user fills in the values of a form
	unseen    bool         // the agent has not shown what it would do
	shown     event.Approval

	// about is the arguments that the item of the question must have; nil if
	// the question is not about a whole item.
	about json.RawMessage
}

// choice is one answer that the user can choose, and the result that is sent
// for it.
type choice struct {
	event.Choice
	result json.RawMessage
	stops  bool // the turn must also be interrupted: the result does not stop it
}

// maxAsking bounds the arguments of a question, in bytes.
const maxAsking = 2 * maxArguments

// question holds the parameters of all kinds of questions. A question has some
// of the fields.
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
		Tool    string          `json:"tool_name"`
		Persist json.RawMessage `json:"persist"` // session, always
		Params  json.RawMessage `json:"tool_params"`
		Title   string          `json:"tool_title"`
		About   string          `json:"tool_description"`
	} `json:"_meta"`
}

// questions are the open questions of the agent.
type questions struct {
	translate.Approvals[*approval]
	out *translate.Emitter
}

// asked processes a question of the agent. A question that cannot be shown is
// rejected at once, because the agent would wait for the answer without limit.
func (t *translator) asked(m jsonrpc.Message) {
	q := translate.DecodeLenient[question](m.Params)
	call := t.calling(q)
	a := &approval{request: m.ID, method: m.Method, native: q.TurnID}
	ok := a.describe(q, call)
	if !ok {
		t.out.SkipUnknown(m.Method)
	}
	if ok && (len(a.shown.Arguments) > maxAsking || event.TooDeep(a.shown.Arguments)) {
		ok = false
		t.notice(event.Notice{Level: event.LevelWarning, Code: "QUESTION_REFUSED", Message: "The agent asked a question that was too large or nested too deep to be shown; it was denied."})
	}
	if ok && t.questions.Refuses(m.ID.Key()) {
		ok = false
		t.notice(translate.TooManyQuestions)
	}
	if !ok {
		t.reply(jsonrpc.Unsupported(m), nil)
		return
	}
	turn, earlier, outOfTurn := t.turnToAsk(q, m.ID)
	if call != nil {
		if a.shown.CallID = call.native; strings.HasPrefix(call.id, turn+":") {
			a.shown.ItemID = call.id
		}
	}
	a.shown.Why = oneLine(q.Reason, 500)
	if a.unseen {
		t.out.Emit(turn, cannotAllow)
	}
	t.questions.open(a, translate.Approval[*approval]{
		ID:   earlier.ID(turn, m.ID.Key(), a.contentDigest(), derive),
		Turn: turn, OutOfTurn: outOfTurn, Digest: askedDigest(m),
	})
	if r := t.running(q.TurnID); r != nil && a.about != nil {
		r.noteAsked(q.ItemID, a.about)
	}
}

// cannotAllow is the notice for a question that does not show everything that
// the agent would do, such as a question about an unknown patch.
var cannotAllow = event.Notice{
	Level: event.LevelWarning, Code: "CANNOT_ALLOW",
	Message: "The agent asks for permission, but has not reported everything that it would do. The request can only be denied.",
}

// contentDigest returns the digest of what the user decides about: the question
// and its choices, without the item that it belongs to.
func (a *approval) contentDigest() string {
	content := a.shown
	content.ItemID, content.Choices = "", slices.Clip(content.Choices)
	for _, c := range a.choices {
		content.Choices = append(content.Choices, c.Choice)
	}
	b, err := json.Marshal(content)
	if err != nil {
		return "" // the turn and the count of questions still make the approval's id unique
	}
	return translate.Digest(b)
}

// askedDigest returns the digest of a question's method and parameters.
func askedDigest(m jsonrpc.Message) string {
	return translate.Digest(append([]byte(m.Method+" "), m.Params...))
}

// answer returns the messages that send a decision. It fails with ApprovalGone
// if the approval is not open, and with InvalidRequest if it does not have the
// choice.
func (t *translator) answer(id string, d runnel.Decision) ([]any, error) {
	q, err := t.questions.Open(id)
	if err != nil {
		return nil, err
	}
	a := q.Question
	i := slices.IndexFunc(a.choices, func(c choice) bool { return c.ID == d.Choice })
	if i < 0 {
		return nil, translate.NoSuchChoice()
	}
	result, err := a.fill(a.choices[i], d.UpdatedArguments)
	if err != nil {
		return nil, err
	}
	line, err := outgoing(jsonrpc.NewResult(a.request, result))
	if err != nil {
		return nil, translate.NotAnObject(err)
	}
	out := []any{line}
	if tn := t.mainOf(a.native); a.choices[i].stops && tn != nil {
		if line, err := outgoing(tn.interrupt(t.thread)); err == nil {
			out = append(out, line)
		}
	}
	return out, nil
}

// open adds a question to the open questions and emits it.
func (qs *questions) open(a *approval, q translate.Approval[*approval]) {
	a.shown.ID, a.shown.ArgumentsDigest = q.ID, translate.Digest(a.shown.Arguments)
	for _, c := range a.choices {
		a.shown.Choices = append(a.shown.Choices, c.Choice)
	}
	asks := event.ApprovalRequested{Approval: a.shown}
	q.Request, q.Question, q.Shown = a.request.Key(), a, translate.SizeOf(asks)
	qs.Add(q)
	qs.out.Emit(q.Turn, asks)
}

// askedAgain processes a question with the request id of an open question. If
// the two differ, an answer to the first could be taken as the answer to the
// second. So both are denied: reply is the message that does this, and due is
// true.
func (qs *questions) askedAgain(m jsonrpc.Message) (reply jsonrpc.Message, due bool) {
	q, changed := qs.Changed(m.ID.Key(), askedDigest(m))
	if !changed {
		return reply, false
	}
	qs.out.Emit(q.Turn, translate.ArgumentsChanged)
	qs.out.Emit(q.Turn, translate.Withdrawn(q.ID))
	return jsonrpc.NewFailure(m.ID, jsonrpc.CodeInvalidRequest, "the request changed before the user decided; ask again"), true
}

// decided processes a response that Runnel sends, and returns the approval and
// the choice that it is for. It reports false for a response to anything else.
func (qs *questions) decided(m jsonrpc.Message) (a *approval, choice string, ok bool) {
	q, ok := qs.ByRequest(m.ID.Key())
	if !ok {
		return nil, "", false
	}
	qs.Remove(q.ID)
	choice = q.Question.choiceOf(m.Result)
	qs.out.Emit(q.Turn, translate.Resolved(q.ID, choice))
	return q.Question, choice, true
}

// withdrawn processes the agent's message that a question is settled. If the
// question is still open, the agent withdrew it. Turns that contained only a
// settled question end here and not when the response is sent: a live session
// does not receive the events of a sent line.
func (qs *questions) withdrawn(request jsonrpc.ID) {
	if q, ok := qs.ByRequest(request.Key()); ok {
		qs.Remove(q.ID)
		qs.out.Emit(q.Turn, translate.Withdrawn(q.ID))
	}
	for _, turn := range qs.Settled() {
		qs.out.Emit(turn, event.ResponseDone{Status: event.StatusCompleted})
	}
}

// moveOut removes from an ended turn the questions of subagents that still
// work. If the user interrupted the turn, moveOut returns denials for the
// questions. Otherwise it returns the questions, and the caller asks them
// again.
func (qs *questions) moveOut(over *turn, subagents map[string]*subagentTurn) (left []translate.Approval[*approval], denials []jsonrpc.Message) {
	for _, q := range qs.Of(over.id) {
		if subagents[q.Question.native] == nil {
			continue
		}
		qs.Remove(q.ID)
		if !over.interrupted {
			left = append(left, q)
		} else if m, err := q.Question.denial(); err == nil {
			denials = append(denials, m)
		}
	}
	return left, denials
}

// askOutOfTurn asks a question of an ended turn again, in a turn that contains
// only this question.
func (qs *questions) askOutOfTurn(q translate.Approval[*approval], started event.ResponseStart) {
	q.ID = derive("approval beside " + q.ID)
	q.Turn, q.OutOfTurn = derive("question beside "+q.ID), true
	q.Question.shown.ID, q.Question.shown.ItemID = q.ID, ""
	qs.Add(q)
	qs.out.Emit(q.Turn, started)
	qs.out.Emit(q.Turn, event.ApprovalRequested{Approval: q.Question.shown})
}

// denial returns the response that denies the question and stops the agent.
// That is the last choice of each question.
func (a *approval) denial() (jsonrpc.Message, error) {
	return jsonrpc.NewResult(a.request, a.choices[len(a.choices)-1].result)
}

// describe sets the text and the choices of a question. call is the tool call
// that the question is about, or nil. It reports false if the question is
// unknown or cannot be shown.
func (a *approval) describe(q question, call *piece) (ok bool) {
	ok = true
	switch a.method {
	case askCommand:
		a.shown = a.command(q, call)
	case askFileChange:
		a.shown = a.fileChange(q, call)
	case askPermissions:
		a.shown = a.permissions(q)
	case askUser:
		a.shown, ok = a.user(q)
	case askElicitation:
		a.shown, ok = a.elicitation(q)
	default:
		ok = false
	}
	return ok
}

func (a *approval) add(id string, kind event.ChoiceKind, label string, result any) {
	a.choices = append(a.choices, choice{Choice: event.Choice{ID: id, Kind: kind, Label: label}, result: translate.Object(result)})
}

// stop adds the choice that denies the request and ends the turn. interrupt is
// true if the agent does not end the turn by itself.
func (a *approval) stop(result any, interrupt bool) {
	a.add(translate.DenyStop, event.ChoiceDenyStop, "Deny and stop", result)
	a.choices[len(a.choices)-1].stops = interrupt
}

type decided map[string]any

func present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// command describes a request to run a command, which may be that of the call
// c. It offers all choices. The agent (0.169.0) lists only some of them, but
// accepts the others as well.
func (a *approval) command(q question, c *piece) event.Approval {
	if q.Command == "" && q.ApprovalID == "" && c != nil && c.kind == "commandExecution" {
		known := translate.DecodeLenient[item](c.args)
		q.Command, q.CWD = known.Command, known.CWD
	}
	a.unseen = q.Command == "" && q.Network == nil
	ev := event.Approval{Kind: event.ApprovalTool, ToolName: "shell", Title: cmp.Or(oneLine(script(q.Command), 300), "Run a command")}
	args := map[string]any{"command": q.Command, "cwd": q.CWD}
	if present(q.Further) {
		args["additionalPermissions"] = q.Further
	}
	switch {
	case q.Network != nil:
		ev.Title = oneLine("Connect to "+q.Network.Host, 300)
		args["host"], args["protocol"] = q.Network.Host, q.Network.Protocol
	case q.Kind == "writeStdin":
		ev.Title = oneLine("Write to a running command: "+script(q.Command), 300)
		ev.ToolName = "write_stdin" // the request does not contain the input, and is no permission to run the command
	}
	ev.Arguments = translate.Object(args)
	// A question about a part of a command has an approval id.
	if (q.Kind == "" || q.Kind == "command") && q.ApprovalID == "" && q.Network == nil && !present(q.Further) {
		a.about = ev.Arguments
	}
	if !a.unseen {
		a.allowCommand(q)
	}
	a.add(translate.Deny, event.ChoiceDeny, "Deny", decided{"decision": "decline"})
	a.stop(decided{"decision": "cancel"}, false)
	return ev
}

// allowCommand adds the choices that allow a command.
func (a *approval) allowCommand(q question) {
	a.add(translate.AllowOnce, event.ChoiceAllowOnce, "Allow once", decided{"decision": "accept"})
	a.add(translate.AllowSession, event.ChoiceAllowSession, "Allow for this session", decided{"decision": "acceptForSession"})
	if label := oneLine("Always allow commands that begin with: "+strings.Join(q.Amendment, " "), 4*translate.MaxLabel); len(q.Amendment) > 0 && len(label) <= translate.MaxLabel {
		a.add(translate.AllowAlways, event.ChoiceAllowAlways, label, decided{"decision": decided{"acceptWithExecpolicyAmendment": decided{"execpolicy_amendment": q.Amendment}}})
	}
	for _, raw := range q.Hosts[:min(len(q.Hosts), 10)] {
		h := translate.DecodeLenient[struct{ Host, Action string }](raw)
		if h.Action == "allow" && len(h.Host) <= 200 && !a.has(translate.AllowAlways) {
			a.add(translate.AllowAlways, event.ChoiceAllowAlways, oneLine("Always allow "+h.Host, translate.MaxLabel), decided{"decision": decided{"applyNetworkPolicyAmendment": decided{"network_policy_amendment": raw}}})
		}
	}
}

func (a *approval) has(id string) bool {
	for _, c := range a.choices {
		if c.ID == id {
			return true
		}
	}
	return false
}

// fileChange describes a request to apply the patch of the call c. If the agent
// has not reported the patch, the request can only be denied.
func (a *approval) fileChange(q question, c *piece) event.Approval {
	ev := event.Approval{Kind: event.ApprovalTool, ToolName: "apply_patch", Title: "Edit files"}
	if c != nil && c.kind == "fileChange" {
		ev.Title, ev.Arguments, ev.Changes = c.title, c.args, c.changes
	}
	a.unseen = len(ev.Changes) == 0 || len(ev.Changes) == maxChanges // the patch may change more files
	a.about = translate.Arguments(ev.Arguments)
	ev.Arguments = a.about
	session := "Allow edits of these files for this session"
	if q.GrantRoot != "" {
		args := translate.DecodeLenient[map[string]any](a.about)
		args["grantRoot"] = q.GrantRoot
		ev.Arguments = translate.Object(args)
		session = "Allow edits in " + q.GrantRoot + " for this session"
	}
	if !a.unseen {
		a.add(translate.AllowOnce, event.ChoiceAllowOnce, "Allow once", decided{"decision": "accept"})
		if session == oneLine(session, translate.MaxLabel) { // otherwise people would not see the whole path of the folder
			a.add(translate.AllowSession, event.ChoiceAllowSession, session, decided{"decision": "acceptForSession"})
		}
	}
	a.add(translate.Deny, event.ChoiceDeny, "Deny", decided{"decision": "decline"})
	a.stop(decided{"decision": "cancel"}, false)
	return ev
}

// permissions describes a request for more than the sandbox allows.
func (a *approval) permissions(q question) event.Approval {
	granted := translate.Arguments(q.Permissions)
	a.add(translate.AllowOnce, event.ChoiceAllowOnce, "Allow for this turn", decided{"permissions": granted, "scope": "turn"})
	a.add(translate.AllowSession, event.ChoiceAllowSession, "Allow for this session", decided{"permissions": granted, "scope": "session"})
	none := decided{"permissions": decided{}, "scope": "turn"}
	a.add(translate.Deny, event.ChoiceDeny, "Deny", none)
	a.stop(none, true)
	return event.Approval{
		Kind: event.ApprovalTool, ToolName: "request_permissions", Title: "Give the agent more permissions",
		Arguments: translate.Object(map[string]any{"permissions": granted, "cwd": q.CWD}),
	}
}

// elicitation describes a request of an MCP server for values, or for the user
// to open a page. The agent uses the same request to ask for permission to call
// a tool of the server.
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
		if q.Meta.Tool != "" {
			ev.ToolName = oneLine("mcp__"+q.Server+"__"+q.Meta.Tool, 200)
		}
		ev.Arguments = translate.Object(map[string]any{"server": q.Server, "title": q.Meta.Title, "description": clip(q.Meta.About, 2000), "arguments": translate.Arguments(q.Meta.Params)})
		a.add(translate.AllowOnce, event.ChoiceAllowOnce, "Allow once", answer("accept", decided{}, nil))
		for _, p := range persists(q.Meta.Persist) {
			switch p {
			case "session":
				a.add(translate.AllowSession, event.ChoiceAllowSession, "Allow this tool for this session", answer("accept", decided{}, decided{"persist": p}))
			case "always":
				a.add(translate.AllowAlways, event.ChoiceAllowAlways, "Always allow this tool", answer("accept", decided{}, decided{"persist": p}))
			}
		}
	case q.Mode == "form" || q.Mode == "openai/form" || q.Mode == "openaiForm":
		ev.Arguments, ev.ArgumentsEditable = translate.Object(map[string]any{"message": q.Message, "schema": translate.Arguments(q.Schema)}), true
		a.form = true
		a.add(translate.AllowOnce, event.ChoiceAllowOnce, "Send", answer("accept", decided{}, nil))
	case q.Mode == "url" && !strings.HasPrefix(q.URL, "https://") && !strings.HasPrefix(q.URL, "http://"):
		return ev, false
	case q.Mode == "url":
		ev.Arguments = translate.Object(map[string]any{"message": q.Message, "url": q.URL})
		a.add(translate.AllowOnce, event.ChoiceAllowOnce, "Done", answer("accept", decided{}, nil))
	default:
		return ev, false
	}
	a.add(translate.Deny, event.ChoiceDeny, "Decline", no)
	a.stop(stop, true)
	return ev, true
}

// persists decodes the durations for which an approval can hold: one string, or
// a list of strings.
func persists(raw json.RawMessage) []string {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}
	}
	words := translate.DecodeLenient[[]string](raw)
	return words[:min(len(words), 2)]
}

// fill returns the result of a choice. If the user has entered values, the
// result contains them.
func (a *approval) fill(c choice, values json.RawMessage) (json.RawMessage, error) {
	if a.questions != nil {
		return a.questions.fill(c, values)
	}
	if len(values) == 0 {
		return c.result, nil
	}
	content, err := translate.Values(values)
	if err != nil {
		return nil, err
	}
	if a.method != askElicitation || !a.form || c.ID != translate.AllowOnce {
		return nil, runnel.Fail(runnel.InvalidRequest, "updatedArguments: Codex does not allow changed arguments here")
	}
	return json.Marshal(decided{"action": "accept", "content": content, "_meta": nil})
}

// choiceOf returns the id of the choice that a result is for.
func (a *approval) choiceOf(result json.RawMessage) string {
	if a.questions != nil {
		return a.questions.choiceOf(result)
	}
	for _, c := range a.choices {
		if sameJSON(c.result, result) {
			return c.ID
		}
	}
	r := translate.DecodeLenient[struct{ Action string }](result)
	if r.Action == "accept" {
		return translate.AllowOnce
	}
	return translate.Deny
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	return string(translate.Object(x)) == string(translate.Object(y))
}
