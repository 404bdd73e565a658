package upsert

import (
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
)

// upsert renders the current state of e. more is the status if e is not over.
func (b *reducer) upsert(e *entry, more Status, now time.Time) Upsert {
	from := b.sources(e)
	it := from.item
	u := Upsert{
		Type: e.kind, TurnID: e.turn.id, SessionID: e.session, ItemID: e.id, ParentCallID: it.ParentCallID,
		StartedAt: it.StartedAt.UTC(), SourceTimestamp: e.at.UTC(), EmittedAt: now.UTC(), Seq: e.seq, Status: more,
	}
	switch e.state {
	case complete:
		u.Status = StatusComplete
	case failed:
		u.Status, u.ErrorCode, u.ErrorMessage = StatusError, e.fault.Code, e.fault.Message
	}
	if e.atEnd {
		u.Seq-- // a reader that resumes after it must still get the end of the turn
	}
	switch e.kind {
	case KindMessage:
		m, ok := it.Final.(event.Message)
		if !ok {
			m = event.Message{Content: text.TrimPartial(it.Content), Origin: event.OriginAgent}
		}
		u.Message = &m
	case KindThinking:
		r, ok := it.Final.(event.Reasoning)
		if !ok {
			r.Content = text.TrimPartial(it.Content)
		}
		if r.ProviderID == "" {
			r.ProviderID = e.turn.provider
		}
		u.Thinking = &r
	case KindPlan:
		p, _ := it.Final.(event.Plan)
		if p.Entries == nil {
			p.Entries = []event.PlanEntry{}
		}
		u.Plan = &p
	case KindToolCall:
		u.ToolCall = toolCall(e.outputID, it, from.output)
	}
	return u
}

func toolCall(outputID string, it, out event.Item) *ToolCall {
	tc := &ToolCall{ToolName: it.Name, CallID: it.CallID, ParentCallID: it.ParentCallID}
	if call, ok := it.Final.(event.FunctionCall); ok {
		tc.ToolArguments, tc.Kind, tc.Title, tc.Locations = call.Arguments, call.Kind, call.Title, call.Locations
	} else if it.ID != outputID {
		tc.ToolArgumentsText = text.TrimPartial(it.Content)
	}
	if f, ok := out.Final.(event.FunctionCallOutput); ok {
		tc.ToolOutput, tc.ToolOutputIsError = &f.Output, &f.IsError
		tc.Changes, tc.ExitCode, tc.Truncated, tc.TotalBytes = f.Changes, f.ExitCode, f.Truncated, f.TotalBytes
	} else if output := text.TrimPartial(out.Content); output != "" {
		tc.ToolOutput = &output
	}
	return tc
}

// turnEvent renders ev, which starts or ends a turn.
func turnEvent(ev event.Event) TurnEvent {
	te := TurnEvent{TurnID: ev.Turn, SessionID: ev.Session, Seq: ev.Seq, Timestamp: ev.At.UTC()}
	switch body := ev.Body.(type) {
	case event.ResponseStart:
		te.Type, te.ModelID, te.ProviderID = TurnStarted, body.ModelID, body.ProviderID
	case event.ResponseDone:
		if body.Status != event.StatusError {
			te.Type, te.Status, te.Usage = TurnComplete, body.Status, body.Usage
			break
		}
		f := event.Fault{Code: "AGENT_ERROR", Message: body.FinishReason}
		if body.Error != nil {
			f = *body.Error
		}
		te.Type, te.ErrorCode, te.ErrorMessage = TurnError, f.Code, f.Message
	case event.ResponseError:
		te.Type, te.ErrorCode, te.ErrorMessage = TurnError, body.Error.Code, body.Error.Message
	}
	if te.Type == TurnError && te.ErrorMessage == "" {
		te.ErrorMessage = "the agent gave no reason"
	}
	return te
}

func (b *reducer) ask(ev event.Event, r event.ApprovalRequested) Approval {
	if b.asked == nil {
		b.asked = make(map[string]question)
	}
	b.asked[askedKey(ev.Turn, r.Approval.ID)] = question{ev.Turn, r.Approval}
	return Approval{TurnID: ev.Turn, Seq: ev.Seq, Timestamp: ev.At.UTC(), Status: ApprovalPending, Approval: r.Approval}
}

// answer renders the answer to an approval. It includes the whole approval if
// the request was folded.
func (b *reducer) answer(ev event.Event, r event.ApprovalResolved) Approval {
	a := event.Approval{ID: r.ApprovalID}
	key := askedKey(ev.Turn, r.ApprovalID)
	if q, ok := b.asked[key]; ok {
		a = q.approval
		delete(b.asked, key)
	}
	return Approval{
		TurnID: ev.Turn, Seq: ev.Seq, Timestamp: ev.At.UTC(), Status: ApprovalResolved,
		Approval: a, Choice: r.Choice, By: r.By, Reason: r.Reason, Rule: r.Rule,
	}
}
