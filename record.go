package runnel

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/runnel-dev/runnel/event"
)

// stage adds ev to the batch that flush appends, unless an adopted agent
// replays it and the log already has it.
func (s *Session) stage(ev event.Event) {
	if s.adopting != nil && !s.adopting.lacks(&ev) {
		return
	}
	if len(s.batch) == cap(s.batch) {
		s.batch = append(make([]event.Event, 0, len(s.batch)+stagedAtOnce), s.batch...)
	}
	s.batch = append(s.batch, ev)
}

// stagedAtOnce is the number of staged events for which a session allocates
// memory at once.
const stagedAtOnce = 16

// flush appends the staged events to the log. Then it calls the functions of
// Config and settles the turns that have ended.
func (s *Session) flush() error {
	n := len(s.batch)
	if n == 0 {
		return nil
	}
	evs, decided, answered := s.batch[:n:n], s.decided, s.reach.answered
	s.batch, s.decided, s.reach.answered = s.batch[n:], nil, nil // later events use the rest of the memory
	for i := range evs {
		evs[i].Session, evs[i].Seq = s.id, s.head+int64(i)+1
	}
	if err := s.log.Append(s.ctx, s.id, s.head, evs...); err != nil {
		for _, r := range answered {
			r.q.reply(refusedReach(whyNotLogged))
		}
		return s.onAppendFailure(err)
	}
	s.head += int64(len(evs))
	if s.cfg.Recorded != nil {
		s.cfg.Recorded(evs)
	}
	if s.cfg.Decided != nil {
		for _, d := range decided {
			s.cfg.Decided(d)
		}
	}
	for _, r := range answered {
		r.settle(s)
	}
	for _, ev := range evs {
		if b, ok := ev.Body.(event.SessionUpdated); ok {
			s.facts.update(b)
		}
		if b, ok := ev.Body.(event.Notice); ok && b.Code == ConversationForgotten {
			s.facts.agentSessionID = ""
		}
		if event.Ends(ev.Body) {
			s.endedTurns[ev.Turn] = true
			s.settle(ev)
		}
	}
	return nil
}

// settle resolves the handle of a turn whose terminal event is in the log.
func (s *Session) settle(ev event.Event) {
	i := slices.IndexFunc(s.live, func(lt *liveTurn) bool { return lt.rules.turn == ev.Turn })
	if i < 0 {
		return // closed by reconcile; it has no handle
	}
	lt := s.live[i]
	s.live = slices.Delete(s.live, i, i+1)
	s.spend(lt, ev)
	s.restore(lt, ev.Body)
	res := Result{
		SessionID: s.id, AgentSessionID: s.conversation(),
		FinalText: lt.rules.finalText, Usage: lt.rules.usage.Usage, CostUSD: lt.rules.usage.CostUSD,
	}
	var err error
	switch b := ev.Body.(type) {
	case event.ResponseDone:
		res.Status, res.Reason = b.Status, b.FinishReason
		if b.Usage != nil {
			res.Usage = b.Usage
		}
	case event.ResponseError:
		res.Status, res.Reason = event.StatusError, b.Error.Message
		e := &Error{Code: Code(b.Error.Code), Message: b.Error.Message}
		if len(b.Error.Details) > 0 {
			e.Details = b.Error.Details
		}
		err = e
		if e.Code == SessionNotFound { // the agent does not have this conversation
			res.AgentSessionID = ""
		}
	}
	lt.handle.resolve(res, err)
}

// conversation returns the agent's id of this session's conversation; "" for a
// copy until the agent has reported its id.
func (s *Session) conversation() string {
	if s.opt.Fork && s.facts.agentSessionID == s.first.Resume {
		return ""
	}
	return s.facts.agentSessionID
}

// onAppendFailure abandons the turns and stops the agent after an append to the
// log has failed. The next Send first calls reconcile. tick calls reconcile
// earlier, but not if the log has another writer, because reconcile would close
// that writer's turns.
func (s *Session) onAppendFailure(cause error) error {
	err := Safe(cause)
	if err.Code != StoreUnavailable {
		err = Fail(StoreUnavailable, "the session's log cannot be written; see the server's log, free disk space or stop the other program that writes it, and send again", cause)
	}
	s.recover = err
	if !errors.Is(cause, ErrConflict) {
		s.scheduleReconcile()
	}
	for _, lt := range s.live {
		for _, q := range lt.asked {
			q.end(err)
		}
		lt.handle.abandon(err)
	}
	s.live = nil
	s.unlink()
	return err
}

// scheduleReconcile schedules the next attempt of tick to reconcile.
func (s *Session) scheduleReconcile() {
	s.pause = min(max(2*s.pause, time.Second), time.Minute)
	s.retry = time.Now().Add(s.pause)
}

// reconcile reads the end of the log and closes the turns that an earlier
// writer left without a terminal event.
func (s *Session) reconcile(ctx context.Context) error {
	st, err := s.log.State(ctx, s.id)
	if err != nil {
		return err
	}
	var evs []event.Event
	for _, open := range st.Open {
		end, err := s.endOf(ctx, open)
		if err != nil {
			return err
		}
		evs = append(evs, end...)
	}
	s.head, s.batch = st.Head, evs
	if err := s.flush(); err != nil {
		return err
	}
	s.recover, s.retry, s.pause = nil, time.Time{}, 0
	return nil
}

// endOf returns the events that close an open turn of the log.
func (s *Session) endOf(ctx context.Context, open OpenTurn) ([]event.Event, error) {
	r := newRules(open.Turn, s.provider.Name())
	var restores *event.SessionSettings
	for ev, err := range s.log.Read(ctx, s.id, open.After) {
		if err != nil {
			return nil, err
		}
		if ev.Turn == open.Turn {
			r.admit(ev)
		}
		if b, ok := ev.Body.(event.SessionUpdated); ok && b.Restores != nil {
			restores = b.Restores
		}
	}
	fault := event.Fault{
		Code: string(ProcessCrash), Message: "runnel ended in the middle of this turn; send again to resume the conversation",
	}
	if s.recover != nil { // this session failed to write the log
		fault = event.Fault{Code: string(StoreUnavailable),
			Message: "the session's log could not be written and the rest of this turn is lost; send again to resume the conversation"}
	}
	evs := r.end(time.Now(), event.ResponseError{Error: fault})
	if restores != nil && r.prompted() {
		back := settingsOf(*restores)
		evs = append(evs, returnFact(time.Now(), back))
		s.pin(back)
	}
	return evs, nil
}

// ConversationForgotten is the code of the notice that the agent has started a
// new conversation and does not know the session's earlier turns.
const ConversationForgotten = "CONVERSATION_FORGOTTEN"

// forgotten returns the notice ConversationForgotten.
func forgotten(why string) event.Event {
	return event.Event{At: time.Now(), Body: event.Notice{
		Level: event.LevelWarning, Code: ConversationForgotten, Message: why + " It starts a new conversation and does not know the messages above.",
	}}
}

// update applies the fields of b that are set.
func (f *facts) update(b event.SessionUpdated) {
	if b.AgentSessionID != "" {
		f.agentSessionID = b.AgentSessionID
	}
	if b.ModelID != "" {
		f.modelID = b.ModelID
	}
	if b.PermissionMode != "" {
		f.permissionMode = b.PermissionMode
	}
	if b.Config != nil {
		f.config = b.Config
	}
}

// find returns the live turn with an id; nil if there is none.
func (s *Session) find(turn string) *liveTurn {
	for _, lt := range s.live {
		if lt.rules.turn == turn {
			return lt
		}
	}
	return nil
}

func (s *Session) add(r *rules, t *Turn) *liveTurn {
	lt := &liveTurn{rules: r, handle: t, lastEventAt: time.Now(), asked: map[string]*question{}, budget: s.opt.TurnBudget, reach: newReachTurn()}
	s.live = append(s.live, lt)
	return lt
}
