package acp

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
)

func itoa(n int) string { return strconv.Itoa(n) }

// finish ends the turn in flight as the agent says.
func (t *translator) finish(stop string, u *usage, failed *jsonrpc.Error) {
	tn := t.running()
	used := t.spent(u)
	reason := oneLine(stop, 100)
	switch {
	case tn.interrupted || tn.refused && stop == "cancelled": // whatever the answer is, an error among it
		t.end(event.ResponseDone{Status: event.StatusCancelled, FinishReason: reason, Usage: used})
	case failed != nil:
		t.forget(tn, failed)
		t.end(event.ResponseError{Error: t.fault(failed)})
	case stop == "error":
		t.end(event.ResponseError{Error: t.fault(&jsonrpc.Error{})})
	case stop == "cancelled":
		t.end(event.ResponseDone{Status: event.StatusCancelled, FinishReason: reason, Usage: used})
	case stop == "refusal":
		t.end(event.ResponseError{Error: runnel.Fail(runnel.AgentError, "The model declined to answer. Put it in other words, start a new conversation, or choose another model.").Fault()})
	case stop == "max_turn_requests":
		t.end(event.ResponseError{Error: runnel.Fail(runnel.AgentError, "The agent stopped: it made as many model calls as it may in a turn. Send a prompt to go on.").Fault()})
	default:
		if failed := t.q.live.failed; failed != nil && tn.said != "" && failed(tn.said, tn.saidID, used) {
			t.end(event.ResponseError{Error: t.fault(&jsonrpc.Error{Message: tn.said})})
			return
		}
		t.end(event.ResponseDone{Status: event.StatusCompleted, FinishReason: reason, Usage: used})
	}
}

// forget abandons the last message if it is the failure's own text: agents say
// it in the model's place, too.
func (t *translator) forget(tn *turn, failed *jsonrpc.Error) {
	th := tn.thread("")
	if th.open != nil && th.open.typ == event.TypeMessage && strings.TrimSpace(th.open.text.String()) == strings.TrimSpace(failed.Message) {
		t.abandon(th, "")
	}
}

// spent returns, and tells, what the turn used.
func (t *translator) spent(u *usage) *event.Usage {
	if u == nil {
		return nil
	}
	n := *u
	if t.q.live.totals {
		before := t.Used
		t.Used = n
		if n.Input >= before.Input && n.Output >= before.Output {
			n = usage{
				n.Input - before.Input, n.Output - before.Output, max(n.CachedRead-before.CachedRead, 0),
				max(n.CachedWrite-before.CachedWrite, 0), max(n.Thought-before.Thought, 0),
			}
		}
	}
	if n == (usage{}) {
		return nil
	}
	out := &event.Usage{
		InputTokens: n.Input, OutputTokens: n.Output, CacheReadInputTokens: n.CachedRead,
		CacheCreationInputTokens: n.CachedWrite, ReasoningTokens: n.Thought,
	}
	t.emit(event.UsageUpdated{Usage: out})
	return out
}

// end closes what is open and emits the terminal event. A question that is
// open is answered as the protocol wants it: the agent gave it up.
func (t *translator) end(b event.Body) {
	tn := t.running()
	done, _ := b.(event.ResponseDone)
	whole := done.Status == event.StatusCompleted
	var why event.CancelReason
	if done.Status == event.StatusCancelled {
		why = event.ReasonUserCancel
	}
	for _, parent := range slices.Sorted(maps.Keys(tn.threads)) {
		if th := tn.threads[parent]; why == "" { // also in a turn that failed: what was said was said
			t.close(th)
		} else {
			t.abandon(th, why)
		}
	}
	for _, c := range sorted(tn.calls) {
		t.settle(c, whole, why)
	}
	for _, id := range t.Waiting() {
		a := t.approvals[id]
		delete(t.approvals, id)
		t.reply(a.cancelled())
		t.emit(event.ApprovalResolved{ApprovalID: id, Choice: event.ChoiceWithdrawn, By: event.ByAgent})
	}
	t.emit(b)
	t.turn, t.Said = nil, tn.saidID
	if len(t.waiting) > 0 {
		next := t.waiting[0]
		t.waiting = t.waiting[1:]
		t.begin(next)
	}
}

// sorted returns calls in the order in which they began.
func sorted(calls map[string]*call) []*call {
	return slices.SortedFunc(maps.Values(calls), func(a, b *call) int { return a.order - b.order })
}

// fault puts a failure into words, with the agent's reason in one line.
func (t *translator) fault(e *jsonrpc.Error) event.Fault {
	why := reasonOf(e.Message)
	kind := decodeLoose[struct {
		Kind string `json:"errorKind"`
	}](e.Data).Kind
	told := func(code runnel.Code, message string) event.Fault {
		if why != "" {
			message += " (" + why + ")"
		}
		return event.Fault{Code: string(code), Message: message}
	}
	switch {
	case e.Code == codeAuthRequired:
		do := ""
		if t.login != "" {
			do = " Run: " + t.login
		}
		return event.Fault{Code: string(runnel.AgentNotLoggedIn), Message: t.agent.Name + " is not logged in, or its login is no longer good." + do}
	case e.Code == 401 || e.Code == 403 || strings.HasPrefix(kind, "auth"):
		return told(runnel.InvalidAPIKey, "The model API refused the key or the login. Check it.")
	case e.Code == 429 || kind == "rate_limit":
		return told(runnel.RateLimited, "The model API's rate or usage limit is reached. Wait, then send the prompt again.")
	case why == "":
		return event.Fault{Code: string(runnel.AgentError), Message: t.agent.Name + " ended the turn with an error and gave no reason. Send the prompt again."}
	}
	return event.Fault{Code: string(runnel.AgentError), Message: t.agent.Name + " ended the turn with an error: " + why}
}

// reasonOf finds the reason in an error's text, which may be the body of an
// API's answer.
func reasonOf(text string) string {
	text = strings.TrimSpace(text)
	for _, prefix := range []string{"Internal error: ", "Error: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	if strings.HasPrefix(text, "{") {
		body := decodeLoose[struct {
			Message string          `json:"message"`
			Error   json.RawMessage `json:"error"`
		}]([]byte(text))
		inner := decodeLoose[struct {
			Message string `json:"message"`
		}](body.Error).Message
		switch {
		case inner != "":
			text = inner
		case body.Message != "":
			text = body.Message
		default:
			text = decodeLoose[string](body.Error)
		}
	}
	return oneLine(text, 300)
}
