package runnel

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/event"
)

// An adoption tracks which replayed events are already logged. An adopted agent
// replays its events since a position of the log. The session appends only the
// events that the log lacks.
type adoption struct {
	deltas  map[string]int                    // logged delta bytes by item id
	facts   map[string]int                    // number of logged copies by factKey
	answers map[string]event.ApprovalResolved // by approval id
	between bool                              // the log has been read from the start of the replay, so an out-of-turn fact that it lacks is new
}

func newAdoption() *adoption {
	return &adoption{deltas: make(map[string]int), facts: make(map[string]int), answers: make(map[string]event.ApprovalResolved)}
}

// has records that the log has ev.
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

// lacks reports whether the log lacks ev. If the log has the first part of a
// delta, lacks cuts that part from ev. For events that occur once in a turn
// lacks returns true, because the turn's rules drop their duplicates.
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

// factKey returns a key that is equal for equal facts.
func factKey(b event.Body) string {
	text, err := json.Marshal(b)
	if err != nil {
		return ""
	}
	return event.Type(b) + string(text)
}

// adopt takes over the agent that an earlier server process left running. If
// there is none, adopt returns an error and leaves s as it was. The caller holds
// the baton.
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
		s.live, s.endedTurns, s.adopting = nil, make(map[string]bool), nil
		if d, ok := conn.(Detacher); !ok || !d.Detach() {
			_ = conn.Close()
		}
		return err
	}
	release, _ := s.cfg.Reserve(true) // never fails for an agent that already runs
	s.link = makeLink(s, conn, release)
	for _, ev := range back.Events {
		for _, out := range s.link.screened(ev, nil) {
			s.handleEvent(out.ev)
		}
	}
	adopted := s.adopting
	s.adopting = nil
	if err := s.flush(); err != nil {
		return nil // the session continues in the state of a failed log
	}
	s.link.start(s)
	s.sendPending(ctx, back, adopted)
	return nil
}

// recall reads from the log the events that the agent is about to replay, and
// continues the turns that have not ended.
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
			r.believe = true // an earlier server process may have cancelled the turn
			known[ev.Turn] = r
		}
		r.admit(ev)
		if s.cfg.Annotate != nil {
			s.cfg.Annotate(ev)
		}
		s.endedTurns[ev.Turn] = s.endedTurns[ev.Turn] || event.Ends(ev.Body)
	}
	for _, open := range st.Open {
		if r := known[open.Turn]; r != nil {
			s.resume(r, open, restores)
		}
	}
	for turn, over := range s.endedTurns {
		if !over {
			delete(s.endedTurns, turn)
		}
	}
	return nil
}

// resume adds a turn that the log has and that has not ended. restores are the
// settings to restore after it; they belong only to a turn with a prompt.
func (s *Session) resume(r *rules, open OpenTurn, restores *event.SessionSettings) {
	lt := s.add(r, newTurn(open.Turn, s.id, s.log, open.After))
	if restores != nil && r.prompted() {
		back := settingsOf(*restores)
		lt.restores = &back
	}
	if s.cfg.TurnBudget != nil {
		lt.budget = s.cfg.TurnBudget(open.Turn).or(lt.budget)
	}
	for _, a := range slices.Clone(r.asked) {
		if strings.HasPrefix(a.ID, reachPrefix(open.Turn)) { // its connection ended with the earlier server's proxy
			s.stageAll(lt, r.admit(event.Event{At: time.Now(), Body: withdrawn(a.ID, "the server was restarted")}))
			continue
		}
		s.findAnswer(lt, a)
	}
}

// sendPending sends the agent the prompts and the answers to approvals that are
// in the log but that the agent did not receive.
func (s *Session) sendPending(ctx context.Context, back Backlog, adopted *adoption) {
	for _, lt := range slices.Clone(s.live) {
		if lt.rules.started || slices.Contains(back.Prompts, lt.rules.turn) {
			continue
		}
		in, err := s.promptOf(ctx, lt)
		if err == nil && lt.restores != nil { // the log lacks the turn's own settings
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
		answer, ok := adopted.answers[id]
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
		if err != nil { // without its answer the agent would wait for ever
			s.endTurns(Safe(err))
			return
		}
	}
}

// promptOf reads the user's message of a turn from the log. It fails if the
// message has attachments, because the log does not store their content.
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
	return Fail(ProcessCrash, "runnel stopped before the agent received this prompt; send it again")
}

// detach leaves an agent running that has a turn to finish, and closes the
// session. It reports false and changes nothing if no turn runs, if a turn is
// being cancelled, or if the agent cannot be detached.
func (s *Session) detach() bool {
	if s.opening == nil && len(s.closing) == 0 && s.leave() {
		return true
	}
	if len(s.live) == 0 || s.link == nil || s.link.closing || s.opening != nil || len(s.closing) > 0 {
		return false
	}
	if slices.ContainsFunc(s.live, func(lt *liveTurn) bool { return lt.rules.cancelling }) {
		return false // the next server would not know of the cancellation
	}
	d, ok := s.link.conn.(Detacher)
	if !ok || s.flush() != nil || !d.Detach() {
		return false
	}
	close(s.link.quit)
	s.endCount(&s.link.counted)
	s.link.release()
	s.link = nil
	err := Fail(StoreUnavailable, "the server is restarting and the turn continues; read it from the log after the restart")
	for _, lt := range s.live {
		for _, q := range lt.asked {
			q.end(err)
		}
		s.endCount(&lt.reach.counted)
		lt.handle.abandon(err)
	}
	s.live = nil
	s.closing = append(s.closing, make(chan error, 1))
	return true
}
