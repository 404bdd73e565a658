// Package command carries out the commands of clients to a session. It is the
// same for every transport: HTTP, the harness routes and the WebSocket.
package command

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"unicode"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/attach"
	"github.com/runnel-dev/runnel/audit"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/access"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/internal/strictjson"
	"github.com/runnel-dev/runnel/profile"
	"github.com/runnel-dev/runnel/rules"
	"github.com/runnel-dev/runnel/store"
)

// Request and response bodies that all transports share.
type (
	// SendRequest is a prompt.
	SendRequest struct {
		Content     string            `json:"content" required:"false" doc:"Text of the prompt. It may be blank only if there are attachments."`
		Attachments []json.RawMessage `json:"attachments,omitempty"`
		Opts        json.RawMessage   `json:"opts,omitempty"`
		Queue       bool              `json:"queue,omitempty" doc:"If a turn runs, queue the prompt until that turn ends. Default: false, which fails with TURN_IN_PROGRESS."`
		TurnID      string            `json:"turnId,omitempty" doc:"Id for the new turn, chosen by the client: a UUID in lower case. A repeated request with the same id starts no second turn. Default: the server chooses one."`
	}
	// SendAnswer is the answer to a prompt that was accepted.
	SendAnswer struct {
		TurnID   string   `json:"turnId"`
		Queued   bool     `json:"queued,omitempty" doc:"true: the prompt waits for the running turn to end."`
		Warnings []string `json:"warnings,omitempty"`

		Resolved profile.Resolved `json:"resolved,omitempty" doc:"The turn's resolved options by name, each with its source. Absent if the prompt is queued."`
	}
	// DecideRequest answers an approval.
	DecideRequest struct {
		Choice           string          `json:"choice" doc:"Id of one of the approval's choices."`
		UpdatedArguments json.RawMessage `json:"updatedArguments,omitempty" doc:"Arguments that replace those of the call, if argumentsEditable is true; for a question, the arguments with the answers; for a form, the object of its values."`
		Reason           string          `json:"reason,omitempty" doc:"Reason for a denial, passed on to the agent."`
		ArgumentsDigest  string          `json:"argumentsDigest,omitempty" doc:"The approval's argumentsDigest. Required for choices that allow: it proves that the answer is about these arguments."`
		Automatic        bool            `json:"automatic,omitempty" doc:"true: the client denies without having asked a person. The answer is then recorded as by policy instead of by user. Only for a choice that denies."`
		Remember         *RuleRequest    `json:"remember,omitempty" doc:"A rule to store, so that later calls like this one are decided in the same way."`
	}
	// OptionsAnswer is a session after its options were changed.
	OptionsAnswer struct {
		gateway.Status
		Warnings []string `json:"warnings,omitempty"`
	}
)

// Commands act on the sessions that the caller of a request may see.
type Commands struct{ Sessions access.Sessions }

// An Accepted is the result of a prompt that was accepted.
type Accepted struct {
	gateway.Sent
	Body     json.RawMessage // a SendAnswer in JSON
	Warnings []string        // about ignored fields, for a stream of the turn
	Replayed bool            // an earlier request was the same, and got the same answer
}

// Send begins a turn, or queues the prompt. field is the name of the prompt's
// content in errors, and key is the client's Idempotency-Key. The whole request
// is validated before the session is looked up. If the agent reports at its
// start that the user is not logged in, Send fails before the turn begins.
func (c Commands) Send(r *http.Request, id, field, key string, in SendRequest) (Accepted, error) {
	return c.send(r, id, field, key, in, true)
}

func (c Commands) send(r *http.Request, id, field, key string, in SendRequest, awaitLogin bool) (Accepted, error) {
	var out Accepted
	p, opt, err := prompt(r, field, in)
	if err != nil {
		return out, err
	}
	p.AwaitLogin = awaitLogin
	if id, err = c.Sessions.VisibleRef(r.Context(), id); err != nil {
		return out, err
	}
	// id is the reference that VisibleRef returned for this caller, and it is
	// part of what Once compares. The reference that the client sent may be an
	// agent's own id, which can belong to sessions in several projects. A
	// client that repeats a request gets the stream of the first request's
	// turn, so both requests must mean the same session.
	a, err := c.Once(r, key, in.TurnID, "send "+id, in, func(ctx context.Context) (any, error) {
		err := opt.record(r.Context(), audit.SessionChanged, id)
		if err == nil {
			out.Sent, err = c.Sessions.Gateway.Send(ctx, id, p)
		}
		return answer(out.Sent, opt.Warnings), err
	})
	if err != nil {
		return out, err
	}
	if a.Replayed {
		var first SendAnswer
		_ = json.Unmarshal(a.Body, &first) // cannot fail: it is our own answer
		out.SessionID, out.TurnID, out.Resolved = a.Session, a.Turn, first.Resolved
	}
	out.Body, out.Warnings, out.Replayed = a.Body, opt.Warnings, a.Replayed
	return out, nil
}

// answer returns the answer to a prompt that was accepted. It has the warnings
// about the prompt's options, and the one about rejected attachments. A stream
// of the turn reports rejected attachments in a notice instead.
func answer(sent gateway.Sent, warnings []string) SendAnswer {
	if sent.Warning != "" {
		warnings = append(warnings, sent.Warning)
	}
	return SendAnswer{TurnID: sent.TurnID, Queued: sent.Queued, Warnings: warnings, Resolved: sent.Resolved}
}

// prompt validates and decodes a prompt. It also returns the prompt's options as
// the client gave them.
func prompt(r *http.Request, field string, in SendRequest) (p gateway.Prompt, opt Options, err error) {
	if err := runnel.CheckPrompt(field, in.Content, len(in.Attachments)); err != nil {
		return p, opt, err
	}
	if err := checkTurnID(in.TurnID); err != nil {
		return p, opt, err
	}
	if err := checkCommand(r.Context(), field, in.Content); err != nil {
		return p, opt, err
	}
	opt, err = CallersOptions(r, "opts", in.Opts)
	if err != nil {
		return p, opt, err
	}
	refs := make([]attach.Ref, len(in.Attachments))
	for i, a := range in.Attachments {
		if err := json.Unmarshal(a, &refs[i]); err != nil {
			return p, opt, reply.Invalid(fmt.Sprintf("attachments.%d: needs either path or uploadId", i))
		}
	}
	if opt.Choice.Delegation != "" {
		return p, opt, runnel.Fail(runnel.UnsupportedCapability, "opts.delegation: can be chosen with a new session only")
	}
	if opt.Choice.Worktree {
		return p, opt, runnel.Fail(runnel.UnsupportedCapability, "opts.worktree: can be chosen with a new session only")
	}
	return gateway.Prompt{
		TurnID: in.TurnID, Text: in.Content, Attachments: refs, Options: opt.Options, Queue: in.Queue,
		Persona: opt.Choice.Persona, Governance: opt.Choice.Governance, Unattended: opt.Choice.Unattended,
	}, opt, nil
}

// checkCommand rejects a prompt that an agent may take for one of its own
// commands, unless the caller has the scope approve. A command takes effect
// without an approval and can change which actions need one. For example, Qwen
// Code's /config writes the user's settings. Gemini CLI's "/extensions link",
// also written "$extensions link", starts programs.
//
// Agents have commands that they do not list, and they differ in the white
// space that they skip before a command. So the first visible character
// decides.
func checkCommand(ctx context.Context, field, content string) error {
	content = strings.TrimLeftFunc(content, func(c rune) bool { return unicode.In(c, unicode.White_Space, unicode.Z, unicode.C) })
	if content == "" || !strings.ContainsRune(commandSigns, rune(content[0])) || access.Caller(ctx).Has(auth.Approve) {
		return nil
	}
	return runnel.Fail(runnel.Forbidden, field+": a prompt that begins with "+strictjson.Quote(content[:1])+
		" may be a command, which can change what the agent does without asking. This needs the scope \"approve\", which this credential lacks. Begin the prompt with a word")
}

// commandSigns are the characters with which the commands of agents begin:
// commands to the agent itself, and commands to a shell.
const commandSigns = "/$!"

// Decide answers an approval. It also stores a rule if the client asks for that
// with in.Remember.
func (c Commands) Decide(r *http.Request, id, approval string, in DecideRequest) (DecideAnswer, error) {
	if in.Choice == "" {
		return DecideAnswer{}, reply.Invalid("choice: is missing; give the id of one of the approval's choices")
	}
	id, err := c.Sessions.VisibleRef(r.Context(), id)
	if err != nil {
		return DecideAnswer{}, err
	}
	caller := access.Caller(r.Context())
	d := runnel.Decision{
		Choice: in.Choice, UpdatedArguments: in.UpdatedArguments, Reason: reply.Bounded(in.Reason), ArgumentsDigest: in.ArgumentsDigest,
		Maker: runnel.Maker{Name: caller.Name, Credential: caller.ID},
	}
	approvals := c.Sessions.Gateway.Approvals()
	if in.Automatic {
		switch {
		case in.Remember != nil:
			return DecideAnswer{}, reply.Invalid("remember: cannot be given with automatic; only a person's decision makes a rule")
		case len(in.UpdatedArguments) > 0:
			return DecideAnswer{}, reply.Invalid("updatedArguments: cannot be given with automatic, which only denies")
		}
		return DecideAnswer{}, approvals.DenyUnasked(r.Context(), id, approval, d)
	}
	if in.Remember == nil {
		return DecideAnswer{}, approvals.Decide(r.Context(), id, approval, d)
	}
	rule, err := approvals.DecideAndRemember(r.Context(), id, approval, d, RuleBy(caller, *in.Remember), func(rule store.Rule) error {
		return access.Record(r.Context(), audit.Record{Kind: audit.RuleAdded, Session: id, What: rules.Text(rule)})
	})
	if err != nil {
		return DecideAnswer{}, err
	}
	stored := RuleOf(rule)
	return DecideAnswer{&stored}, nil
}

// checkReach rejects changes with which the agent of an existing session reaches
// more, unless the caller has the scope approve: changes of its directories and
// tools, and the end of its sandbox or of its broker. The session may be in a
// mode that accepts edits or bypasses permissions. The person who chose that
// mode chose it for the reach of that time.
func checkReach(r *http.Request, opt runnel.Options) error {
	if access.Caller(r.Context()).Has(auth.Approve) {
		return nil
	}
	what := ""
	switch {
	case opt.AddDirs != nil:
		what = "addDirs"
	case opt.Tools != nil:
		what = "tools"
	case opt.DisallowedTools != nil:
		what = "disallowedTools"
	default:
		loosened := loosens(opt)
		if len(loosened) == 0 {
			return nil
		}
		what = loosened[0]
	}
	return runnel.Fail(runnel.Forbidden, what+": changing this in a session can let the agent act without asking, or reach more than before. This needs the scope \"approve\", which this credential lacks")
}

// loosens returns the options that end the sandbox of a session, or give its
// agent the API key.
func loosens(opt runnel.Options) (names []string) {
	if opt.Sandbox != "" && opt.Sandbox != runnel.SandboxProject {
		names = append(names, "sandbox")
	}
	if opt.Keys != "" && opt.Keys != runnel.KeysBroker {
		names = append(names, "keys")
	}
	return names
}

// SetOptions changes options of a session. in is a JSON object with the
// options.
func (c Commands) SetOptions(r *http.Request, id string, in json.RawMessage) (OptionsAnswer, error) {
	opt, err := CallersOptions(r, "", in)
	if err != nil {
		return OptionsAnswer{}, err
	}
	if err := checkReach(r, opt.Options); err != nil {
		return OptionsAnswer{}, err
	}
	switch {
	case opt.Choice.Persona != "":
		return OptionsAnswer{}, runnel.Fail(runnel.UnsupportedCapability, "persona: can be chosen with a prompt or a new session only")
	case opt.Choice.Delegation != "":
		return OptionsAnswer{}, runnel.Fail(runnel.UnsupportedCapability, "delegation: can be chosen with a new session only")
	case opt.Choice.Governance != nil:
		return OptionsAnswer{}, runnel.Fail(runnel.UnsupportedCapability, "subagentGovernance: can be given with a prompt or a new session only")
	case opt.Choice.Worktree:
		return OptionsAnswer{}, runnel.Fail(runnel.UnsupportedCapability, "worktree: can be chosen with a new session only")
	}
	if set, others := opt.Options.Settings(); set.IsZero() && len(others) == 0 {
		return OptionsAnswer{}, reply.Invalid("nothing to change; give model, permissionMode, reasoningEffort, config or another option")
	}
	if id, err = c.Sessions.VisibleRef(r.Context(), id); err != nil {
		return OptionsAnswer{}, err
	}
	for _, name := range loosens(opt.Options) {
		opt.Power = strings.TrimPrefix(opt.Power+", "+name+" is loosened", ", ")
	}
	if err := opt.record(r.Context(), audit.SessionChanged, id); err != nil {
		return OptionsAnswer{}, err
	}
	st, err := c.Sessions.Gateway.Set(r.Context(), id, opt.Options)
	return OptionsAnswer{st, opt.Warnings}, err
}
