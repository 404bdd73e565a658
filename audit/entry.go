// Package audit records what people, programs and rules did with the power that
// Runnel has: logins, credentials, decisions about approvals, rules, guardrails
// and refusals.
//
// The entries are a chain: each has a code that covers it and the entry before
// it, made with a key that is not in the data directory. Who lacks the key
// cannot change, remove or insert an entry unnoticed.
package audit

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
)

// Action is what an entry is about.
type Action string

// The kinds of entries. Except for Decision, Refusal and those about the log
// itself, an entry is recorded before the action, so it can be about an action
// that then failed.
const (
	Started        Action = "server_started"
	Stopped        Action = "server_stopped"
	Login          Action = "login"
	LoginCode      Action = "login_code_created" // for one login of a browser
	Logout         Action = "logout"
	TokenCreated   Action = "token_created"
	Renamed        Action = "credential_renamed"
	Revoked        Action = "credential_revoked"
	Decision       Action = "approval_decided"
	RuleAdded      Action = "rule_added"
	RuleRemoved    Action = "rule_removed"
	SessionCreated Action = "session_created"
	SessionChanged Action = "session_settings_changed" // settings with which an agent acts without asking
	SessionDeleted Action = "session_deleted"
	CaptureChanged Action = "capture_changed"    // whether raw output of an agent is kept
	MCPAdded       Action = "mcp_server_added"   // to the configuration of an agent
	MCPRemoved     Action = "mcp_server_removed" // from the configuration of an agent
	FolderCreated  Action = "folder_created"     // for a session to come
	KeyBrokered    Action = "key_brokered"       // a broker began to hold the API key of a session's agent
	Refusal        Action = "request_refused"    // for want of a credential or a scope

	Damaged Action = "audit_damaged" // the log was found damaged; the chain goes on after the last known entry
	Dropped Action = "audit_dropped" // the oldest entries were removed, because the log was too large
)

// Actions returns all actions.
func Actions() []Action {
	return []Action{
		Started, Stopped, Login, LoginCode, Logout, TokenCreated, Renamed, Revoked, Decision, RuleAdded, RuleRemoved,
		SessionCreated, SessionChanged, SessionDeleted, CaptureChanged, MCPAdded, MCPRemoved, FolderCreated, KeyBrokered, Refusal, Damaged, Dropped,
	}
}

// A Record is one line of the log. All texts are single lines without known
// secrets.
type Record struct {
	N  uint64    `json:"n" doc:"Number of the entry: 1, 2, 3 …"`
	At time.Time `json:"at" doc:"In UTC."`

	Kind       Action         `json:"kind" doc:"What the entry is about."`
	By         event.Resolver `json:"by,omitzero" doc:"Who acted. Absent: the server itself, or an unknown caller."`
	Who        string         `json:"who,omitzero" doc:"Name of the credential or of the policy source."`
	Credential string         `json:"credential,omitzero" doc:"Id of the credential."`
	Address    string         `json:"address,omitzero" doc:"Address of the client. Absent: the request came over the unix socket, or from an agent."`

	Session  string `json:"session,omitzero" doc:"Id of the session."`
	Turn     string `json:"turn,omitzero" doc:"Id of the turn."`
	Approval string `json:"approval,omitzero" doc:"Id of the approval."`

	What   string `json:"what,omitzero" doc:"Text for people, such as the tool and the title of an approval."`
	Choice string `json:"choice,omitzero" doc:"Id of the choice of a decision; withdrawn if no choice was made."`
	Why    string `json:"why,omitzero" doc:"Reason of a decision."`
	Digest string `json:"digest,omitzero" doc:"Digest of the arguments on which a decision was made."`
	Edited bool   `json:"edited,omitzero" doc:"true: the decision changed the arguments."`
	Rule   int64  `json:"rule,omitzero" doc:"Number of the stored rule that decided, that was stored with a decision, or that was removed."`
	Count  int64  `json:"count,omitzero" doc:"Of a refusal: how many like it there were since the last entry. Of removed entries: how many."`
}

// Maximum bytes of a text in an entry.
const (
	maxText = 300
	maxName = 200
)

// Decided returns the entry of a resolved approval of a session.
func Decided(session string, d runnel.Decided) Record {
	return Record{
		At: d.At, Kind: Decision, Session: session, Turn: d.Turn, Approval: d.Approval.ID, By: d.Resolved.By,
		Who: d.Maker.Name, Credential: d.Maker.Credential, What: text.OneLine(toolAndTitle(d.Approval.ToolName, d.Approval.Title), maxText),
		Choice: d.Resolved.Choice, Why: d.Resolved.Reason, Digest: d.Approval.ArgumentsDigest,
		Edited: len(d.Resolved.UpdatedArguments) > 0, Rule: d.Maker.Rule,
	}
}

// toolAndTitle returns the title of an approval with the name of the tool before
// it, once.
func toolAndTitle(tool, title string) string {
	rest, named := strings.CutPrefix(title, tool)
	switch {
	case tool == "" || named && (rest == "" || rest[0] == ':' || rest[0] == ' '):
		return title
	case title == "":
		return tool
	}
	return tool + ": " + title
}

// Line returns a function that logs each entry in one line.
func Line(log *slog.Logger) func(Record) {
	return func(e Record) {
		attrs := []slog.Attr{slog.String("kind", string(e.Kind))}
		for _, a := range []struct{ key, value string }{
			{"session", e.Session}, {"turn", e.Turn}, {"approval", e.Approval}, {"by", string(e.By)}, {"choice", e.Choice}, {"what", e.What},
			{"digest", e.Digest}, {"who", e.Who}, {"credential", e.Credential}, {"address", e.Address}, {"why", e.Why},
		} {
			if a.value != "" {
				attrs = append(attrs, slog.String(a.key, a.value))
			}
		}
		if e.Edited {
			attrs = append(attrs, slog.Bool("edited", true))
		}
		if e.Rule != 0 {
			attrs = append(attrs, slog.Int64("rule", e.Rule))
		}
		log.LogAttrs(context.Background(), slog.LevelInfo, "audit", attrs...)
	}
}

// bounded returns e with texts that are short, single lines, and passed through
// clean.
func (e Record) bounded(clean func(string) string) Record {
	for _, field := range []struct {
		text *string
		max  int
	}{
		{&e.Who, maxName}, {&e.Credential, maxName}, {&e.Address, maxName}, {&e.Session, maxName}, {&e.Turn, maxName}, {&e.Approval, maxName},
		{&e.What, maxText}, {&e.Choice, maxName}, {&e.Why, maxText}, {&e.Digest, maxName},
	} {
		if *field.text != "" {
			*field.text = text.OneLine(clean(*field.text), field.max)
		}
	}
	return e
}
