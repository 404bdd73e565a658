package runnel

import (
	"errors"
	"io"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel/event"
)

// liveTurn is a turn that has not ended.
type liveTurn struct {
	rules       *rules
	handle      *Turn
	prompt      *Input               // not yet sent to the agent; nil: sent
	chosen      Settings             // settings for this turn only
	set         Settings             // the part of chosen not yet sent to the agent
	restores    *Settings            // settings to restore after the turn; nil: none
	lastEventAt time.Time            // when the agent last emitted an event
	asked       map[string]*question // pending approvals by id
	budget      Budget               // of this turn
	overdue     time.Time            // deadline of a cancelled turn; zero: not cancelled
	enforced    bool                 // the session is stopping the agent to end the turn
	followed    bool                 // a process outside of the session runs it; see Session.Follow
	reach       reachTurn
}

// facts is the state of the conversation that belongs to no turn, as last
// logged.
type facts struct {
	agentSessionID, modelID, permissionMode string

	config []event.ConfigOption
}

func (s *Session) handle(m message) {
	switch m := m.(type) {
	case sendMsg:
		t, err := s.begin(m.in, m.set)
		m.reply <- answer[*Turn]{t, err}
	case failPromptMsg:
		m.reply <- answer[struct{}]{err: s.failPrompt(m.in, m.cause)}
	case startMsg:
		s.start(m.reply)
	case cancelMsg:
		s.cancel(time.Now())
		m.reply <- answer[struct{}]{}
	case decideMsg:
		if !s.hold(m) {
			m.reply <- answer[struct{}]{err: s.decide(m.id, m.d)}
		}
	case approvalMsg:
		lt, a := s.approval(m.id)
		if lt == nil {
			m.reply <- answer[event.Approval]{err: errApprovalGone()}
			return
		}
		m.reply <- answer[event.Approval]{value: a}
	case checkMsg:
		_, err := s.checkTurnSettings(m.set)
		if err == nil {
			err = s.checkSpent()
		}
		m.reply <- answer[struct{}]{err: err}
	case setMsg:
		m.reply <- answer[struct{}]{err: s.set(m.set)}
	case retitleMsg:
		m.reply <- answer[struct{}]{err: s.retitle(m.title, m.by)}
	case renewMsg:
		ok, err := s.renew(m.opt)
		m.reply <- answer[bool]{ok, err}
	case statusMsg:
		m.reply <- answer[Status]{value: s.status()}
	case releaseMsg:
		m.reply <- answer[struct{}]{err: s.release()}
	case importMsg:
		m.reply <- answer[struct{}]{err: s.imports(m.evs)}
	case followMsg:
		m.reply <- answer[struct{}]{err: s.follow(m.evs)}
	case unfollowMsg:
		m.reply <- answer[struct{}]{err: s.unfollow()}
	case detachMsg:
		if s.opening != nil && len(s.live) > 0 { // a prompt waits for the new agent
			s.departing = append(s.departing, m.reply)
			return
		}
		m.reply <- answer[bool]{value: s.detach()}
	case closeMsg:
		s.closing = append(s.closing, m.reply)
		s.beginClose(time.Now())
	}
}

// receive processes an event of the agent, or the error with which its events
// ended, and the events that the link has in memory after it, at most 256 in
// all. It appends the results to the log in one batch. It returns false if the
// session takes no more events from the link.
func (s *Session) receive(l *link, ev event.Event, err error) (more bool) {
	const batch = 256
	if s.take(s.ctx) != nil {
		return false
	}
	defer s.pass()
	for n, ok := 1, true; ok && s.link == l; n++ {
		for _, a := range l.screened(ev, err) {
			if a.err != nil {
				s.onAgentExit(a.err)
				_ = s.flush()
				return false
			}
			s.handleEvent(a.ev)
		}
		if n == batch {
			break
		}
		ev, err, ok = l.buffered()
	}
	if s.flush() == nil {
		s.enforce()
	}
	return s.link == l
}

// enforce ends a turn for which Config.Exceeded returns an error. It also stops
// the agent, which would otherwise continue with the turn.
func (s *Session) enforce() {
	s.enforceBudgets()
	if s.cfg.Exceeded == nil {
		return
	}
	for _, lt := range s.live {
		if lt.rules.ended {
			continue
		}
		if err := s.cfg.Exceeded(lt.rules.turn); err != nil { // fail changes s.live
			s.fail(lt, err)
			s.endTurns(errDismissed())
			return
		}
	}
}

// handleEvent processes one event of the agent.
func (s *Session) handleEvent(ev event.Event) {
	if ev.At.IsZero() {
		ev.At = time.Now()
	}
	switch b := ev.Body.(type) {
	case event.SessionUpdated:
		s.reported(b)
	case event.Notice:
		s.given.noticed(b)
	}
	if ev.Turn == "" {
		s.handleOutOfTurn(ev)
		return
	}
	lt := s.find(ev.Turn)
	if lt == nil {
		if _, ok := ev.Body.(event.ResponseStart); !ok || s.recover != nil || s.endedTurns[ev.Turn] {
			if s.recover == nil {
				s.counters.Events.Add(1)
			}
			return // late output of a turn that has ended
		}
		lt = s.add(newRules(ev.Turn, s.provider.Name()), newTurn(ev.Turn, s.id, s.log, s.head+int64(len(s.batch))))
	}
	s.admit(lt, ev)
}

// admit passes an event of the agent through the rules of its turn and stages
// the events that the rules return.
func (s *Session) admit(lt *liveTurn, ev event.Event) {
	dropped := lt.rules.dropped
	lt.lastEventAt = time.Now()
	s.stageAll(lt, lt.rules.admitAgent(ev))
	if _, ok := ev.Body.(event.UsageUpdated); ok {
		s.checkBudgets(lt, ev.At)
	}
	if n := lt.rules.dropped - dropped; n > 0 { // avoids an atomic write per event
		s.counters.Events.Add(int64(n))
	}
}

// handleOutOfTurn stages an out-of-turn fact: settings, usage or a notice.
// While a turn runs, the fact becomes part of that turn, so the log has the
// order of arrival. A turn whose terminal event is already staged accepts no
// more facts.
func (s *Session) handleOutOfTurn(ev event.Event) {
	if !isFact(ev.Body) {
		s.counters.Events.Add(1)
		return
	}
	if i := slices.IndexFunc(s.live, func(lt *liveTurn) bool { return !lt.rules.ended }); i >= 0 {
		s.admit(s.live[i], ev)
		return
	}
	facts := boundedFact(ev)
	if len(facts) == 0 {
		s.counters.Events.Add(1)
	}
	for _, fact := range facts {
		s.stage(fact)
	}
}

// stageAll stages events that the rules returned. It also starts the search for
// an answer to each new approval and settles each resolved one.
func (s *Session) stageAll(lt *liveTurn, evs []event.Event) {
	for _, ev := range evs {
		s.stage(ev)
		if event.Ends(ev.Body) {
			s.stageReturn(lt, ev.At)
			s.decided = append(s.decided, lt.reach.counted.end()...)
		}
		switch b := ev.Body.(type) {
		case event.ApprovalRequested:
			s.findAnswer(lt, b.Approval)
		case event.ApprovalResolved:
			if q, ok := lt.asked[b.ApprovalID]; ok {
				if q.reach != nil {
					s.answeredReach(lt, q, b)
				}
				s.decided = append(s.decided, Decided{Turn: ev.Turn, At: ev.At, Approval: q.approval, Resolved: b, Maker: q.maker})
				q.end(errApprovalGone())
				delete(lt.asked, b.ApprovalID)
			}
		}
		s.annotate(lt, ev)
	}
}

// annotate stages the notices that Config.Annotate returns for an event.
func (s *Session) annotate(lt *liveTurn, ev event.Event) {
	if s.cfg.Annotate == nil || lt.followed || !lt.rules.started || lt.rules.ended {
		return
	}
	for _, n := range s.cfg.Annotate(ev) {
		s.stage(event.Event{At: ev.At, Turn: lt.rules.turn, Body: n})
	}
}

// begin starts a turn, with settings for that turn only. A rejected prompt
// changes no setting: begin checks everything and logs the prompt before it
// sends the first setting to the agent.
func (s *Session) begin(in Input, set Settings) (*Turn, error) {
	if err := s.checkCanStart(in.Turn); err != nil {
		return nil, err
	}
	if in.Turn == "" {
		in.Turn = uuid.NewString()
	}
	set, err := s.checkTurnSettings(set)
	if err == nil {
		err = s.checkSpent()
	}
	if err != nil {
		return nil, err
	}
	in.After = s.head + int64(len(s.batch))
	lt := s.add(newRules(in.Turn, s.provider.Name()), newTurn(in.Turn, s.id, s.log, s.head))
	s.stageAll(lt, lt.rules.user(time.Now(), in))
	for _, w := range s.cfg.warnings {
		s.stageAll(lt, lt.rules.admit(event.Event{At: time.Now(), Body: w}))
	}
	s.cfg.warnings = nil
	s.beginSettings(lt, set)
	if err := s.flush(); err != nil {
		return nil, err
	}
	lt.prompt = &in
	s.prompt(lt)
	return lt.handle, nil
}

// checkCanStart returns an error if no turn with this id can start now: the
// session is closing, its log is unavailable, a turn runs, or the id was used
// before.
func (s *Session) checkCanStart(turn string) error {
	if len(s.closing) > 0 {
		return Fail(SessionDead, "the session is closing; start a new one or load it again")
	}
	if s.recover != nil {
		if err := s.reconcile(s.ctx); err != nil {
			return err
		}
	}
	if len(s.live) > 0 {
		return &Error{Code: TurnInProgress, Message: "a turn is already running; wait for its end, or cancel it",
			Details: map[string]string{"turnId": s.live[0].rules.turn}}
	}
	if s.endedTurns[turn] {
		return Fail(InvalidRequest, "turn: a turn with this id has already ended; use a new id")
	}
	return nil
}

// prompt sends the settings and the prompt of a turn to the agent. If no agent
// runs, prompt begins to start one, and attach sends the prompt later.
func (s *Session) prompt(lt *liveTurn) {
	if !s.alive() {
		s.open()
		return
	}
	if err := s.giveSettings(lt); err != nil {
		if s.find(lt.rules.turn) == lt { // otherwise a failed log has ended the turn
			s.fail(lt, Safe(err))
		}
		return
	}
	in := *lt.prompt
	lt.prompt, lt.lastEventAt = nil, time.Now()
	if err := s.link.conn.Prompt(s.ctx, lt.rules.turn, in); err != nil {
		s.fail(lt, Safe(err))
	}
}

// cancel asks the agent to end every live turn within the grace period. It
// withdraws their approvals, and ends a turn whose prompt was not sent yet.
func (s *Session) cancel(now time.Time) {
	for _, lt := range slices.Clone(s.live) {
		if !lt.rules.cancelling && !lt.followed {
			s.cancelTurn(lt, now)
		}
	}
	_ = s.flush()
}

// cancelTurn is cancel for one turn. The caller flushes.
func (s *Session) cancelTurn(lt *liveTurn, now time.Time) {
	lt.rules.cancelling = true
	lt.overdue = now.Add(s.cfg.InterruptGrace)
	s.stageAll(lt, lt.rules.withdraw(now, WithdrawnByCancel))
	if lt.prompt != nil { // the agent did not receive the prompt
		s.stageAll(lt, lt.rules.end(now, event.ResponseDone{Status: event.StatusCancelled}))
		return
	}
	if s.link == nil {
		return
	}
	if err := s.link.conn.Interrupt(s.ctx); err != nil {
		s.interruptFailed(lt, now, "The agent did not accept the interrupt. It is stopped; the next prompt starts it again. "+s.fault(Safe(err)).Message)
		lt.overdue = now
	}
}

func (s *Session) set(set Settings) error {
	set, err := s.checkSettings(set)
	if err != nil {
		return err
	}
	if !set.Budget.IsZero() { // the caller of Config.Changed stores whole budgets
		set.Budget = set.Budget.or(s.opt.Budget)
	}
	if !set.TurnBudget.IsZero() {
		set.TurnBudget = set.TurnBudget.or(s.opt.TurnBudget)
	}
	if err := s.apply(set); err != nil {
		return err
	}
	s.recordSettings(set)
	return s.flush()
}

// checkSettings returns set in the form that apply takes, or the error for the
// first invalid setting. It changes nothing.
func (s *Session) checkSettings(set Settings) (Settings, error) {
	set, err := checkSettings(s.provider, s.opt, set, s.facts.config)
	if err != nil || !s.alive() {
		return set, err
	}
	return set, s.checkLive(set)
}

// apply changes settings in the running agent, if there is one, and in the
// options with which the session starts its next agents.
func (s *Session) apply(set Settings) error {
	if s.alive() {
		if err := s.setLive(set); err != nil {
			return err
		}
	}
	s.mergeSettings(set)
	if set.PermissionMode != "" {
		warnOfBypass(s.opt)
	}
	return nil
}

// recordSettings stages an event with the new model and permission mode. The
// agent itself reports new values of the other settings.
func (s *Session) recordSettings(set Settings) {
	if set.Model != "" || set.PermissionMode != "" {
		s.handleOutOfTurn(event.Event{At: time.Now(), Body: event.SessionUpdated{ModelID: set.Model, PermissionMode: string(set.PermissionMode)}})
	}
}

// alive reports whether an agent runs and accepts prompts and settings.
func (s *Session) alive() bool { return s.link != nil && !s.link.closing }

func (s *Session) release() error {
	if len(s.live) > 0 {
		return Fail(TurnInProgress, "a turn is running")
	}
	s.unlink()
	return nil
}

func (s *Session) status() Status {
	st := Status{
		ID: s.id, Provider: s.provider.Name(), Activity: event.ActivityIdle, State: event.StateOpen, Head: s.head,
		AgentSessionID: s.conversation(), ModelID: s.facts.modelID, PermissionMode: s.facts.permissionMode, Config: s.facts.config,
		AgentAlive: s.alive(), Exit: s.lastExit.Load(),
		Resumes: s.resumes,
	}
	if s.link != nil {
		if r, ok := s.link.conn.(Resumer); ok {
			st.Resumes = r.Resumes()
		}
	}
	for _, lt := range s.live {
		st.Activity, st.Turn, st.TurnSettings = event.ActivityWorking, lt.rules.turn, lt.chosen
		st.Followed = lt.followed
		for _, a := range lt.rules.asked {
			if !lt.asked[a.ID].judging() {
				st.Pending = append(st.Pending, a)
			}
		}
	}
	if len(st.Pending) > 0 {
		st.Activity = event.ActivityWaiting
	}
	return st
}

// onAgentExit ends the turns of an agent that has exited or failed. It then
// starts a new agent if a prompt is waiting.
func (s *Session) onAgentExit(cause error) {
	exit, err := s.noteExit(s.link.conn), Safe(cause)
	if errors.Is(cause, io.EOF) {
		err = Fail(ProcessCrash, "the agent ended in the middle of the turn; send again to resume the conversation", cause)
		if exit != nil {
			err.Details = exit
		}
	}
	s.endTurns(err)
	for _, lt := range s.live { // its prompt waited for this agent to exit
		s.prompt(lt)
	}
}

// endTurns ends every turn that the agent has received with err, and stops the
// agent.
func (s *Session) endTurns(err *Error) {
	for _, lt := range slices.Clone(s.live) {
		if lt.prompt == nil {
			s.stageAll(lt, lt.rules.end(time.Now(), event.ResponseError{Error: s.fault(err)}))
		}
	}
	_ = s.flush()
	s.unlink()
}

// fail ends a turn with an error that the session, not the agent, reports.
func (s *Session) fail(lt *liveTurn, err *Error) {
	s.stageAll(lt, lt.rules.end(time.Now(), event.ResponseError{Error: s.fault(err)}))
	_ = s.flush()
}

// beginClose begins to close the session: it cancels the turns and stops the
// agent.
func (s *Session) beginClose(now time.Time) {
	_ = s.unfollow()
	s.cancel(now)
	for _, lt := range s.live {
		lt.enforced, lt.overdue = true, now.Add(s.cfg.InterruptGrace+closeGrace)
	}
	if s.opening != nil {
		s.opening()
	}
	if s.link != nil {
		s.link.beginClose(s)
	}
}

const overtime = "the run took longer than its timeout allows"

// expire ends the turns as TIMEOUT and begins to close the session because its
// lifetime is over.
func (s *Session) expire(now time.Time) {
	for _, lt := range slices.Clone(s.live) {
		s.stageAll(lt, lt.rules.end(now, event.ResponseError{Error: event.Fault{Code: string(Timeout), Message: overtime}}))
	}
	_ = s.flush()
	s.closing = append(s.closing, make(chan error, 1))
	s.beginClose(now)
}
