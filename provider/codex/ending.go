package codex

import (
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel/event"
)

// How turns end: by themselves, because we ask for it, and what goes on after.

// stopping takes an interrupt of ours. One that comes before the agent began
// its turn has no effect and is repeated once it did.
func (t *translator) stopping(name, native string) {
	if tn := t.turns[native]; tn != nil {
		tn.interrupted = true
		if n, err := strconv.Atoi(strings.TrimPrefix(name, interruptPrefix+native+":")); err == nil {
			tn.stops = max(tn.stops, n)
		}
		if tn.began {
			return
		}
	}
	if _, soon := t.soon(); soon && t.current() == nil {
		t.early = true
	}
}

// soon reports whether a turn of ours is about to begin, and the agent's id of
// it if that is known.
func (t *translator) soon() (native string, ok bool) {
	for _, tn := range t.turns {
		if !tn.began && tn.agent == nil {
			return tn.native, true
		}
	}
	return "", len(t.waiting) > 0
}

// interrupt has the agent end a turn.
func (t *translator) interrupt(tn *turn) {
	if tn.stops++; tn.stops > maxInterrupts {
		return
	}
	t.request(interruptPrefix+tn.native+":"+strconv.Itoa(tn.stops), methodInterrupt, map[string]string{"threadId": t.thread, "turnId": tn.native})
}

// maxInterrupts bounds how often one is repeated.
const maxInterrupts = 5

// notStopped takes the refusal of an interrupt: 0.169 has "no active turn" in
// the instant between the two things it says of a begin, and the turn runs on.
func (t *translator) notStopped(name string) {
	rest, ok := strings.CutPrefix(name, interruptPrefix)
	if !ok {
		return
	}
	native, _, _ := strings.Cut(rest, ":")
	if tn := t.turns[native]; tn != nil && tn.began && tn.interrupted {
		t.interrupt(tn)
	}
}

// complete takes the end of a turn. What is still open then is closed:
//
//   - text that never became whole is cancelled; the agent forgets it, too;
//   - a command that runs goes on in the background. What it printed so far is its
//     output in this turn; what it printed in all is told when it ends, in a
//     turn of its own, which nobody asked for (see ended);
//   - in a turn that we interrupted everything is cancelled, and the agent is
//     told to end its commands: it would leave them running.
func (t *translator) complete(n note) {
	if n.Turn == nil {
		return
	}
	tn := t.turns[n.Turn.ID]
	if tn == nil && t.current() == nil && len(t.waiting) > 0 && !t.isOver(n.Turn.ID) {
		n.TurnID = n.Turn.ID
		tn = t.turnOf(n) // its begin was lost
	}
	if tn == nil {
		return
	}
	t.close(tn, n.Turn.Status)
	delete(t.turns, tn.native)
	if t.over = append(t.over, tn.native); len(t.over) > maxOver {
		t.over = t.over[1:]
	}
	if tn.main != nil {
		t.endInside(tn, n.Turn)
		return
	}
	t.leaveAgents(tn)
	left := t.leaveQuestions(tn)
	t.dropApprovals(tn)
	if n.Turn.Error == nil {
		n.Turn.Error = tn.failure
	}
	used := tn.usage()
	if n.Turn.Status == "interrupted" {
		t.request(cleanPrefix+tn.native, methodCleanTerminals, map[string]string{"threadId": t.thread})
	}
	t.emit(tn, outcome(n.Turn, tn.interrupted, used))
	for _, a := range left {
		t.askBeside(a)
	}
}

// close ends what is open in a turn that is over.
func (t *translator) close(tn *turn, status string) {
	var why event.CancelReason
	if tn.shown().interrupted {
		why = event.ReasonUserCancel
	}
	for _, c := range tn.inOrder() {
		if c.done {
			continue
		}
		c.done = true
		switch {
		case c.call && status == "completed" && tn.main == nil && (c.kind == "commandExecution" || c.kind == "subAgentActivity"):
			t.leave(tn, c)
		case c.call:
			if c.outputOpen {
				t.emit(tn, event.ItemCancelled{ItemID: c.id + ":output", Reason: why})
			} else if !c.called {
				t.emit(tn, event.ItemCancelled{ItemID: c.id, Reason: why})
			}
		default:
			t.abandon(tn, c, why)
		}
	}
}

// maxBehind bounds how many commands are known to go on in the background.
const maxBehind = 256

// leave tells that a command goes on in the background.
func (t *translator) leave(tn *turn, c *piece) {
	t.openOutput(tn, c)
	if c.kind == "subAgentActivity" {
		c.text = []byte("It goes on in the background.")
	}
	out := event.FunctionCallOutput{CallID: c.native, Output: string(c.text), Detail: []byte(`{"status":"inProgress"}`)}
	t.emit(tn, event.ItemDone{ItemID: c.id + ":output", FinalItem: out})
	t.emit(tn, event.Notice{Level: event.LevelInfo, Code: "TASK_GOES_ON", Message: "It goes on in the background: " + oneLine(c.title, 300)})
	if c.kind == "commandExecution" && len(t.behind) < maxBehind {
		c.text = nil
		t.behind[tn.native+" "+c.native] = c
	}
}

// ended takes the end of a command that outlived its turn: its whole output is
// a turn of its own.
func (t *translator) ended(n note) bool {
	it, key := *n.Item, n.TurnID+" "+n.Item.ID
	c := t.behind[key]
	if c == nil {
		return false
	}
	delete(t.behind, key)
	tn := &turn{id: derive(t.thread + " background " + it.ID), items: make(map[string]*piece)}
	tn.prefix = tn.id + ":"
	late := &piece{native: c.native, kind: c.kind, name: c.name, title: c.title, call: true, id: tn.prefix + "1:0"}
	t.emit(tn, event.ResponseStart{ModelID: t.config.Model, ProviderID: providerID})
	t.emit(tn, event.Notice{Level: event.LevelInfo, Code: "TASK_ENDED", Message: "A command in the background has ended: " + oneLine(c.title, 300)})
	t.callStarted(tn, late, it)
	t.output(tn, late, it)
	t.emit(tn, event.ResponseDone{Status: event.StatusCompleted})
	return true
}

// failed takes an error: one after which the agent tries again, or the reason
// why the turn is about to end.
func (t *translator) failed(n note) {
	tn := t.turnOf(n)
	if tn == nil || n.Error == nil {
		return
	}
	if !n.WillRetry {
		tn.failure = n.Error
		return
	}
	// What was streamed is abandoned: it comes again, whole, as another item.
	for _, c := range tn.inOrder() {
		if !c.done && !c.call {
			c.done = true
			t.abandon(tn, c, "")
		}
	}
	t.retrying(tn, *n.Error)
}

// maxRetries bounds the notices about retries in a row. The agent may go on for
// ever where nothing answers; then it is silent here, and counts as stalled.
const maxRetries = 12

func (t *translator) retrying(tn *turn, e turnError) {
	if e.Message == tn.retry || tn.told >= maxRetries {
		return
	}
	tn.retry = e.Message
	tn.told++
	why := "could not be reached or broke off"
	if status := errorInfo(e).status; status != 0 {
		why = "answered " + strconv.Itoa(status)
	}
	t.emit(tn, event.Notice{Level: event.LevelWarning, Code: "RETRYING", Message: "The model API " + why + ". Trying again."})
}

// counted takes how much was used.
func (t *translator) counted(n note) {
	if n.Usage == nil || n.ThreadID != t.thread {
		return
	}
	tn := t.turns[n.TurnID]
	u := n.Usage
	if tn == nil {
		t.total = &u.Total
		return
	}
	if tn.base == nil { // the conversation was resumed: what it used before is not said
		before := u.Total.minus(u.Last)
		tn.base = &before
	}
	t.total = &u.Total
	tn.used = u.Total.minus(*tn.base)
	tn.counted = true
	t.emit(tn, event.UsageUpdated{Usage: tn.usage(), ContextTokens: max(u.Last.Total, 0), ContextWindow: max(u.Window, 0)})
}

// nearLimit is from how much of a limit on it counts as nearly used up.
const nearLimit = 0.8

// limited takes what the account has used of its limits: the one that is used
// most, if that has changed.
func (t *translator) limited(n note) {
	if n.Limits == nil {
		return
	}
	var most limitWindow
	for _, w := range []*limitWindow{n.Limits.Primary, n.Limits.Secondary} {
		if w != nil && w.Used >= most.Used {
			most = *w
		}
	}
	if most == (limitWindow{}) && n.Limits.Reached == "" {
		return
	}
	l := event.RateLimit{Status: "allowed", Kind: window(most.Minutes), Utilization: min(max(most.Used/100, 0), 1), ResetsAt: max(most.ResetsAt, 0)}
	switch {
	case n.Limits.Reached != "":
		l.Status = "rejected"
	case l.Utilization >= nearLimit:
		l.Status = "allowed_warning"
	}
	if l == t.limit {
		return
	}
	t.limit = l
	t.emit(t.current(), event.UsageUpdated{RateLimit: &l})
}

// window names a limit by how long it lasts.
func window(minutes int64) string {
	switch {
	case minutes <= 0:
		return ""
	case minutes == 5*60:
		return "five_hour"
	case minutes == 7*24*60:
		return "seven_day"
	case minutes%60 == 0:
		return strconv.FormatInt(minutes/60, 10) + "_hour"
	}
	return strconv.FormatInt(minutes, 10) + "_minute"
}

func (a tokens) minus(b tokens) tokens {
	return tokens{
		Total: a.Total - b.Total, Input: a.Input - b.Input, Cached: a.Cached - b.Cached, CacheWrite: a.CacheWrite - b.CacheWrite,
		Output: a.Output - b.Output, Reasoning: a.Reasoning - b.Reasoning,
	}
}

// usage is what the turn used so far; nil if nothing was said of it.
func (tn *turn) usage() *event.Usage {
	if !tn.counted {
		return nil
	}
	u := tn.used
	return &event.Usage{
		InputTokens: max(u.Input-u.Cached-u.CacheWrite, 0), OutputTokens: max(u.Output, 0),
		CacheReadInputTokens: max(u.Cached, 0), CacheCreationInputTokens: max(u.CacheWrite, 0), ReasoningTokens: max(u.Reasoning, 0),
	}
}
