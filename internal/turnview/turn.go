package turnview

import (
	"fmt"
	"slices"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/livescreen"
)

// call follows a call from its start.
func (v *View) call(it event.Item, now time.Time) {
	if it.CallID == "" {
		return
	}
	c := v.calls[it.CallID]
	if c == nil {
		c = &call{id: it.CallID, started: it.StartedAt, seen: now, Call: Call{Name: it.Name, Kind: event.KindOther}}
		v.calls[it.CallID] = c
		if parent := v.calls[it.ParentCallID]; parent != nil && parent != c {
			c.parent = parent
			parent.steps++
			parent.active = append(parent.active, c)
		} else {
			v.running = append(v.running, c)
		}
	}
	switch it.Status {
	case event.ItemFailed:
		if it.Fault != nil {
			c.output.Output = it.Fault.Message
		}
		v.over(c, callFailed, it.UpdatedAt)
	case event.ItemStopped:
		v.over(c, callStopped, it.UpdatedAt)
	}
	if f, ok := it.Final.(event.FunctionCall); ok {
		c.Call = Call{Name: f.Name, Title: f.Title, Kind: f.Kind, Arguments: f.Arguments, Locations: f.Locations}
	}
}

// output follows the output of a call.
func (v *View) output(it event.Item) {
	c := v.calls[it.CallID]
	if c == nil || c.state > callAsks {
		return
	}
	switch it.Status {
	case event.ItemOpen:
		c.growing = lastRow(it.Content)
	case event.ItemFailed, event.ItemStopped:
		v.over(c, callStopped, it.UpdatedAt)
	case event.ItemComplete:
		f, ok := it.Final.(event.FunctionCallOutput)
		if !ok {
			return
		}
		c.output, c.Changes = f, f.Changes
		state := callDone
		switch {
		case f.ExitCode != nil && *f.ExitCode != 0:
			state = callFailed // it ran, whatever was denied
		case f.IsError && c.denied:
			state = callDenied
		case f.IsError:
			state = callFailed
		default:
			v.turn.changes = append(v.turn.changes, f.Changes...)
		}
		v.over(c, state, it.UpdatedAt)
	}
}

// over ends a call, and the calls of its subagent.
func (v *View) over(c *call, state callState, at time.Time) {
	if c.state > callAsks {
		return
	}
	for _, in := range slices.Clone(c.active) {
		v.over(in, callStopped, at)
	}
	c.state, c.ended, c.growing = state, at, ""
	if !c.asked.IsZero() {
		c.waited += at.Sub(c.asked)
		c.asked = time.Time{}
	}
	if p := c.parent; p != nil {
		p.active = slices.DeleteFunc(p.active, func(o *call) bool { return o == c })
		if p.inner = append(p.inner, c); len(p.inner) > maxInner {
			p.inner = slices.Delete(p.inner, 0, 1)
		}
		return
	}
	v.running = slices.DeleteFunc(v.running, func(o *call) bool { return o == c })
	if c.question && (state == callDone || state == callDenied) {
		return
	}
	if c.foldable() && !(v.cfg.Verbose && c.output.Output != "") {
		v.endProse()
		v.fold = append(v.fold, c)
		return
	}
	v.finish(rowBlock, func(width int) []livescreen.Line { return c.lines(v.cfg, width, c.ended) })
}

// ask shows that the agent waits for an answer.
func (v *View) ask(ev event.Event, a event.Approval) {
	q := &question{approval: a, since: ev.At, call: v.calls[a.CallID]}
	v.asked[a.ID] = q
	if c := q.call; c != nil && c.state == callRunning {
		c.state, c.asked = callAsks, ev.At
		c.question = c.question || a.Kind != event.ApprovalTool
	}
}

// Asked reports that a question in this terminal shows an approval.
func (v *View) Asked(id string) {
	if q := v.asked[id]; q != nil && q.call != nil {
		q.call.shown = true
	}
}

// resolve shows the answer to an approval.
func (v *View) resolve(ev event.Event, b event.ApprovalResolved) {
	q := v.asked[b.ApprovalID]
	if q == nil {
		return
	}
	delete(v.asked, b.ApprovalID)
	waited := ev.At.Sub(q.since)
	kind := event.ChoiceKind("")
	label := b.Choice
	for _, c := range q.approval.Choices {
		if c.ID == b.Choice {
			kind, label = c.Kind, c.Label
		}
	}
	if b.By == event.ByUser {
		v.turn.waited += waited
	}
	denied := kind == event.ChoiceDeny || kind == event.ChoiceDenyStop || b.Choice == event.ChoiceWithdrawn
	c := q.call
	if c == nil || q.approval.Kind != event.ApprovalTool {
		v.answered(q.approval, b, label)
	} else if b.By != event.ByAgent {
		c.decision = decided(b, denied)
	}
	if c != nil && c.state == callAsks {
		c.state = callRunning
		c.waited, c.asked, c.denied = c.waited+waited, time.Time{}, denied
	}
}

// answered shows the answer to a question, or to an approval of which the view
// does not know the call.
func (v *View) answered(a event.Approval, b event.ApprovalResolved, label string) {
	if b.Choice == event.ChoiceWithdrawn {
		return
	}
	answer := "? " + oneLine(a.Title, maxObject) + " → " + oneLine(label, 200)
	v.finish(rowBlock, func(width int) []livescreen.Line {
		return livescreen.Text(answer, livescreen.Faint).Wrap(width, "  ")
	})
}

// decided returns who decided an approval, such as "allowed by you".
func decided(b event.ApprovalResolved, denied bool) string {
	what := "allowed"
	if denied {
		what = "denied"
	}
	switch b.By {
	case event.ByUser:
		return what + " by you"
	case event.ByTimeout:
		return what + ", because nobody answered in time"
	case event.ByPolicy:
		if b.Rule != 0 {
			return fmt.Sprintf("%s by rule %d", what, b.Rule)
		}
		if denied {
			return "denied without asking"
		}
		return "allowed without asking"
	}
	return what
}

// end finishes the turn.
func (v *View) end(ev event.Event, status event.TurnStatus, problem string) {
	for _, c := range slices.Clone(v.running) {
		v.over(c, callStopped, ev.At)
	}
	v.endProse()
	if v.cfg.Brief {
		problem = ""
	}
	t := v.turn
	if t.started.IsZero() {
		t.started = ev.At
	}
	v.finish(endBlock, func(width int) []livescreen.Line { return t.summary(status, problem, ev.At).Wrap(width, "  ") })
	v.transcript.DropTurn(ev.Turn)
	v.turn.open, v.thinking = false, ""
	v.turn.changes = nil
	clear(v.calls)
	clear(v.asked)
	clear(v.printed)
}

// summary returns the line at the end of a turn.
func (t turn) summary(status event.TurnStatus, problem string, at time.Time) livescreen.Line {
	sign, style, what := "✓", livescreen.Green, "Completed"
	switch status {
	case event.StatusCancelled:
		sign, style, what = "■", livescreen.Yellow, "Cancelled"
	case event.StatusError:
		sign, style, what = "✗", livescreen.Red, "Failed"
	}
	line := livescreen.Line{{Text: sign + " " + what, Style: style}}
	add := func(text string) { line = append(line, livescreen.Span{Text: text, Style: livescreen.Faint}) }
	if took := at.Sub(t.started) - t.waited; took >= 100*time.Millisecond {
		add(" in " + Duration(took))
	}
	if t.waited >= time.Second {
		add(" · waited " + Duration(t.waited) + " for you")
	}
	if tokens := Tokens(t.usage); tokens != "" {
		add(" · " + tokens)
	}
	if t.cost != nil && *t.cost > 0 {
		add(" · " + Cost(*t.cost))
	}
	if len(t.changes) > 0 {
		files := make(map[string]bool)
		for _, c := range t.changes {
			files[c.Path] = true
		}
		add(" · " + plural(len(files), "file") + " changed")
		line = append(line, countLines(t.changes).spans()...)
	}
	if problem != "" {
		line = append(line, livescreen.Span{Text: ": " + problem, Style: livescreen.Red})
	}
	return line
}
