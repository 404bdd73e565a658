// Package command does what clients ask of a session, whichever way they ask:
// over HTTP, as a harness, or in a message on the WebSocket.
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
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/access"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/internal/strictjson"
	"github.com/runnel-dev/runnel/profile"
)

// The bodies that all ways share.
type (
	// SendRequest is a prompt.
	SendRequest struct {
		Content     string            `json:"content" required:"false" doc:"may be blank if there are attachments"`
		Attachments []json.RawMessage `json:"attachments,omitempty"`
		Opts        json.RawMessage   `json:"opts,omitempty"`
		Queue       bool              `json:"queue,omitempty" doc:"wait for the running turn instead of failing"`
		TurnID      string            `json:"turnId,omitempty" doc:"a UUID that the client chooses for the turn: sent again with the same id, the prompt makes no second turn"`
	}
	// SendAnswer is what became of a prompt.
	SendAnswer struct {
		TurnID   string   `json:"turnId"`
		Queued   bool     `json:"queued,omitempty"`
		Warnings []string `json:"warnings,omitempty"`

		Resolved profile.Resolved `json:"resolved,omitempty" doc:"the turn's options by name, with the source that each is from; absent if the prompt is queued"`
	}
	// DecideRequest answers an approval.
	DecideRequest struct {
		Choice           string          `json:"choice" doc:"id of one of the approval's choices"`
		UpdatedArguments json.RawMessage `json:"updatedArguments,omitempty"`
		Reason           string          `json:"reason,omitempty"`
		ArgumentsDigest  string          `json:"argumentsDigest,omitempty" doc:"the approval's: of the arguments that this answer is about; required to approve"`
		Remember         *RuleRequest    `json:"remember,omitempty" doc:"a rule to store, that decides calls like this one in the same way from now on"`
	}
	// OptionsAnswer is a session with its settings changed.
	OptionsAnswer struct {
		gateway.Status
		Warnings []string `json:"warnings,omitempty"`
	}
)

// Commands act on the sessions that the caller of a request may know of.
type Commands struct{ Sessions access.Sessions }

// An Accepted prompt has a turn.
type Accepted struct {
	gateway.Sent
	Body     json.RawMessage // a SendAnswer
	Warnings []string        // about fields that were ignored, for a stream of the turn
	Replayed bool            // a request before this one was the same, and got the same answer
}

// Send begins a turn, or queues the prompt. Field is what the client calls the
// content, key its Idempotency-Key. The shape of the whole request is checked
// before the session is looked up. A missing login that the agent reports when
// it starts is an error before the turn begins.
func (c Commands) Send(r *http.Request, id, field, key string, in SendRequest) (Accepted, error) {
	return c.send(r, id, field, key, in, true)
}

func (c Commands) send(r *http.Request, id, field, key string, in SendRequest, awaitLogin bool) (Accepted, error) {
	var out Accepted
	p, warnings, err := prompt(r, field, in)
	if err != nil {
		return out, err
	}
	p.AwaitLogin = awaitLogin
	if id, err = c.Sessions.Mine(r.Context(), id); err != nil {
		return out, err
	}
	// By what the caller may know of: an agent's id can be that of sessions in
	// several projects, and whoever repeats a request gets the stream of its
	// turn.
	a, err := c.Once(r, key, in.TurnID, "send "+id, in, func(ctx context.Context) (any, error) {
		var err error
		out.Sent, err = c.Sessions.Gateway.Send(ctx, id, p)
		return answer(out.Sent, warnings), err
	})
	if err != nil {
		return out, err
	}
	if a.Replayed {
		var first SendAnswer
		_ = json.Unmarshal(a.Body, &first) // we wrote it
		out.SessionID, out.TurnID, out.Resolved = a.Session, a.Turn, first.Resolved
	}
	out.Body, out.Warnings, out.Replayed = a.Body, warnings, a.Replayed
	return out, nil
}

// answer returns the answer to a prompt that was accepted, with the warnings
// about its options and the one about rejected attachments. A stream of the
// turn has a notice about those.
func answer(sent gateway.Sent, warnings []string) SendAnswer {
	if sent.Warning != "" {
		warnings = append(warnings, sent.Warning)
	}
	return SendAnswer{TurnID: sent.TurnID, Queued: sent.Queued, Warnings: warnings, Resolved: sent.Resolved}
}

// prompt decodes a prompt. It also returns warnings.
func prompt(r *http.Request, field string, in SendRequest) (p gateway.Prompt, warnings []string, err error) {
	if err := runnel.CheckPrompt(field, in.Content, len(in.Attachments)); err != nil {
		return p, nil, err
	}
	if err := checkTurnID(in.TurnID); err != nil {
		return p, nil, err
	}
	if err := checkCommand(r, field, in.Content); err != nil {
		return p, nil, err
	}
	opt, err := CallersOptions(r, "opts", in.Opts)
	if err != nil {
		return p, nil, err
	}
	refs := make([]attach.Ref, len(in.Attachments))
	for i, a := range in.Attachments {
		if err := json.Unmarshal(a, &refs[i]); err != nil {
			return p, nil, reply.Invalid(fmt.Sprintf("attachments.%d: needs either path or uploadId", i))
		}
	}
	if opt.Choice.Delegation != "" {
		return p, nil, runnel.Fail(runnel.UnsupportedCapability, "opts.delegation: can be chosen with a new session only")
	}
	return gateway.Prompt{
		TurnID: in.TurnID, Text: in.Content, Attachments: refs, Options: opt.Options, Queue: in.Queue,
		Persona: opt.Choice.Persona, Governance: opt.Choice.Governance, Unattended: opt.Choice.Unattended,
	}, opt.Warnings, nil
}

// checkCommand refuses a prompt that an agent may take for a command of its
// own, unless the caller may approve. A command changes at once what the agent
// asks about: Qwen Code's /config writes the user's settings, and Gemini CLI's
// "/extensions link", also written "$extensions link", starts programs. Agents
// offer commands that they do not list, and skip what they call white space
// before a command, so the first visible character decides.
func checkCommand(r *http.Request, field, content string) error {
	content = strings.TrimLeftFunc(content, func(c rune) bool { return unicode.In(c, unicode.White_Space, unicode.Z, unicode.C) })
	if content == "" || !strings.ContainsRune(commandSigns, rune(content[0])) || access.Caller(r.Context()).Has(auth.Approve) {
		return nil
	}
	return runnel.Fail(runnel.Forbidden, field+": a prompt that begins with "+strictjson.Quote(content[:1])+
		" may be a command, which changes what the agent does without asking; this credential lacks the scope \"approve\", which that needs. Begin the prompt with a word")
}

// commandSigns are the characters with which commands of agents begin: those
// for the agent itself, and those for a shell.
const commandSigns = "/$!"

// Decide answers an approval.
func (c Commands) Decide(r *http.Request, id, approval string, in DecideRequest) (DecideAnswer, error) {
	if in.Choice == "" {
		return DecideAnswer{}, reply.Invalid("choice: say which of the approval's choices it is")
	}
	id, err := c.Sessions.Mine(r.Context(), id)
	if err != nil {
		return DecideAnswer{}, err
	}
	caller := access.Caller(r.Context())
	d := runnel.Decision{
		Choice: in.Choice, UpdatedArguments: in.UpdatedArguments, Reason: reply.Bounded(in.Reason), ArgumentsDigest: in.ArgumentsDigest,
		Maker: runnel.Maker{Name: caller.Name, Credential: caller.ID},
	}
	approvals := c.Sessions.Gateway.Approvals()
	if in.Remember == nil {
		return DecideAnswer{}, approvals.Decide(r.Context(), id, approval, d)
	}
	rule, err := approvals.Remembered(r.Context(), id, approval, d, ruleOf(caller, *in.Remember))
	if err != nil {
		return DecideAnswer{}, err
	}
	if !OwnRule(r.Context(), rule) {
		return DecideAnswer{}, errNotOwn(caller)
	}
	if rule, err = approvals.DecideAndRemember(r.Context(), id, approval, d, rule); err != nil {
		return DecideAnswer{}, err
	}
	stored := RuleOf(rule)
	return DecideAnswer{&stored}, nil
}

// checkReach refuses new directories and tools for a session that exists,
// unless the caller may approve. The session may accept edits or bypass
// permissions: whoever chose that chose it for the directories and tools of
// then.
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
		return nil
	}
	return runnel.Fail(runnel.Forbidden, what+": this credential lacks the scope \"approve\", which changing this in a session needs: the session may use it without asking")
}

// SetOptions changes options of a session; in are the options as the client
// wrote them.
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
	}
	if set, others := opt.Options.Settings(); set.IsZero() && len(others) == 0 {
		return OptionsAnswer{}, reply.Invalid("nothing to change: give model, permissionMode, reasoningEffort, config or another option")
	}
	if id, err = c.Sessions.Mine(r.Context(), id); err != nil {
		return OptionsAnswer{}, err
	}
	st, err := c.Sessions.Gateway.Set(r.Context(), id, opt.Options)
	return OptionsAnswer{st, opt.Warnings}, err
}
