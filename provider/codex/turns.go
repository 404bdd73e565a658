package codex

import (
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
	ordinal     int  // its place among the turns of the conversation
	began       bool // the agent reported it
	interrupted bool // we asked for its end
	stops       int  // interrupts that were sent for it
	usage       usage
}

// turns are those of the conversation.
type turns struct {
	out     *translate.Emitter
	next    int              // ordinal of the turn that is bound next
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

// current is the turn that runs, or nil. If the agent runs several at a time,
// it is the first of them.
func (ts *turns) current() *turn { return ts.first(true) }

// first returns the first running turn that the agent has reported to begin, or
// has not, or nil. The order does not depend on that of the map.
func (ts *turns) first(began bool) (first *turn) {
	for _, tn := range ts.running {
		if tn.began == began && (first == nil || tn.ordinal < first.ordinal) {
			first = tn
		}
	}
	return first
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
	if tn := ts.first(false); tn != nil {
		return tn.native, true
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
	prompt, warning := userMessage(in)
	ts.out.UserMessage(id, translate.ItemID(translate.Prefix(id, ""), 0, 0), prompt, warning)
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
	tn := &turn{id: id, ordinal: ts.next, usage: usage{base: ts.total}}
	ts.next++
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

// notYetActive begins the refusal of an interrupt that 0.169 prints in the
// instant between the two messages about a turn's begin (interrupt-early).
const notYetActive = "no active turn"

// notStopped takes the refusal of an interrupt. It returns the turn that has to
// be interrupted again because it runs on, or nil.
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

// outcome is the terminal event for a turn.
func outcome(tn *nativeTurn, interrupted bool, u *event.Usage) event.Body {
	switch tn.Status {
	case "interrupted":
		if !interrupted {
			return event.ResponseError{Error: runnel.Fail(runnel.AgentError, translate.FaultUnasked).Fault()}
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
