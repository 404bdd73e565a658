package command

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/audit"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/access"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/internal/strictjson"
	"github.com/runnel-dev/runnel/profile"
)

// Options are a client's choices of how an agent runs.
type Options struct {
	runnel.Options
	Choice   gateway.Choice
	Warnings []string // about fields without effect
	Power    string   // what lets the agent act without asking, for the audit log; empty if nothing does
}

// record records in the audit log that the caller chooses o for a session, if o
// lets the agent act without asking. kind says in which request.
func (o Options) record(ctx context.Context, kind audit.Action, session string) error {
	if o.Power == "" {
		return nil
	}
	return access.Record(ctx, audit.Record{Kind: kind, Session: session, What: o.Power})
}

// RecordCreation records in the audit log that the caller creates a session
// with o in a directory, if o lets the agent act without asking.
func (o Options) RecordCreation(ctx context.Context, cliType, dir string) error {
	if o.Power != "" {
		o.Power += " with " + cliType + " in " + dir
	}
	return o.record(ctx, audit.SessionCreated, "")
}

// RecordFork records in the audit log that the caller creates a session with the
// options of another one, if they let the agent act without asking.
func RecordFork(ctx context.Context, opt runnel.Options, from string) error {
	o := Options{Power: strings.Join(powersOf(opt), ", ")}
	if o.Power != "" {
		o.Power += " in a fork of " + from
	}
	return o.record(ctx, audit.SessionCreated, "")
}

// profileOptions are the options that the gateway applies, and not the agent.
type profileOptions struct {
	Persona            string          `json:"persona,omitempty"`
	Mode               string          `json:"mode,omitempty"`
	Delegation         string          `json:"delegation,omitempty"`
	SubagentGovernance json.RawMessage `json:"subagentGovernance,omitempty"`
	Worktree           bool            `json:"worktree,omitempty"`
}

// CallersOptions decodes the options in r. Errors and warnings name them as
// members of field; an empty field means that the options are the whole body.
//
// A caller that is bound to a project may add no directories. Some options need
// the scope approve: those that answer an agent's questions in advance, and
// those that make it run a command without asking.
func CallersOptions(r *http.Request, field string, data json.RawMessage) (Options, error) {
	opt, err := decodeOptions(field, data)
	if err == nil && len(opt.AddDirs) > 0 && access.Caller(r.Context()).Project != "" {
		return Options{}, runnel.Fail(runnel.Forbidden, "addDirs: this credential is for one project, and its agents work in no other directory")
	}
	if err != nil {
		return opt, err
	}
	powers := powersOf(opt.Options)
	opt.Power = strings.Join(powers, ", ")
	switch {
	case access.Caller(r.Context()).Has(auth.Approve):
		return opt, nil
	case len(powers) == 0:
		opt.Choice.Unattended = true
		return opt, nil
	}
	return Options{}, runnel.Fail(runnel.Forbidden, powers[0]+": this can let the agent act without asking. This needs the scope \"approve\", which this credential lacks")
}

// powersOf returns the options that can let an agent act without asking.
func powersOf(opt runnel.Options) (names []string) {
	if len(opt.MCPServers) > 0 {
		names = append(names, "mcpServers")
	}
	if len(opt.Config) > 0 { // any setting may change what the agent does without asking
		names = append(names, "config")
	}
	if !opt.Egress.IsZero() {
		names = append(names, "egress")
	}
	if opt.PermissionMode == runnel.ModeAcceptEdits || opt.PermissionMode == runnel.ModeBypass {
		names = append(names, "permissionMode "+strictjson.Quote(string(opt.PermissionMode)))
	}
	return names
}

// maxUnknown is the number of unknown options that warnings name. The server
// may store the warnings together with the answer to a prompt.
const maxUnknown = 20

// decodeOptions decodes the options of a client. Unlike in other bodies, an
// unknown field is ignored, with a warning. A field that differs from a known
// one only in case is an error, as in other bodies.
func decodeOptions(field string, data json.RawMessage) (Options, error) {
	var out Options
	whole, prefix := field, field+"."
	if field == "" {
		whole, prefix = "the body", ""
	}
	if len(data) == 0 || string(data) == "null" {
		return out, nil
	}
	if err := strictjson.Check(data); err != nil {
		return out, reply.Invalid(whole + ": " + err.Error())
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		return out, reply.Invalid(whole + ": must be an object")
	}
	ours, others := strictjson.Fields(reflect.TypeFor[runnel.Options]()), strictjson.Fields(reflect.TypeFor[profileOptions]())
	profiled := make(map[string]json.RawMessage)
	for key, value := range members {
		if t, ok := ours[key]; ok {
			if t.Kind() == reflect.Struct { // an unknown field there could limit what is allowed, so it is not ignored
				if err := strictjson.Decode(value, reflect.New(t).Interface()); err != nil {
					return out, reply.Invalid(prefix + key + ": " + err.Error())
				}
			}
			continue
		}
		delete(members, key)
		if _, ok := others[key]; ok {
			profiled[key] = value
			continue
		}
		if strictjson.Almost(key, ours) || strictjson.Almost(key, others) {
			return out, reply.Invalid(prefix + strictjson.Unknown(key, ours))
		}
		out.Warnings = append(out.Warnings, prefix+strictjson.Quote(key)+": unknown, ignored")
	}
	slices.Sort(out.Warnings)
	if more := len(out.Warnings) - maxUnknown; more > 0 {
		out.Warnings = append(out.Warnings[:maxUnknown:maxUnknown], fmt.Sprintf("%s: %d further fields are unknown, ignored", whole, more))
	}
	if err := reply.Fit(field, members, &out.Options); err != nil {
		return out, err
	}
	var p profileOptions
	if err := reply.Fit(field, profiled, &p); err != nil {
		return out, err
	}
	out.Choice.Persona, out.Choice.Delegation, out.Choice.Worktree = p.Persona, p.Delegation, p.Worktree
	if len(p.SubagentGovernance) > 0 && string(p.SubagentGovernance) != "null" {
		if out.Choice.Governance = profile.ParseGovernance(p.SubagentGovernance); out.Choice.Governance == nil {
			return out, reply.Invalid(prefix + "subagentGovernance: must be an object with contextSealed, pipelineRunApproved and approvalRef")
		}
	}
	return out, CheckMode(prefix+"mode", p.Mode)
}

// CheckMode rejects a mode for a session, because profiles have no modes. field
// is the name of the mode in the error.
func CheckMode(field, mode string) error {
	if mode == "" {
		return nil
	}
	return runnel.Fail(runnel.UnsupportedCapability, field+": profiles of this server have no modes; leave it out, or use permissionMode")
}
