// Package audit is the record of who decided what agents may do: every answer
// to an approval, by a person, a program, a rule or a timeout.
package audit

import (
	"context"
	"log/slog"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
)

// A Record is one decision.
type Record struct {
	At         time.Time
	Session    string
	Turn       string
	Approval   string         // its id
	By         event.Resolver // user, policy, timeout or agent
	Who        string         // name of the credential, or of the source of policies; empty for the others
	Credential string         // its id; empty unless By is user
	What       string         // the tool and what the approval was about, in one line
	Choice     string         // id of the choice; withdrawn if nobody answered
	Why        string         // the reason that was given
	Digest     string         // of the arguments that were decided on
	Edited     bool           // other arguments were put in their place
	Rule       int64          // number of the stored rule that decided, or that was stored with a person's decision; 0 for none
}

const maxWhat = 300 // bytes

// Of returns the record of how an approval of a session was resolved.
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

// Log returns a function that writes records to a log.
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
