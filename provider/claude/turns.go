package claude

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/internal/translate"
)

// turns are the turns of the conversation or of one background task.
//
// A turn begins when the agent starts on a prompt (system/init) and ends with
// its result.
type turns struct {
	out     *translate.Emitter
	session *session

	waiting []string // ids of the turns whose prompt was sent and which have not begun
	early   bool     // the next turn was interrupted before it began
	current *turn    // the turn in flight, from its init until its result; nil if there is none
	last    string   // id of the last result
}

// turn is the state of a turn in flight.
type turn struct {
	out     *translate.Emitter
	hold    func(event.Event) // receives the events of a background task; nil in the foreground
	session *session

	id          string // "" in a turn without a prompt, until its first message
	prompted    bool   // the turn answers a prompt
	summarised  bool   // the prompt was the command that summarized the conversation
	local       bool   // the prompt was a command that the agent ran without the model; only set on replay
	started     bool   // its ResponseStart was emitted
	ended       bool   // its terminal event was emitted; the agent's result may be missing
	interrupted bool   // an interrupt was sent to the agent
	threads     map[string]*thread
	frames      map[string]bool // ids of the assistant frames that were received
	calls       map[string]*call
	asked       translate.Asked
	used        map[string]usage // by native message
	context     int64            // tokens of the context after the last message of the main thread
	lastText    string           // the last final text
	unconfirmed string           // the last text, if only its deltas were received
	stop        string           // stop reason of the last message; "" if not known
	failure     string           // the agent's name for a failure
	status      int              // HTTP status of the failure; only set on replay
	reason      string           // the agent's name for the end of the turn; only set on replay
}

func newTurn(id string, out *translate.Emitter, s *session) *turn {
	return &turn{
		out: out, session: s, id: id,
		threads: make(map[string]*thread), frames: make(map[string]bool), calls: make(map[string]*call), used: make(map[string]usage),
	}
}

// emitter returns the emitter for the turn's events. Before the turn begins and
// after it has ended, it emits out-of-turn events.
func (tn *turn) emitter() translate.TurnEmitter {
	id := ""
	if tn.started && !tn.ended {
		id = tn.id
	}
	return tn.out.ForTurn(id).Holding(tn.hold)
}

func (tn *turn) emit(b event.Body) { tn.emitter().Emit(b) }

// begin emits the turn's ResponseStart, once.
func (tn *turn) begin() {
	if tn.started {
		return
	}
	tn.started = true
	tn.emit(event.ResponseStart{ModelID: tn.session.model, ProviderID: providerID})
}

// end emits the terminal event.
func (tn *turn) end(b event.Body) {
	tn.emit(b)
	tn.ended = true
}

// cutOff cancels the open items and emits the terminal event.
func (tn *turn) cutOff(b event.Body) {
	tn.abandon()
	tn.end(b)
}

// abandon cancels the open items.
func (tn *turn) abandon() {
	for _, parent := range slices.Sorted(maps.Keys(tn.threads)) {
		tn.threads[parent].abandon(0)
	}
}

// answered reports whether every call has its output.
func (tn *turn) answered() bool {
	for _, c := range tn.calls {
		if !c.answered {
			return false
		}
	}
	return true
}

// emitter returns the emitter of the turn in flight. If there is no turn in
// flight, it emits out-of-turn events.
func (ts *turns) emitter() translate.TurnEmitter {
	if ts.current == nil {
		return ts.out.ForTurn("")
	}
	return ts.current.emitter()
}

func (ts *turns) emit(b event.Body) { ts.emitter().Emit(b) }

func (ts *turns) notice(level event.Level, code, message string) {
	ts.emitter().Notice(level, code, message)
}

// idle reports whether no turn is in flight and no prompt waits for its turn.
func (ts *turns) idle() bool { return ts.current == nil && len(ts.waiting) == 0 }

// between reports whether no turn runs, so that a frame belongs to no turn.
func (ts *turns) between() bool {
	return ts.current == nil || ts.current.id == "" || ts.current.ended
}

// prompted handles a prompt that was sent to the agent. The id of its turn is
// the id of the prompt.
func (ts *turns) prompted(f frame) {
	if f.UUID == "" || f.Message == nil {
		return
	}
	ts.waiting = append(ts.waiting, f.UUID)
	prompt, warning := f.Message.ofUser()
	ts.out.UserMessage(f.UUID, f.UUID+":0:0", prompt, warning)
}

// interrupt handles an interrupt request that was sent to the agent.
func (ts *turns) interrupt() {
	if ts.current != nil && !ts.current.ended {
		ts.current.interrupted = true
	} else {
		ts.early = len(ts.waiting) > 0
	}
}

// interrupted reports whether an interrupt was sent for a turn that has not
// ended.
func (ts *turns) interrupted() bool {
	if ts.current == nil {
		return ts.early
	}
	return ts.current.interrupted && !ts.current.ended
}

// running returns the turn in flight and emits its start if needed. If no turn
// is in flight, it begins the turn of the oldest waiting prompt. If no prompt
// waits, it begins a turn without a prompt; the id of that turn is derived from
// nativeMessage, the id of its first native message. It returns nil if the turn
// has no id yet or has already ended.
func (ts *turns) running(nativeMessage string) *turn {
	if ts.current == nil {
		ts.current = newTurn("", ts.out, ts.session)
		if len(ts.waiting) > 0 {
			ts.current.id, ts.current.prompted = ts.waiting[0], true
			ts.current.interrupted, ts.early = ts.early, false
			ts.waiting = ts.waiting[1:]
		}
	}
	tn := ts.current
	if tn.id == "" && nativeMessage != "" {
		tn.id = derive(ts.session.id + " " + nativeMessage)
	}
	if tn.id == "" || tn.ended {
		return nil
	}
	tn.begin()
	return tn
}

// begin handles an init. Every turn has one init. So if a prompt waits, an init
// ends a turn without a prompt that has no result yet.
func (ts *turns) begin() {
	if ts.current != nil && !ts.current.prompted && len(ts.waiting) > 0 {
		if tn := ts.running(""); tn != nil {
			tn.cutOff(event.ResponseDone{Status: event.StatusCompleted, Usage: tn.sum()})
		}
		ts.current = nil
	}
	ts.running("")
}

// result ends the turn in flight.
func (ts *turns) result(f frame) {
	if f.UUID != "" && f.UUID == ts.last {
		return // the agent printed the result twice
	}
	ts.last = f.UUID
	cost := ts.session.turnCost(f)
	if ts.foreign(f) || ts.idle() { // a result without a turn: the agent failed to start
		return
	}
	if tn := ts.running(""); tn != nil {
		known := tn.reconcile(f)
		tn.abandon()
		u := tn.sum()
		if f.Usage != nil && *f.Usage != (usage{}) { // 2.1.197 does not count an answer that was not streamed (recording cut-stream)
			u = f.Usage.event()
		}
		tn.emit(event.UsageUpdated{Usage: u, ContextTokens: tn.context, ContextWindow: ts.session.contextWindow(f), CostUSD: cost})
		if known {
			tn.end(outcome(f, tn, u))
		} else {
			tn.end(event.ResponseError{Error: translate.TextLost})
		}
	}
	ts.current = nil
}

// foreign reports whether a result does not belong to the prompt's turn.
//
// When a background task finishes, the agent starts a turn without a prompt. If
// a prompt is sent at that moment, the items of that turn become part of the
// prompt's turn. The result of that turn must not end the prompt's turn,
// because the prompt's result follows.
func (ts *turns) foreign(f frame) bool {
	prompt := ""
	switch {
	case ts.current != nil && ts.current.prompted:
		prompt = ts.current.id
	case ts.current == nil && len(ts.waiting) > 0:
		prompt = ts.waiting[0]
	default:
		return false
	}
	if len(f.UserMessages) > 0 {
		return !slices.Contains(f.UserMessages, prompt)
	}
	return f.Origin != nil && f.Origin.Kind == "task-notification"
}

// outcome returns the terminal event for a result. It uses is_error, because
// the subtype is "success" even after a failure of the model API (recording
// api-500).
func outcome(f frame, tn *turn, u *event.Usage) event.Body {
	if tn.interrupted && (f.IsError || strings.HasPrefix(f.TerminalReason, "aborted")) {
		return event.ResponseDone{Status: event.StatusCancelled, FinishReason: text.OneLine(f.TerminalReason, 100), Usage: u}
	}
	if !f.IsError {
		return event.ResponseDone{Status: event.StatusCompleted, FinishReason: text.OneLine(f.StopReason, 100), Usage: u}
	}
	return event.ResponseError{Error: resultFault(f, tn.failure, tn.session.keyed)}
}

// retry handles the agent's report that a request to the model API failed and
// will be repeated. It reports whether to interrupt the agent.
//
// After a rejected key the agent repeats the request ten times, which takes
// minutes (recording api-401). The request cannot succeed, so the turn ends and
// the agent is interrupted. With a login, the first retry is allowed, because
// the agent may have renewed the login.
func (ts *turns) retry(f frame) (stop bool) {
	status := 0
	if f.ErrorStatus != nil {
		status = *f.ErrorStatus
	}
	keyed := ts.session.keyed
	refused := status == 401 || f.Error == "authentication_failed"
	if tn := ts.current; refused && tn != nil && tn.started && !tn.ended && (keyed || f.Attempt > 1) {
		tn.cutOff(event.ResponseError{Error: apiFault(f.Error, status, keyed)})
		return true
	}
	why := "could not be reached"
	if status != 0 {
		why = fmt.Sprintf("answered %d", status)
	}
	ts.notice(event.LevelWarning, "RETRYING", fmt.Sprintf(
		"The model API %s. Retrying in %.1f s (%d of %d).", why, f.RetryDelayMS/1000, f.Attempt, f.MaxRetries))
	return false
}

// limits emits the used part of the account's rate limit.
func (ts *turns) limits(r *rateLimit) {
	if r == nil || r.Status == "" {
		return
	}
	ts.emit(event.UsageUpdated{RateLimit: &event.RateLimit{
		Status: text.OneLine(r.Status, 40), Kind: text.OneLine(r.RateLimitType, 40), Utilization: r.Utilization, ResetsAt: r.ResetsAt,
	}})
	if r.Status != "rejected" {
		return
	}
	until := ""
	if r.ResetsAt > 0 && r.ResetsAt < 1<<33 {
		until = " until " + time.Unix(r.ResetsAt, 0).UTC().Format("2006-01-02 15:04 MST")
	}
	ts.notice(event.LevelWarning, "RATE_LIMITED", "The account's limit is used up"+until+".")
}

// use records the usage of a message of the main thread and emits the turn's
// sum.
func (tn *turn) use(messageID string, u usage) {
	if tn.count(messageID, u) {
		tn.emit(event.UsageUpdated{Usage: tn.sum(), ContextTokens: tn.context})
	}
}

// count records the usage of a message of the main thread. It reports whether
// the numbers have changed.
func (tn *turn) count(messageID string, u usage) bool {
	if messageID == "" || tn.used[messageID] == u {
		return false
	}
	tn.used[messageID] = u
	tn.context = u.context()
	return true
}

// sum returns the usage of the turn's messages so far.
func (tn *turn) sum() *event.Usage {
	var u event.Usage
	for _, m := range tn.used {
		u.InputTokens += m.InputTokens
		u.OutputTokens += m.OutputTokens
		u.CacheReadInputTokens += m.CacheReadInputTokens
		u.CacheCreationInputTokens += m.CacheCreationInputTokens
	}
	return &u
}

func (u usage) event() *event.Usage {
	return &event.Usage{
		InputTokens: u.InputTokens, OutputTokens: u.OutputTokens,
		CacheReadInputTokens: u.CacheReadInputTokens, CacheCreationInputTokens: u.CacheCreationInputTokens,
	}
}

func (u usage) context() int64 {
	return u.InputTokens + u.OutputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens
}
