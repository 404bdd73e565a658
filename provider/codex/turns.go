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

// A run is a running native turn: one of the conversation or one of a subagent.
type run struct {
	itemList
	native  string
	failure *turnError // the error with which the turn is about to end
	retries int        // consecutive notices about retries
	retry   string     // message of the last notice about a retry
}

// A turn is a turn of the conversation. It starts and ends when the agent
// reports its start and its end.
type turn struct {
	run
	id          string
	ordinal     int  // its position among the turns of the conversation
	began       bool // the agent reported its start
	interrupted bool // the user interrupted it
	unfinished  bool // it is stored, and another process runs it
	stops       int  // number of interrupts sent for it
	usage       usage
	questions   translate.Asked
}

// turns are the turns of the conversation.
type turns struct {
	out     *translate.Emitter
	next    int              // ordinal of the turn that is bound next
	waiting []string         // ids of sent prompts whose turn has not started
	running map[string]*turn // running turns, by native id
	over    []string         // the last maxOver native ids of ended turns, including subagents' turns, and ids of turns that contained only a question
	early   bool             // an interrupt was sent before its turn started
	total   *tokens          // tokens that the thread used, as last reported
}

// maxOver is the number of ended turns whose ids are kept. A late message about
// an ended turn must not start a new turn.
const maxOver = 256

func newTurns(out *translate.Emitter) turns {
	return turns{out: out, running: make(map[string]*turn)}
}

// current returns the running turn, or nil. If several turns run, it returns
// the first.
func (ts *turns) current() *turn { return ts.first(true) }

// first returns the turn with the lowest ordinal among the running turns whose
// start the agent has reported, if began is true, or has not reported yet, if
// began is false. It returns nil if there is none.
func (ts *turns) first(began bool) (first *turn) {
	for _, tn := range ts.running {
		if tn.began == began && (first == nil || tn.ordinal < first.ordinal) {
			first = tn
		}
	}
	return first
}

// currentID returns the id of the running turn, "" if no turn runs.
func (ts *turns) currentID() string {
	if tn := ts.current(); tn != nil {
		return tn.id
	}
	return ""
}

// starting reports whether a prompted turn is about to start, and returns its
// native id if that is known.
func (ts *turns) starting() (native string, ok bool) {
	if tn := ts.first(false); tn != nil {
		return tn.native, true
	}
	return "", len(ts.waiting) > 0
}

func (ts *turns) isOver(native string) bool { return slices.Contains(ts.over, native) }

// ended marks a native turn as ended.
func (ts *turns) ended(native string) {
	delete(ts.running, native)
	if ts.over = append(ts.over, native); len(ts.over) > maxOver {
		ts.over = ts.over[1:]
	}
}

// promptSent processes a prompt that Runnel sends. The prompt starts the turn
// id.
func (ts *turns) promptSent(id string, in []userInput) {
	ts.waiting = append(ts.waiting, id)
	prompt, warning := userMessage(in, ts.out.Picture)
	ts.out.UserMessage(id, translate.ItemID(translate.Prefix(id, ""), 0, 0), prompt, warning)
}

// rejected processes the agent's rejection of a prompt.
func (ts *turns) rejected(id string, e *jsonrpc.Error) {
	if !ts.removeWaiting(id) {
		return
	}
	if _, starting := ts.starting(); !starting {
		ts.early = false // the interrupt was for this prompt
	}
	ts.out.Emit(id, event.ResponseError{Error: rejected(e)})
}

// removeWaiting removes a turn from waiting. It reports whether the turn was
// there.
func (ts *turns) removeWaiting(id string) bool {
	i := slices.Index(ts.waiting, id)
	if i >= 0 {
		ts.waiting = slices.Delete(slices.Clone(ts.waiting), i, i+1)
	}
	return i >= 0
}

// bind adds the turn with the native id native. id is the id of the prompt that
// the turn answers. If id is "", the turn answers the oldest waiting prompt. If
// no prompt waits, the turn's id derives from the native id.
func (ts *turns) bind(thread, native, id string) *turn {
	if id == "" && len(ts.waiting) > 0 {
		id = ts.waiting[0]
	}
	ts.removeWaiting(id)
	if id == "" {
		id = derive(thread + " turn " + native)
	}
	tn := &turn{id: id, ordinal: ts.next, usage: usage{base: ts.total}}
	ts.next++
	tn.native = native
	tn.itemList = newItems(&line{next: 1})
	tn.setTurn(ts.out.ForTurn(id), "")
	ts.running[native] = tn
	return tn
}

// interruptSent processes an interrupt that Runnel sends. An interrupt that is
// sent before the agent has started the turn has no effect, so it is repeated
// after the start.
func (ts *turns) interruptSent(name, native string) {
	if tn := ts.running[native]; tn != nil {
		tn.interrupted = true
		if n, err := strconv.Atoi(strings.TrimPrefix(name, interruptPrefix+native+":")); err == nil {
			tn.stops = max(tn.stops, n)
		}
		if tn.began {
			return
		}
	}
	if _, starting := ts.starting(); starting && ts.current() == nil {
		ts.early = true
	}
}

// notYetActive begins the agent's error for an interrupt that arrives too early
// (0.169.0, recording interrupt-early). The agent reports the start of a turn
// in two messages and accepts no interrupt between them.
const notYetActive = "no active turn"

// interruptRejected processes the rejection of an interrupt. It returns the
// turn that still runs and must be interrupted again, or nil.
func (ts *turns) interruptRejected(name string) *turn {
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

// used processes a report of used tokens.
func (ts *turns) used(native string, u tokenUsage) {
	if tn := ts.running[native]; tn != nil {
		tn.usage.add(u)
		tn.out.Emit(event.UsageUpdated{Usage: tn.usage.event(), ContextTokens: max(u.Last.Total, 0), ContextWindow: max(u.Window, 0)})
	}
	ts.total = &u.Total
}

// interrupt returns the request that interrupts a turn.
func (tn *turn) interrupt(thread string) (jsonrpc.Message, error) {
	tn.stops++
	return jsonrpc.NewRequest(jsonrpc.String(interruptPrefix+tn.native+":"+strconv.Itoa(tn.stops)), methodInterrupt,
		map[string]string{"threadId": thread, "turnId": tn.native})
}

// close ends the open items of a turn and returns the commands that continue.
func (tn *turn) close(status string) []*piece {
	return tn.itemList.close(status == "completed", cancelReason(tn.interrupted))
}

func cancelReason(interrupted bool) event.CancelReason {
	if interrupted {
		return event.ReasonUserCancel
	}
	return ""
}

// Prefixes of the ids of requests.
const (
	processPrefix   = "process:"   // the id of the process follows
	turnPrefix      = "turn:"      // the id of the turn follows
	modePrefix      = "mode:"      // the permission mode and a number follow
	interruptPrefix = "interrupt:" // the native id of the turn and a number follow
	cleanPrefix     = "clean:"     // the native id of the turn follows
)

// outcome returns the terminal event of a turn.
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

// failed processes an error. If again is true, the agent retries. Otherwise the
// turn is about to end with the error.
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

// maxRetries bounds consecutive notices about retries. The agent retries
// without limit if the model API does not respond. Without further events, the
// session then treats the turn as stalled.
const maxRetries = 12

// progressed resets the count of consecutive retries.
func (r *run) progressed() { r.retries, r.retry = 0, "" }

// delta processes a delta of an item. It reports false if the item is unknown.
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
