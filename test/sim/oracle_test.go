package sim

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/upsert"
)

// live runs the world to its end and checks that what happened keeps the
// guarantees.
func (w *world) live() {
	w.boot(w.disk.restart(false))
	for i := range 3 {
		w.clients = append(w.clients, &client{w: w, name: fmt.Sprintf("client %d", i), rng: w.source()})
	}
	w.paced = &paced{w: w, rng: w.source()}
	w.paced.reset()
	for _, c := range w.clients {
		w.work.Go(c.run)
	}
	w.work.Go(w.paced.run)

	var users sync.WaitGroup
	for i := range w.plan.users {
		users.Go(func() { w.user(i, w.clients[i%len(w.clients)]) })
	}
	up := w.fates()
	if up {
		users.Wait()
		up = w.rest() && w.probe()
	}
	if inc := w.last(); inc != nil {
		if err := inc.session.Close(); err != nil {
			w.violation("close: %v", err)
		}
	}
	if up {
		w.level("after the end")
	}
	close(w.over)
	users.Wait()
	w.work.Wait()
	if up {
		w.judge()
	}
}

// fates ends processes as planned. It returns false if the next process could
// not start.
func (w *world) fates() (up bool) {
	r := w.source()
	for _, how := range w.plan.kinds {
		time.Sleep(time.Duration(r.ExpFloat64() * float64(150*time.Millisecond)))
		if w.plan.faults && r.IntN(2) == 0 {
			w.disk.fail(1 + r.IntN(2))
			time.Sleep(time.Duration(r.ExpFloat64() * float64(100*time.Millisecond)))
		}
		if !w.strike(how) {
			return false
		}
	}
	return true
}

func (w *world) last() *incarnation {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// rest waits until no turn runs. It denies pending approvals and cancels turns
// so that they end. It returns false if a turn does not end.
func (w *world) rest() bool {
	w.mu.Lock()
	w.calm = true
	w.mu.Unlock()
	w.disk.fail(0)
	s := w.current().session
	for i := range 400 {
		st := s.Status()
		if st.Turn == "" {
			w.level("at rest")
			return true
		}
		if log, _ := (&diskLog{d: w.disk}).State(context.Background(), session); i > 0 && len(log.Open) == 0 {
			if st = s.Status(); st.Turn != "" && st.Head == log.Head {
				w.violation("the turn %s has ended, and no other can begin", st.Turn)
				return false
			}
		}
		for _, a := range st.Pending {
			w.do(w.last(), op{user: w.plan.users, kind: "decide", arg: a.ID, choice: "deny"}, func() error {
				return s.Decide(context.Background(), a.ID, runnel.Decision{Choice: "deny"})
			})
		}
		if i%20 == 10 {
			_ = s.Cancel(context.Background())
		}
		time.Sleep(time.Second)
	}
	w.violation("the turn %s does not end", s.Status().Turn)
	return false
}

// probe checks that the next prompt is accepted once no turn runs.
func (w *world) probe() bool {
	s := w.current().session
	if _, err := s.Send(context.Background(), runnel.Text("are you there?")); err != nil {
		w.violation("at rest, a prompt is refused: %v", err)
		return false
	}
	return w.rest()
}

// level waits for five seconds and checks that every client has all events.
func (w *world) level(when string) {
	time.Sleep(5 * time.Second)
	head := int64(len(w.disk.snapshot()))
	for _, c := range w.clients {
		if n := c.cursor(); n != head {
			w.violation("%s, %s has seen %d of %d events", when, c.name, n, head)
		}
	}
	w.paced.mu.Lock()
	defer w.paced.mu.Unlock()
	if w.paced.cursor != head {
		w.violation("%s, the paced client has seen %d of %d events", when, w.paced.cursor, head)
	}
}

// judge compares the events that clients, users and agents received with the
// log.
func (w *world) judge() {
	log := w.disk.snapshot()
	if w.disk.synced != len(log) {
		w.violation("%d of %d events are durable at the end", w.disk.synced, len(log))
	}
	for _, c := range w.clients {
		w.same(c.name, c.view, log)
	}
	for _, v := range w.turns {
		w.judgeTurn(v, log)
	}
	w.judgeOps(log)
	w.judgeEffects(log)
	w.judgeAgent(log)
	w.judgePaced(log)
	w.counts["sync failed"] += w.disk.failed
	for _, ev := range log {
		w.counts[event.Type(ev.Body)]++
		switch b := ev.Body.(type) {
		case event.ApprovalResolved:
			w.counts["resolved by "+string(b.By)]++
		case event.ResponseDone:
			w.counts["turn "+string(b.Status)]++
		case event.ResponseError:
			w.counts["turn ended as "+b.Error.Code]++
		}
		if text, _ := event.MarshalBody(ev.Body); bytes.Contains(text, []byte(secret)) {
			w.violation("the log holds the secret: %s", show(ev))
		}
	}
}

// same checks that view is a prefix of log.
func (w *world) same(who string, view, log []event.Event) {
	if len(view) > len(log) {
		w.violation("%s was shown %d events, the log has %d", who, len(view), len(log))
		return
	}
	for i, ev := range view {
		if !reflect.DeepEqual(ev, log[i]) {
			w.violation("%s was shown %s, the log has %s", who, show(ev), show(log[i]))
			return
		}
	}
}

func show(ev event.Event) string {
	text, _ := event.MarshalBody(ev.Body)
	return fmt.Sprintf("%d %.200s", ev.Seq, text)
}

// judgeTurn compares the events that a reader of one turn received with the
// log.
func (w *world) judgeTurn(v *turnView, log []event.Event) {
	of := slices.DeleteFunc(slices.Clone(log), func(ev event.Event) bool { return ev.Turn != v.turn })
	w.same("a reader of the turn "+v.turn, v.events, of)
	if n := len(v.events); n > 0 && event.Ends(v.events[n-1].Body) && n != len(of) {
		w.violation("the turn %s ended for a reader after %d of %d events", v.turn, len(v.events), len(of))
	}
	if v.status != "" && (len(of) == 0 || statusOf(of[len(of)-1].Body) != v.status) {
		w.violation("the turn %s was said to be %s, which the log does not have", v.turn, v.status)
	}
}

// statusOf returns how a turn ended; "" if b does not end it.
func statusOf(b event.Body) event.TurnStatus {
	switch b := b.(type) {
	case event.ResponseDone:
		return b.Status
	case event.ResponseError:
		return event.StatusError
	}
	return ""
}

// judgeOps checks that the log has every prompt and decision that was accepted.
func (w *world) judgeOps(log []event.Event) {
	began, resolved := make(map[string]bool), make(map[string]event.ApprovalResolved)
	for _, ev := range log {
		switch b := ev.Body.(type) {
		case event.ItemDone:
			if b.ItemID == runnel.UserItemID(ev.Turn) {
				began[ev.Turn] = true
			}
		case event.ApprovalResolved:
			resolved[b.ApprovalID] = b
		}
	}
	for _, o := range w.ops {
		switch {
		case o.out != "ok":
		case o.kind == "send" && !began[o.arg]:
			w.violation("the prompt %s was accepted and is not in the log", o.arg)
		case o.kind == "decide" && (resolved[o.arg].Choice != o.choice || resolved[o.arg].By != event.ByUser):
			w.violation("the decision %s of %s was accepted; the log has %+v", o.choice, o.arg, resolved[o.arg])
		}
	}
}

// judgeEffects checks that the final log has every prompt and decision that
// reached an agent.
func (w *world) judgeEffects(log []event.Event) {
	known := make(map[string]bool)
	for _, ev := range log {
		switch b := ev.Body.(type) {
		case event.ItemDone:
			if b.ItemID == runnel.UserItemID(ev.Turn) {
				known["prompt "+ev.Turn] = true
			}
		case event.ApprovalResolved:
			known["decision "+b.ApprovalID] = true
		}
	}
	for what := range w.effects {
		if !known[what] {
			w.violation("%s reached an agent and is not in the log", what)
		}
	}
}

// judgeAgent checks that the log has every item that the agent finished in a
// turn that completed.
func (w *world) judgeAgent(log []event.Event) {
	done, completed := make(map[string]bool), make(map[string]bool)
	for _, ev := range log {
		switch b := ev.Body.(type) {
		case event.ItemDone:
			done[b.ItemID] = true
		case event.ResponseDone:
			completed[ev.Turn] = b.Status == event.StatusCompleted
		}
	}
	for _, a := range w.agents {
		for _, ev := range a.said {
			if b, ok := ev.Body.(event.ItemDone); ok && completed[ev.Turn] && !done[b.ItemID] {
				w.violation("the agent finished %s in a turn that it completed, and the log lacks it", b.ItemID)
			}
		}
	}
}

// judgePaced checks that the paced client ends up with what the log has: every
// finished message whole and once, every approval, and one end of every turn.
func (w *world) judgePaced(log []event.Event) {
	whole, ends, asked := make(map[string][]string), make(map[string][]event.TurnStatus), make(map[string]bool)
	for _, out := range w.paced.outs {
		switch o := out.(type) {
		case upsert.Upsert:
			if o.Message != nil && o.Status == upsert.StatusComplete {
				whole[o.ItemID] = append(whole[o.ItemID], o.Message.Content)
			}
		case upsert.TurnEvent:
			switch o.Type {
			case upsert.TurnComplete:
				ends[o.TurnID] = append(ends[o.TurnID], o.Status)
			case upsert.TurnError:
				ends[o.TurnID] = append(ends[o.TurnID], event.StatusError)
			}
		case upsert.Approval:
			asked[o.Approval.ID] = true
		}
	}
	for _, ev := range log {
		switch b := ev.Body.(type) {
		case event.ItemDone:
			if m, ok := b.FinalItem.(event.Message); ok && !slices.Equal(whole[b.ItemID], []string{m.Content}) {
				w.violation("the paced client was shown %q as %s, which is %q", whole[b.ItemID], b.ItemID, m.Content)
			}
		case event.ApprovalRequested:
			if !asked[b.Approval.ID] {
				w.violation("the paced client was not shown the approval %s", b.Approval.ID)
			}
		case event.ResponseDone, event.ResponseError:
			if !slices.Equal(ends[ev.Turn], []event.TurnStatus{statusOf(b)}) {
				w.violation("the paced client was told that the turn %s ended %v, the log has %s", ev.Turn, ends[ev.Turn], statusOf(b))
			}
		}
	}
}
