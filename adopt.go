package runnel

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/runnel-dev/runnel/event"
)

// An adoption is what the log has of what an adopted agent says again: all that
// it said since a position of the log comes once more, and only what the log
// lacks is recorded.
type adoption struct {
	deltas  map[string]int                    // bytes of each item's deltas
	facts   map[string]int                    // how often each fact was recorded
	answers map[string]event.ApprovalResolved // by approval
	between bool                              // facts between turns may be new
}

func newAdoption() *adoption {
	return &adoption{deltas: make(map[string]int), facts: make(map[string]int), answers: make(map[string]event.ApprovalResolved)}
}

// has notes an event of the log.
func (a *adoption) has(ev event.Event) {
	switch b := ev.Body.(type) {
	case event.ItemDelta:
		a.deltas[b.ItemID] += len(b.DeltaContent)
	case event.ApprovalResolved:
		a.answers[b.ApprovalID] = b
	default:
		if isFact(b) {
			a.facts[factKey(b)]++
		}
	}
}

// lacks reports whether the log lacks ev, of which it may have a part: then ev
// becomes the rest. What happens once in a turn is not judged here, but by the
// turn's rules.
func (a *adoption) lacks(ev *event.Event) bool {
	switch b := ev.Body.(type) {
	case event.ItemDelta:
		n := min(a.deltas[b.ItemID], len(b.DeltaContent))
		a.deltas[b.ItemID] -= n
		b.DeltaContent = b.DeltaContent[n:]
		ev.Body = b
		return n == 0 || b.DeltaContent != ""
	default:
		if !isFact(b) {
			return true
		}
		key := factKey(b)
		if a.facts[key] > 0 {
			a.facts[key]--
			return false
		}
		return a.between || ev.Turn != ""
	}
}

func factKey(b event.Body) string {
	text, err := json.Marshal(b)
	if err != nil {
		return ""
	}
	return event.Type(b) + string(text)
}

// adopt takes over the agent that a process before this one left. It fails,
// with nothing changed, if there is none; the session is not running yet.
func (s *Session) adopt(ctx context.Context) error {
	a, ok := s.provider.(Adopter)
	if !ok {
		return Fail(UnsupportedCapability, s.provider.Name()+" cannot be taken over")
	}
	conn, back, err := a.Adopt(ctx, s.opt)
	if err != nil {
		return Safe(err)
	}
	if err := s.recall(ctx, back); err != nil {
		s.live, s.over, s.adopting = nil, make(map[string]bool), nil
		if d, ok := conn.(Detacher); !ok || !d.Detach() {
			_ = conn.Close()
		}
		return err
	}
	release, _ := s.cfg.Reserve(true) // never refused
	s.link = makeLink(s, conn, release)
	for _, ev := range back.Events {
		for _, out := range s.link.screened(ev, nil) {
			s.arrive(out.ev)
		}
	}
	told := s.adopting
	s.adopting = nil
	if err := s.flush(); err != nil {
		return nil // the session goes on as one whose log has failed
	}
	s.link.start(s)
	s.tell(ctx, back, told)
	return nil
}

// recall learns from the log what the agent is about to say again, and takes up
// the turns that have no end.
func (s *Session) recall(ctx context.Context, back Backlog) error {
	st, err := s.log.State(ctx, s.id)
	if err != nil {
		return err
	}
	from := st.Head
	if back.After >= 0 {
		from = min(from, back.After)
	}
	for _, open := range st.Open {
		from = min(from, open.After)
	}
	s.head, s.adopting = st.Head, newAdoption()
	s.adopting.between = back.After >= 0
	known := make(map[string]*rules)
	var restores *event.SessionSettings // of the turn that began last
	for ev, err := range s.log.Read(ctx, s.id, from) {
		if err != nil {
			return err
		}
		s.adopting.has(ev)
		if b, ok := ev.Body.(event.SessionUpdated); ok {
			s.facts.update(b)
			if b.Restores != nil {
				restores = b.Restores
			}
		}
		if event.Ends(ev.Body) {
			restores = nil
		}
		if ev.Turn == "" {
			continue
		}
		r := known[ev.Turn]
		if r == nil {
			r = newRules(ev.Turn, s.provider.Name())
			r.believe = true // whether we asked for an end before, the agent knows
			known[ev.Turn] = r
		}
		r.admit(ev)
		if s.cfg.Annotate != nil {
			s.cfg.Annotate(ev)
		}
		s.over[ev.Turn] = s.over[ev.Turn] || event.Ends(ev.Body)
	}
	for _, open := range st.Open {
		if r := known[open.Turn]; r != nil {
			s.resume(r, open, restores)
		}
	}
	for turn, over := range s.over {
		if !over {
			delete(s.over, turn)
		}
	}
	return nil
}

// resume takes up a turn as the log has it. A prompt's turn may have settings of
// its own.
func (s *Session) resume(r *rules, open OpenTurn, restores *event.SessionSettings) {
	lt := s.add(r, newTurn(open.Turn, s.id, s.log, open.After))
	if restores != nil && r.prompted() {
		back := settingsOf(*restores)
		lt.restores = &back
	}
	for _, a := range r.asked {
		s.findAnswer(lt, a)
	}
}

// tell gives the agent what was decided, and recorded, but did not reach it.
func (s *Session) tell(ctx context.Context, back Backlog, told *adoption) {
	for _, lt := range slices.Clone(s.live) {
		if lt.rules.started || slices.Contains(back.Prompts, lt.rules.turn) {
			continue
		}
		in, err := s.promptOf(ctx, lt)
		if err == nil && lt.restores != nil { // the settings of the turn are not in the log
			err = errPromptLost()
		}
		if err != nil {
			s.fail(lt, Safe(err))
			continue
		}
		lt.prompt = &in
		s.prompt(lt)
	}
	for _, id := range back.Waiting {
		answer, ok := told.answers[id]
		if !ok || s.link == nil {
			continue
		}
		var err error
		if answer.Choice == event.ChoiceWithdrawn {
			err = s.link.conn.Interrupt(s.ctx)
		} else {
			err = s.link.conn.Decide(s.ctx, id, Decision{
				Choice: answer.Choice, Reason: answer.Reason, By: answer.By, UpdatedArguments: answer.UpdatedArguments,
			})
		}
		if err != nil { // the agent would wait for ever for what it cannot be told
			s.dismiss(Safe(err))
			return
		}
	}
}

// promptOf returns the user's message of a turn as the log has it.
func (s *Session) promptOf(ctx context.Context, lt *liveTurn) (Input, error) {
	in := Input{Turn: lt.rules.turn, After: lt.handle.after}
	for ev, err := range s.log.Read(ctx, s.id, lt.handle.after) {
		if err != nil {
			return in, err
		}
		done, ok := ev.Body.(event.ItemDone)
		if !ok || done.ItemID != UserItemID(in.Turn) {
			continue
		}
		if m, ok := done.FinalItem.(event.Message); ok && len(m.Attachments) == 0 {
			in.Text = m.Content
			return in, nil
		}
		break
	}
	return in, errPromptLost()
}

func errPromptLost() error {
	return Fail(ProcessCrash, "runnel ended before the agent had this prompt; send it again")
}

// detach lets go of an agent that has a turn to finish, and is not asked to
// end it, and ends the session.
func (s *Session) detach() bool {
	if len(s.live) == 0 || s.link == nil || s.link.leaving || s.opening != nil || len(s.closing) > 0 {
		return false
	}
	if slices.ContainsFunc(s.live, func(lt *liveTurn) bool { return lt.rules.cancelling }) {
		return false // that it was asked to end is known here only
	}
	d, ok := s.link.conn.(Detacher)
	if !ok || s.flush() != nil || !d.Detach() {
		return false
	}
	close(s.link.quit)
	s.link.release()
	s.link = nil
	err := Fail(StoreUnavailable, "the server is restarting; the turn goes on, read it from the log when it is back")
	for _, lt := range s.live {
		for _, q := range lt.asked {
			q.end(err)
		}
		lt.handle.abandon(err)
	}
	s.live = nil
	s.closing = append(s.closing, make(chan error, 1))
	return true
}
