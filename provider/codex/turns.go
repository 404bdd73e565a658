package codex

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
	"github.com/runnel-dev/runnel/internal/translate"
)

// A run is a native turn in flight: one of the conversation or one of a
// subagent.
type run struct {
	itemList
	native  string
	failure *turnError // why it is about to end
	retries int        // notices of retries without anything between them
	retry   string     // the last of them
}

// A turn is a turn of the conversation. It begins when the agent reports its
// begin and ends when the agent reports its end.
type turn struct {
	run
	id          string
	began       bool // the agent reported it
	interrupted bool // we asked for its end
	stops       int  // interrupts that were sent for it
	usage       usage
}

// turns are those of the conversation.
type turns struct {
	out     *translate.Emitter
	waiting []string         // turns of ours whose begin is not confirmed
	running map[string]*turn // by the agent's id, until they are over
	over    []string         // native turns that are over, the last maxOver; of subagents, too
	early   bool             // an interrupt was sent for the turn that begins next
	total   *tokens          // used by the thread, as last reported
}

// maxOver is how many turns that are over are known, so that what comes late is
// not taken for the begin of another.
const maxOver = 256

func newTurns(out *translate.Emitter) turns {
	return turns{out: out, running: make(map[string]*turn)}
}

// current is the turn that runs, or nil.
func (ts *turns) current() *turn {
	for _, tn := range ts.running {
		if tn.began {
			return tn // there is one at a time
		}
	}
	return nil
}

// currentID is the id of the turn that runs, "" if there is none.
func (ts *turns) currentID() string {
	if tn := ts.current(); tn != nil {
		return tn.id
	}
	return ""
}

// soon reports whether a turn of ours is about to begin, and the agent's id of
// it if that is known.
func (ts *turns) soon() (native string, ok bool) {
	for _, tn := range ts.running {
		if !tn.began {
			return tn.native, true
		}
	}
	return "", len(ts.waiting) > 0
}

func (ts *turns) isOver(native string) bool { return slices.Contains(ts.over, native) }

// ended remembers a native turn that is over.
func (ts *turns) ended(native string) {
	delete(ts.running, native)
	if ts.over = append(ts.over, native); len(ts.over) > maxOver {
		ts.over = ts.over[1:]
	}
}

// prompted takes a prompt of ours, which begins the turn with that id.
func (ts *turns) prompted(id string, in []userInput) {
	ts.waiting = append(ts.waiting, id)
	ts.out.UserMessage(id, translate.ItemID(translate.Prefix(id, ""), 0, 0), userMessage(in))
}

// refused takes the refusal of a prompt whose turn did not begin.
func (ts *turns) refused(id string, e *jsonrpc.Error) {
	if !ts.unwait(id) {
		return
	}
	if _, soon := ts.soon(); !soon {
		ts.early = false // it was for this one
	}
	ts.out.Emit(id, event.ResponseError{Error: refused(e)})
}

// unwait reports whether a turn's begin was waited for, and waits no longer.
func (ts *turns) unwait(id string) bool {
	i := slices.Index(ts.waiting, id)
	if i >= 0 {
		ts.waiting = slices.Delete(slices.Clone(ts.waiting), i, i+1)
	}
	return i >= 0
}

// bind makes the turn with the agent's id native. id is that of the prompt that
// it answers. Without one it answers our oldest prompt; if nobody asked for it,
// it is named after the agent's id.
func (ts *turns) bind(thread, native, id string) *turn {
	if id == "" && len(ts.waiting) > 0 {
		id = ts.waiting[0]
	}
	ts.unwait(id)
	if id == "" {
		id = derive(thread + " turn " + native)
	}
	tn := &turn{id: id, usage: usage{base: ts.total}}
	tn.native = native
	tn.itemList = newItems(&line{next: 1})
	tn.place(ts.out.ForTurn(id), "")
	ts.running[native] = tn
	return tn
}

// stopping takes an interrupt of ours. One that comes before the agent began
// its turn has no effect and is repeated once it did.
func (ts *turns) stopping(name, native string) {
	if tn := ts.running[native]; tn != nil {
		tn.interrupted = true
		if n, err := strconv.Atoi(strings.TrimPrefix(name, interruptPrefix+native+":")); err == nil {
			tn.stops = max(tn.stops, n)
		}
		if tn.began {
			return
		}
	}
	if _, soon := ts.soon(); soon && ts.current() == nil {
		ts.early = true
	}
}

// notStopped takes the refusal of an interrupt. It returns the turn that has to
// be interrupted again, or nil: 0.169 has "no active turn" in the instant
// between the two messages about a begin, and the turn runs on.
func (ts *turns) notStopped(name string) *turn {
	rest, ok := strings.CutPrefix(name, interruptPrefix)
	if !ok {
		return nil
	}
	native, _, _ := strings.Cut(rest, ":")
	if tn := ts.running[native]; tn != nil && tn.began && tn.interrupted {
		return tn
	}
	return nil
}

// counted takes how much was used.
func (ts *turns) counted(native string, u tokenUsage) {
	if tn := ts.running[native]; tn != nil {
		tn.usage.add(u)
		tn.out.Emit(event.UsageUpdated{Usage: tn.usage.event(), ContextTokens: max(u.Last.Total, 0), ContextWindow: max(u.Window, 0)})
	}
	ts.total = &u.Total
}

// interrupt is the request that ends a turn.
func (tn *turn) interrupt(thread string) (jsonrpc.Message, error) {
	tn.stops++
	return jsonrpc.NewRequest(jsonrpc.String(interruptPrefix+tn.native+":"+strconv.Itoa(tn.stops)), methodInterrupt,
		map[string]string{"threadId": thread, "turnId": tn.native})
}

// close ends what is open in a turn and returns the commands that go on.
func (tn *turn) close(status string) []*piece {
	return tn.itemList.close(status == "completed", cancelReason(tn.interrupted))
}

func cancelReason(interrupted bool) event.CancelReason {
	if interrupted {
		return event.ReasonUserCancel
	}
	return ""
}

// Names of our requests.
const (
	turnPrefix      = "turn:"      // and the id of the turn
	modePrefix      = "mode:"      // and the permission mode, and a number
	interruptPrefix = "interrupt:" // and the agent's id of the turn, and a number
	cleanPrefix     = "clean:"     // and the agent's id of the turn
)

// begin takes the begin of a native turn, which may be a subagent's.
func (t *translator) begin(thread, native string) {
	if native == "" || t.turns.isOver(native) || t.subagents.running[native] != nil {
		return
	}
	tn := t.turns.running[native]
	if thread != t.thread && tn == nil {
		if s := t.subagents.begin(thread, native); s != nil {
			t.place(s)
		}
		return
	}
	if tn == nil {
		tn = t.turns.bind(t.thread, native, "")
	}
	if tn.began || thread != t.thread {
		return
	}
	tn.began = true
	if !t.announced { // before its first turn there is nothing to resume
		t.announced = true
		t.out.Emit("", event.SessionUpdated{AgentSessionID: t.thread})
	}
	tn.out.Emit(t.started())
	if t.turns.early || tn.interrupted {
		tn.interrupted, t.turns.early = true, false
		t.stop(tn)
	}
}

// running is the native turn that has begun and is not over, or nil.
func (t *translator) running(native string) *run {
	if tn := t.turns.running[native]; tn != nil && tn.began {
		return &tn.run
	}
	if s := t.subagents.running[native]; s != nil {
		return &s.run
	}
	return nil
}

// runOf is the native turn that a notification is about. It begins the turn if
// we missed that, and is nil for one that is over.
func (t *translator) runOf(n note) *run {
	if r := t.running(n.TurnID); r != nil {
		return r
	}
	if n.ThreadID != "" {
		t.begin(n.ThreadID, n.TurnID)
	}
	return t.running(n.TurnID)
}

// accepted takes the answer to the prompt of a turn.
func (t *translator) accepted(id string, m jsonrpc.Message) {
	if m.Error != nil {
		t.turns.refused(id, m.Error)
		return
	}
	var r struct{ Turn nativeTurn }
	native := &r.Turn.ID
	if json.Unmarshal(m.Result, &r) != nil || *native == "" || t.turns.isOver(*native) || t.subagents.running[*native] != nil {
		return
	}
	tn := t.turns.running[*native]
	switch {
	case tn == nil:
		t.turns.bind(t.thread, *native, id)
	case tn.id != id && tn.began:
		t.joined(tn, id)
	}
}

// joined takes the news that a prompt went into a turn that nobody asked for
// and that ran already: from here on that turn is the prompt's.
func (t *translator) joined(tn *turn, id string) {
	t.commands.keep(tn.native, tn.close("joined"))
	tn.out.Emit(event.ResponseDone{Status: event.StatusCompleted, FinishReason: "continued"})
	again := t.turns.bind(t.thread, tn.native, id)
	again.began = true
	again.out.Emit(t.started())
}

// stop has the agent end a turn, at most maxInterrupts times.
func (t *translator) stop(tn *turn) {
	if m, err := tn.interrupt(t.thread); tn.stops <= maxInterrupts {
		t.reply(m, err)
	}
}

// maxInterrupts bounds how often an interrupt is repeated.
const maxInterrupts = 5

// complete takes the end of a native turn. What is still open then is closed:
//
//   - text that never became whole is cancelled; the agent forgets it, too;
//   - a command that runs goes on in the background. What it printed so far is its
//     output in this turn; all that it printed is emitted when it ends, in a
//     turn of its own, which nobody asked for (see commandEnded);
//   - in a turn that we interrupted everything is cancelled, and the agent is
//     told to end its commands: it would leave them running.
func (t *translator) complete(n note) {
	native := n.Turn.ID
	if t.running(native) == nil && t.turns.running[native] == nil && t.turns.current() == nil && len(t.turns.waiting) > 0 {
		n.TurnID = native
		t.runOf(n) // its begin was lost
	}
	if s := t.subagents.running[native]; s != nil {
		t.subagentDone(s, *n.Turn)
	} else if tn := t.turns.running[native]; tn != nil {
		t.turnDone(tn, *n.Turn)
	}
}

// turnDone ends a turn of the conversation. Its subagents that work on, and the
// questions that they ask, leave it.
func (t *translator) turnDone(tn *turn, end nativeTurn) {
	t.commands.keep(tn.native, tn.close(end.Status))
	t.turns.ended(tn.native)
	for _, s := range t.subagents.leave(tn) {
		t.place(s)
	}
	left, denials := t.questions.leave(tn, t.subagents.running)
	for _, m := range denials {
		t.reply(m, nil)
	}
	for _, q := range t.questions.Drop(tn.id) {
		t.peer.Forget(q.Question.request)
	}
	if end.Error == nil {
		end.Error = tn.failure
	}
	if end.Status == "interrupted" {
		t.reply(jsonrpc.NewRequest(jsonrpc.String(cleanPrefix+tn.native), methodCleanTerminals, map[string]string{"threadId": t.thread}))
	}
	tn.out.Emit(outcome(&end, tn.interrupted, tn.usage.event()))
	for _, a := range left {
		t.questions.askOutOfTurn(a, t.started())
	}
}

// outcome is the terminal event for a turn.
func outcome(tn *nativeTurn, interrupted bool, u *event.Usage) event.Body {
	switch tn.Status {
	case "interrupted":
		if !interrupted {
			return event.ResponseError{Error: runnel.Fail(runnel.AgentError, "The agent stopped before it was done. Send the prompt again.").Fault()}
		}
		return event.ResponseDone{Status: event.StatusCancelled, FinishReason: "interrupted", Usage: u}
	case "failed":
		if interrupted {
			return event.ResponseDone{Status: event.StatusCancelled, FinishReason: "interrupted", Usage: u}
		}
		e := tn.Error
		if e == nil {
			e = &turnError{}
		}
		return event.ResponseError{Error: fault(*e)}
	}
	return event.ResponseDone{Status: event.StatusCompleted, FinishReason: "completed", Usage: u}
}

// failed takes an error: one after which the agent tries again, or the reason
// why the turn is about to end.
func (r *run) failed(e turnError, again bool) {
	if !again {
		r.failure = &e
		return
	}
	r.restart()
	if e.Message == r.retry || r.retries >= maxRetries {
		return
	}
	r.retry = e.Message
	r.retries++
	why := "could not be reached or broke off"
	if status := errorInfo(e).status; status != 0 {
		why = "answered " + strconv.Itoa(status)
	}
	r.out.Notice(event.LevelWarning, "RETRYING", "The model API "+why+". Trying again.")
}

// maxRetries bounds the notices about retries in a row. The agent may retry
// without end where nothing answers; then it is silent here, and counts as
// stalled.
const maxRetries = 12

// progressed ends a row of retries.
func (r *run) progressed() { r.retries, r.retry = 0, "" }

// delta takes what is added to an item. It reports false for an item that is
// not known.
func (r *run) delta(method string, n note) bool {
	c := r.pieces[n.ItemID]
	if c == nil {
		return false
	}
	r.progressed()
	if !c.done {
		r.add(method, c, n)
	}
	return true
}
