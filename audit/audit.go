// Package audit records every answer to an approval: what was decided, and
// which person, program, rule or timeout decided it.
package audit

import (
	"context"
	"log/slog"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
)

// A Record describes one resolved approval.
type Record struct {
	At         time.Time
	Session    string
	Turn       string
	Approval   string         // id of the approval
	By         event.Resolver // kind of the decider: user, policy, timeout or agent
	Who        string         // name of the credential or of the policy source; empty for timeouts and agents
	Credential string         // id of the credential; empty unless By is user
	What       string         // the tool and the title of the approval, on one line
	Choice     string         // id of the choice; "withdrawn" if no choice was made
	Why        string         // reason of the decision
	Digest     string         // digest of the arguments on which the decision was made
	Edited     bool           // the decision changed the arguments
	Rule       int64          // number of the stored rule that decided, or that was stored with a person's decision; 0 if none
}

const maxWhat = 300 // in bytes

// Of returns the record of a resolved approval of a session.
func Of(session string, d runnel.Decided) Record {
	what := d.Approval.Title
	if d.Approval.ToolName != "" {
		what = d.Approval.ToolName + ": " + what
	}
	return Record{
		At: d.At, Session: session, Turn: d.Turn, Approval: d.Approval.ID, By: d.Resolved.By,
		Who: d.Maker.Name, Credential: d.Maker.Credential, What: text.OneLine(what, maxWhat),
		Choice: d.Resolved.Choice, Why: d.Resolved.Reason, Digest: d.Approval.ArgumentsDigest,
		Edited: len(d.Resolved.UpdatedArguments) > 0, Rule: d.Maker.Rule,
	}
}

// Log returns a function for Config.Audit of the gateway that logs each record.
func Log(log *slog.Logger) func(Record) {
	return func(r Record) {
		attrs := []slog.Attr{
			slog.String("session", r.Session), slog.String("turn", r.Turn), slog.String("approval", r.Approval),
			slog.String("by", string(r.By)), slog.String("choice", r.Choice), slog.String("what", r.What), slog.String("digest", r.Digest),
		}
		for _, a := range []struct{ key, value string }{{"who", r.Who}, {"credential", r.Credential}, {"why", r.Why}} {
			if a.value != "" {
				attrs = append(attrs, slog.String(a.key, a.value))
			}
		}
		if r.Edited {
			attrs = append(attrs, slog.Bool("edited", true))
		}
		if r.Rule != 0 {
			attrs = append(attrs, slog.Int64("rule", r.Rule))
		}
		log.LogAttrs(context.Background(), slog.LevelInfo, "approval decided", attrs...)
	}
}
