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
	rules    *rules
	handle   *Turn
	prompt   *Input               // to be handed to the agent once it is there
	chosen   Settings             // for this turn alone
	set      Settings             // those of them that the agent has not been given yet
	restores *Settings            // what the session returns to after the turn; nil: it has no settings of its own
	heard    time.Time            // when the agent last said something
	asked    map[string]*question // the pending approvals
	overdue  time.Time            // when an asked-for end is enforced; zero: none was asked for
	enforced bool                 // the agent is being ended because the turn was overdue
}

// facts is what is known of the conversation beside its turns.
type facts struct {
	agentSessionID, modelID, permissionMode string

	config []event.ConfigOption
}

// loop owns the session's state and its log.
func (s *Session) loop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var death time.Time
	if s.cfg.Lifetime > 0 {
		death = time.Now().Add(s.cfg.Lifetime)
	}
	for {
		if len(s.closing) > 0 && s.link == nil && s.opening == nil {
			s.exit()
			return
		}
		due := s.due(death)
		if due.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(due))
		}
		var in <-chan arrival
		if s.link != nil {
			in = s.link.in
		}
		select {
		case m := <-s.box:
			s.handle(m)
		case a := <-in:
			s.drain(a)
		case o := <-s.opened:
			s.attach(o)
		case now := <-timer.C:
			if !death.IsZero() && !now.Before(death) {
				death = time.Time{}
				s.expire(now)
			}
			s.tick(now)
		}
	}
}

// exit answers those who wait for the end, last.
func (s *Session) exit() {
	s.stop()
	s.helpers.Wait()
	s.final = s.status()
	s.final.State = event.StateDead
	close(s.ended)
	for _, reply := range s.closing {
		reply <- nil
	}
}

func (s *Session) handle(m message) {
	switch m := m.(type) {
	case sendMsg:
		t, err := s.begin(m.in, m.set)
		m.reply <- answer[*Turn]{t, err}
	case refuseMsg:
		m.reply <- answer[struct{}]{err: s.refuse(m.in, m.why)}
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
	case verdictMsg:
		s.judged(m)
	case checkMsg:
		_, err := s.checkTurnSettings(m.set)
		m.reply <- answer[struct{}]{err: err}
	case setMsg:
		m.reply <- answer[struct{}]{err: s.set(m.set)}
	case renewMsg:
		ok, err := s.renew(m.opt)
		m.reply <- answer[bool]{ok, err}
	case statusMsg:
		m.reply <- answer[Status]{value: s.status()}
	case releaseMsg:
		m.reply <- answer[struct{}]{err: s.release()}
	case importMsg:
		m.reply <- answer[struct{}]{err: s.imports(m.evs)}
	case detachMsg:
		if s.opening != nil && len(s.live) > 0 { // its prompt is about to be handed over
			s.departing = append(s.departing, m.reply)
			return
		}
		m.reply <- answer[bool]{value: s.detach()}
	case closeMsg:
		s.closing = append(s.closing, m.reply)
		s.shut(time.Now())
	}
}

// drain takes what has arrived, up to a bound, and appends it in one batch.
func (s *Session) drain(a arrival) {
	const batch = 256
	in := s.link.in
	for n := 1; ; n++ {
		if a.err != nil {
			s.agentGone(a.err)
			s.flush()
			return
		}
		s.arrive(a.ev)
		if n == batch {
			break
		}
		select {
		case a = <-in:
			continue
		default:
		}
		break
	}
	if s.flush() == nil {
		s.enforce()
	}
}

// enforce ends the turns that have stored too much. Their agent is ended, too:
// it would go on.
func (s *Session) enforce() {
	if s.cfg.Exceeded == nil {
		return
	}
	for _, lt := range slices.Clone(s.live) {
		if lt.rules.ended {
			continue
		}
		if err := s.cfg.Exceeded(lt.rules.turn); err != nil {
			s.fail(lt, err)
			s.dismiss(errDismissed())
			return
		}
	}
}

// arrive judges one event of the agent.
func (s *Session) arrive(ev event.Event) {
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
		s.between(ev)
		return
	}
	lt := s.find(ev.Turn)
	if lt == nil {
		if _, ok := ev.Body.(event.ResponseStart); !ok || s.recover != nil || s.over[ev.Turn] {
			if s.recover == nil {
				s.counters.Events.Add(1)
			}
			return // late output of a turn that is over
		}
		lt = s.add(newRules(ev.Turn, s.provider.Name()), newTurn(ev.Turn, s.id, s.log, s.head+int64(len(s.batch))))
	}
	s.admit(lt, ev)
}

// admit records what the rules of its turn make of an event of the agent.
func (s *Session) admit(lt *liveTurn, ev event.Event) {
	dropped := lt.rules.dropped
	lt.heard = time.Now()
	s.take(lt, lt.rules.admit(ev))
	if n := lt.rules.dropped - dropped; n > 0 { // sessions share the counters: most events leave them alone
		s.counters.Events.Add(int64(n))
	}
}

// between records an out-of-turn fact. While a turn runs the fact becomes part
// of that turn, so that the order of the log is the order of arrival. A turn
// whose end waits to be appended takes nothing more.
func (s *Session) between(ev event.Event) {
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

// take stages what the rules let through and follows up on it.
func (s *Session) take(lt *liveTurn, evs []event.Event) {
	for _, ev := range evs {
		s.stage(ev)
		if event.Ends(ev.Body) {
			s.stageReturn(lt, ev.At)
		}
		switch b := ev.Body.(type) {
		case event.ApprovalRequested:
			s.findAnswer(lt, b.Approval)
		case event.ApprovalResolved:
			if q, ok := lt.asked[b.ApprovalID]; ok {
				s.decided = append(s.decided, Decided{Turn: ev.Turn, At: ev.At, Approval: q.approval, Resolved: b, Maker: q.maker})
				q.end(errApprovalGone())
				delete(lt.asked, b.ApprovalID)
			}
		}
		s.annotate(lt, ev)
	}
}

// annotate stages what Config.Annotate has to say of an event.
func (s *Session) annotate(lt *liveTurn, ev event.Event) {
	if s.cfg.Annotate == nil || !lt.rules.started || lt.rules.ended {
		return
	}
	for _, n := range s.cfg.Annotate(ev) {
		s.stage(event.Event{At: ev.At, Turn: lt.rules.turn, Body: n})
	}
}

// begin begins a turn, with settings for that turn alone. A prompt that is
// refused changes nothing: everything is checked and the prompt is in the log
// before the agent gets the first setting.
func (s *Session) begin(in Input, set Settings) (*Turn, error) {
	if err := s.free(in.Turn); err != nil {
		return nil, err
	}
	if in.Turn == "" {
		in.Turn = uuid.NewString()
	}
	set, err := s.checkTurnSettings(set)
	if err != nil {
		return nil, err
	}
	in.After = s.head + int64(len(s.batch))
	lt := s.add(newRules(in.Turn, s.provider.Name()), newTurn(in.Turn, s.id, s.log, s.head))
	s.take(lt, lt.rules.user(time.Now(), in))
	for _, w := range s.cfg.warnings {
		s.take(lt, lt.rules.admit(event.Event{At: time.Now(), Body: w}))
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

// free returns the error with which a turn cannot begin now, whatever its prompt
// is.
func (s *Session) free(turn string) error {
	if len(s.closing) > 0 {
		return Fail(SessionDead, "the session is being ended")
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
	if s.over[turn] {
		return Fail(InvalidRequest, "turn: this id is that of a turn that is over")
	}
	return nil
}

// prompt hands a turn's settings and its prompt to the agent, or begins to start
// the agent.
func (s *Session) prompt(lt *liveTurn) {
	if !s.alive() {
		s.open()
		return
	}
	if err := s.giveSettings(lt); err != nil {
		if s.find(lt.rules.turn) == lt { // else the log has failed, which ended all
			s.fail(lt, Safe(err))
		}
		return
	}
	in := *lt.prompt
	lt.prompt, lt.heard = nil, time.Now()
	if err := s.link.conn.Prompt(s.ctx, lt.rules.turn, in); err != nil {
		s.fail(lt, Safe(err))
	}
}

// cancel asks for the end of every live turn.
func (s *Session) cancel(now time.Time) {
	for _, lt := range slices.Clone(s.live) {
		if lt.rules.cancelling {
			continue
		}
		lt.rules.cancelling = true
		lt.overdue = now.Add(s.cfg.InterruptGrace)
		s.take(lt, lt.rules.withdraw(now, WithdrawnByCancel))
		if lt.prompt != nil { // the agent never had it
			s.take(lt, lt.rules.end(now, event.ResponseDone{Status: event.StatusCancelled}))
			continue
		}
		if s.link == nil {
			continue
		}
		if err := s.link.conn.Interrupt(s.ctx); err != nil {
			s.interruptFailed(lt, now, "The agent could not be asked to stop. It is stopped; the next prompt starts it again. "+s.fault(Safe(err)).Message)
			lt.overdue = now
		}
	}
	_ = s.flush()
}

func (s *Session) set(set Settings) error {
	set, err := s.checkSettings(set)
	if err != nil {
		return err
	}
	if err := s.apply(set); err != nil {
		return err
	}
	s.recordSettings(set)
	return s.flush()
}

// checkSettings returns settings as they will be applied, or the error with which
// they are refused. It changes nothing.
func (s *Session) checkSettings(set Settings) (Settings, error) {
	set, err := checkSettings(s.provider, s.opt, set, s.facts.config)
	if err != nil || !s.alive() {
		return set, err
	}
	return set, s.checkLive(set)
}

// apply puts settings into effect, in the running agent and in those after it.
func (s *Session) apply(set Settings) error {
	if s.alive() {
		if err := s.setLive(set); err != nil {
			return err
		}
	}
	s.own(set)
	if set.PermissionMode != "" {
		warnOfBypass(s.opt)
	}
	return nil
}

// recordSettings stages what readers see of settings. Of the others it is the
// agent that reports the new value.
func (s *Session) recordSettings(set Settings) {
	if set.Model != "" || set.PermissionMode != "" {
		s.between(event.Event{At: time.Now(), Body: event.SessionUpdated{ModelID: set.Model, PermissionMode: string(set.PermissionMode)}})
	}
}

// alive reports whether there is an agent that takes prompts and settings.
func (s *Session) alive() bool { return s.link != nil && !s.link.leaving }

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

// agentGone ends what the agent left unfinished.
func (s *Session) agentGone(cause error) {
	exit, err := s.noteExit(s.link.conn), Safe(cause)
	if errors.Is(cause, io.EOF) {
		err = Fail(ProcessCrash, "the agent ended in the middle of the turn; send again to resume the conversation", cause)
		if exit != nil {
			err.Details = exit
		}
	}
	s.dismiss(err)
	for _, lt := range s.live { // a prompt that was waiting for this agent to go
		s.prompt(lt)
	}
}

// dismiss ends what the agent has not finished, and forgets it.
func (s *Session) dismiss(err *Error) {
	for _, lt := range slices.Clone(s.live) {
		if lt.prompt == nil {
			s.take(lt, lt.rules.end(time.Now(), event.ResponseError{Error: s.fault(err)}))
		}
	}
	_ = s.flush()
	s.unlink()
}

// fail ends a turn with an error on our own account.
func (s *Session) fail(lt *liveTurn, err *Error) {
	s.take(lt, lt.rules.end(time.Now(), event.ResponseError{Error: s.fault(err)}))
	_ = s.flush()
}

// shut begins the end of the session.
func (s *Session) shut(now time.Time) {
	s.cancel(now)
	for _, lt := range s.live {
		lt.enforced, lt.overdue = true, now.Add(s.cfg.InterruptGrace+closeGrace)
	}
	if s.opening != nil {
		s.opening()
	}
	if s.link != nil {
		s.link.leave(s)
	}
}

const overtime = "the run took longer than its timeout allows"

// expire ends the session because its lifetime is over.
func (s *Session) expire(now time.Time) {
	for _, lt := range slices.Clone(s.live) {
		s.take(lt, lt.rules.end(now, event.ResponseError{Error: event.Fault{Code: string(Timeout), Message: overtime}}))
	}
	_ = s.flush()
	s.closing = append(s.closing, make(chan error, 1))
	s.shut(now)
}
