package turnview

import (
	"slices"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/livescreen"
)

// A Config is how a View shows events.
type Config struct {
	Dir     string        // folder of the session; paths within it are shown relative to it
	Styled  bool          // the terminal shows styles, so Markdown becomes styles
	Verbose bool          // also shows reasoning and the output of calls
	Prompts bool          // also shows the prompts
	Times   bool          // shows the time above each prompt
	Hold    time.Duration // how long a call runs before its row appears. Default: no time
	Hint    string        // what the user can do while a turn runs
	Brief   bool          // leaves out why a turn failed, because the program reports it
}

// A View shows the events of a session. Its methods must not be called at the
// same time.
type View struct {
	cfg        Config
	transcript event.Transcript
	printed    map[string]int // by item, the bytes of an open message that prose has received

	finished []block // not yet returned by Frame
	last     block   // the last block that Frame returned
	prose    *prose  // the message that grows; nil if none does
	fold     []*call // reads and searches that have ended and share a row
	running  []*call // calls that run, in the order in which they started
	calls    map[string]*call
	asked    map[string]*question // open approvals, by id
	plan     []event.PlanEntry
	thinking string // the last line of the reasoning that grows
	turn     turn
}

// turn is the running turn, or the last one.
type turn struct {
	id      string
	open    bool
	started time.Time
	waited  time.Duration // for answers of people
	usage   *event.Usage
	cost    *float64
	changes []event.Change
}

// question is an open approval.
type question struct {
	approval event.Approval
	since    time.Time
	call     *call // nil if the view does not know the call
}

// New returns a View.
func New(cfg Config) *View {
	return &View{cfg: cfg, printed: make(map[string]int), calls: make(map[string]*call), asked: make(map[string]*question)}
}

// blockKind is the kind of a block. A blank line separates different kinds.
type blockKind int

const (
	noBlock blockKind = iota
	proseBlock
	rowBlock
	planBlock
	promptBlock
	endBlock
)

// A block is a finished part. Its lines depend on the width of the terminal.
type block struct {
	kind  blockKind
	lines func(width int) []livescreen.Line
	prose *prose // the message that the block is a part of; nil for other blocks
}

// Open reports whether a turn runs.
func (v *View) Open() bool { return v.turn.open }

// Apply shows an event. now is the time on the clock of Frame.
func (v *View) Apply(ev event.Event, now time.Time) {
	if id := v.transcript.Apply(ev); id != "" {
		it, _ := v.transcript.Item(id)
		v.item(it, now)
	}
	v.follow(ev)
	switch b := ev.Body.(type) {
	case event.ResponseStart:
		v.turn.open = true
	case event.Notice:
		v.notice(b)
	case event.ApprovalRequested:
		v.ask(ev, b.Approval)
	case event.ApprovalResolved:
		v.resolve(ev, b)
	case event.UsageUpdated:
		if b.Usage != nil {
			v.turn.usage = b.Usage
		}
		if b.CostUSD != nil {
			v.turn.cost = b.CostUSD
		}
	case event.ResponseDone:
		if b.Usage != nil {
			v.turn.usage = b.Usage
		}
		v.end(ev, b.Status, "")
	case event.ResponseError:
		v.end(ev, event.StatusError, oneLine(b.Error.Message, 400)+" ("+oneLine(b.Error.Code, 40)+")")
	}
}

// follow begins a turn at its first event.
func (v *View) follow(ev event.Event) {
	if ev.Turn != "" && ev.Turn != v.turn.id && !event.Ends(ev.Body) {
		v.turn = turn{id: ev.Turn, open: true, started: ev.At}
		v.plan = nil
	}
}

// Frame returns the lines that are finished since the last frame, and the live
// lines, for a terminal of this size.
func (v *View) Frame(width, height int, now time.Time) (done, live []livescreen.Line) {
	return v.Done(width), v.live(width, height, now)
}

// Done returns the lines that are finished since the last frame.
func (v *View) Done(width int) (done []livescreen.Line) {
	for _, b := range v.finished {
		done = v.add(done, b, width)
	}
	v.finished = nil
	if p := v.prose; p != nil {
		done = v.add(done, block{kind: proseBlock, prose: p, lines: func(width int) []livescreen.Line { return p.take(width, false) }}, width)
	}
	return done
}

// add appends the lines of a block, after a blank line if a block of another
// kind, or another message, is before it.
func (v *View) add(done []livescreen.Line, b block, width int) []livescreen.Line {
	lines := b.lines(width)
	if len(lines) == 0 {
		return done
	}
	same := b.kind == v.last.kind && (b.kind == rowBlock || b.prose != nil && b.prose == v.last.prose)
	if v.last.kind != noBlock && !same {
		done = append(done, nil)
	}
	v.last = b
	return append(done, lines...)
}

// finish adds a finished block, after the row of the reads that are over.
func (v *View) finish(kind blockKind, lines func(width int) []livescreen.Line) {
	v.endFold()
	v.finished = append(v.finished, block{kind: kind, lines: lines})
}

// endFold finishes the row of the reads and searches that are over.
func (v *View) endFold() {
	if calls := v.fold; len(calls) > 0 {
		v.fold = nil
		v.finished = append(v.finished, block{kind: rowBlock, lines: func(width int) []livescreen.Line {
			sign, style := calls[0].sign()
			if len(calls) == 1 {
				return calls[0].lines(v.cfg, width, calls[0].ended)
			}
			return []livescreen.Line{foldRow(calls, v.cfg.Dir, sign, style, width, time.Time{})}
		}})
	}
}

// Stop finishes everything that is live, because no more events follow. It does
// not show the end of a turn.
func (v *View) Stop(now time.Time) {
	for _, c := range slices.Clone(v.running) {
		v.over(c, callStopped, now)
	}
	v.endProse()
	v.endFold()
	v.turn.open = false
}

// Leave finishes the text that grows, because the caller stops following a turn
// that continues. It does not show the calls that run.
func (v *View) Leave() {
	v.running, v.fold = nil, nil
	v.endProse()
	v.turn.open = false
}

func (v *View) item(it event.Item, now time.Time) {
	switch it.Type {
	case event.TypeMessage:
		v.message(it)
	case event.TypeReasoning:
		v.reasoning(it)
	case event.TypeFunctionCall:
		v.call(it, now)
	case event.TypeFunctionCallOutput:
		v.output(it)
	case event.TypePlan:
		if p, ok := it.Final.(event.Plan); ok && it.ParentCallID == "" {
			v.planned(p.Entries)
		}
	}
}

// message shows the new part of a message.
func (v *View) message(it event.Item) {
	m, final := it.Final.(event.Message)
	switch {
	case final && m.Origin == event.OriginUser:
		v.prompt(m, it.UpdatedAt)
		return
	case it.ParentCallID != "":
		if c := v.calls[it.ParentCallID]; c != nil {
			c.says = lastRow(it.Content)
		}
		return
	case final && m.Origin == event.OriginSystem:
		v.finish(proseBlock, func(width int) []livescreen.Line {
			return paragraphs(m.Content, "", livescreen.Faint, prosaic(width))
		})
		return
	}
	done := v.printed[it.ID]
	if done > len(it.Content) {
		done = 0 // the final text is shorter: show all of it
	}
	if part := it.Content[done:]; part != "" {
		if v.prose == nil || v.prose.id != it.ID {
			v.endProse()
			v.endFold()
			v.prose = &prose{id: it.ID, styled: v.cfg.Styled}
		}
		v.prose.write(part)
		v.printed[it.ID] = len(it.Content)
	}
	if it.Status != event.ItemOpen {
		delete(v.printed, it.ID)
		if v.prose != nil && v.prose.id == it.ID {
			v.endProse()
		}
	}
}

// endProse finishes the message that grows.
func (v *View) endProse() {
	if p := v.prose; p != nil {
		v.prose = nil
		v.finished = append(v.finished, block{kind: proseBlock, prose: p, lines: func(width int) []livescreen.Line { return p.take(width, true) }})
	}
}

func (v *View) prompt(m event.Message, at time.Time) {
	if !v.cfg.Prompts {
		return
	}
	v.endProse()
	v.finish(promptBlock, func(width int) []livescreen.Line {
		var out []livescreen.Line
		if v.cfg.Times {
			out = append(out, livescreen.Text(at.Local().Format(time.DateTime), livescreen.Faint))
		}
		out = append(out, paragraphs(m.Content, "> ", livescreen.Bold, prosaic(width))...)
		for _, a := range m.Attachments {
			out = append(out, livescreen.Text("  with "+oneLine(first(a.Name, a.MediaType), 200), livescreen.Faint).Cut(width))
		}
		return out
	})
}

func (v *View) reasoning(it event.Item) {
	if it.ParentCallID != "" {
		return
	}
	if v.thinking = ""; it.Status == event.ItemOpen {
		v.thinking = lastRow(it.Content)
		return
	}
	if v.cfg.Verbose && it.Status == event.ItemComplete {
		v.endProse()
		v.finish(proseBlock, func(width int) []livescreen.Line {
			return paragraphs(it.Content, "  ", livescreen.Faint, prosaic(width))
		})
	}
}

func (v *View) notice(n event.Notice) {
	style := livescreen.Faint
	switch n.Level {
	case event.LevelWarning:
		style = livescreen.Yellow
	case event.LevelError:
		style = livescreen.Red
	}
	message := oneLine(n.Message, 1000)
	v.Note(string(n.Level)+": "+first(message, n.Code), style)
}

// Note shows a note between the other lines. The text must be safe to print.
func (v *View) Note(text string, style livescreen.Style) {
	v.endProse()
	v.finish(rowBlock, func(width int) []livescreen.Line {
		return livescreen.Text("! "+text, style).Wrap(width, "  ")
	})
}

// planned shows a new plan. If only its progress has changed, it shows the
// entries that changed.
func (v *View) planned(entries []event.PlanEntry) {
	old := v.plan
	v.plan = entries
	same := len(old) == len(entries) && !slices.ContainsFunc(old, func(e event.PlanEntry) bool {
		return !slices.ContainsFunc(entries, func(n event.PlanEntry) bool { return n.Content == e.Content })
	})
	var changed []event.PlanEntry
	for i, e := range entries {
		if !same || old[i] != e {
			changed = append(changed, e)
		}
	}
	if len(changed) == 0 {
		return
	}
	v.endProse()
	v.finish(planBlock, func(width int) []livescreen.Line {
		out := []livescreen.Line{livescreen.Text("Plan "+progress(entries), livescreen.Bold)}
		for _, e := range changed {
			mark, style := planMark(e.Status)
			out = append(out, livescreen.Text(mark+oneLine(e.Content, 400), style).Wrap(width, "    ")...)
		}
		return out
	})
}

// progress returns how many entries of a plan are completed.
func progress(entries []event.PlanEntry) string {
	done := 0
	for _, e := range entries {
		if e.Status == "completed" {
			done++
		}
	}
	return strings.Join([]string{count(int64(done)), "of", count(int64(len(entries)))}, " ")
}

func planMark(status string) (string, livescreen.Style) {
	switch status {
	case "completed":
		return "  ✓ ", livescreen.Faint
	case "in_progress":
		return "  ▸ ", livescreen.Bold
	}
	return "  · ", livescreen.Plain
}
