package turnview

import (
	"fmt"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/livescreen"
)

// callState is the progress of a call.
type callState int

const (
	callRunning callState = iota
	callAsks              // waits for an answer to an approval
	callDone
	callFailed
	callDenied
	callStopped
)

// call is a tool call with its output and its approvals.
type call struct {
	Call
	id      string
	state   callState
	started time.Time // by the agent's clock
	seen    time.Time // when the view received the call
	ended   time.Time

	output   event.FunctionCallOutput
	growing  string    // the last line of the output so far
	asked    time.Time // since when the call waits for an answer
	waited   time.Duration
	decision string // who allowed or denied it
	denied   bool   // the last answer denied it
	shown    bool   // a question in this terminal has shown the call
	question bool   // the call is a question, whose answer is shown instead of the call

	parent *call
	inner  []*call // the subagent's calls that have ended, oldest first
	active []*call // the subagent's calls that run
	steps  int     // all calls of the subagent
	says   string  // the last line of the subagent's text
}

// maxInner is the number of calls of a subagent that are kept.
const maxInner = 200

// took returns how long the call took, without the time in which it waited for
// an answer.
func (c *call) took(now time.Time) time.Duration {
	end := c.ended
	if end.IsZero() {
		end = now
	}
	d := end.Sub(c.started) - c.waited
	if !c.asked.IsZero() {
		d -= end.Sub(c.asked)
	}
	return max(d, 0)
}

// head returns what the call does, without its result.
func (c *call) head(dir string) livescreen.Line {
	verb, object := c.Describe(dir)
	if c.shown {
		return nil // the question above has shown more
	}
	line := livescreen.Line{{Text: verb, Style: livescreen.Bold}}
	if object != "" {
		line = append(line, livescreen.Span{Text: " " + object, Style: livescreen.Plain})
	}
	return line
}

// result returns the result of the call so far.
func (c *call) result(now time.Time) (out livescreen.Line) {
	add := func(text string, style livescreen.Style) {
		out = append(out, livescreen.Span{Text: " " + text, Style: style})
	}
	if c.state == callDone {
		out = append(out, countLines(c.output.Changes).spans()...)
	}
	if c.Kind == event.KindDelegate && c.steps > 0 {
		add("· "+plural(c.steps, "step"), livescreen.Faint)
	}
	switch c.state {
	case callAsks:
		add("· waits for an answer", livescreen.Yellow)
		return out
	case callDone:
		if c.Kind == event.KindExecute || c.shown {
			add("✓", livescreen.Green)
		}
	case callFailed:
		what := "failed"
		if code := c.output.ExitCode; code != nil && *code != 0 {
			what = fmt.Sprintf("exit %d", *code)
		}
		add("✗ "+what, livescreen.Red)
	case callDenied:
		what := c.decision
		if what == "" {
			what = "denied"
		}
		add("✗ "+what, livescreen.Yellow)
		return out
	case callStopped:
		add("stopped", livescreen.Faint)
	}
	if c.decision != "" {
		add("· "+c.decision, livescreen.Faint)
	}
	switch took := c.took(now); {
	case took < time.Second:
	case c.state == callRunning:
		add("· "+Elapsed(took), livescreen.Faint)
	default:
		add("· "+Duration(took), livescreen.Faint)
	}
	if c.state != callRunning && c.waited >= time.Second {
		add("· waited "+Duration(c.waited), livescreen.Faint)
	}
	return out
}

// row returns the call as one line of at most width cells. sign is its first
// character.
func (c *call) row(dir, sign string, style livescreen.Style, width int, now time.Time) livescreen.Line {
	result := c.result(now)
	head := c.head(dir).Cut(max(width-2-result.Width(), width/2))
	line := append(livescreen.Line{{Text: sign + " ", Style: style}}, head...)
	if len(head) == 0 && len(result) > 0 {
		result[0].Text = strings.TrimPrefix(result[0].Text, " ")
	}
	line = append(line, result...)
	if c.state == callRunning && c.growing != "" {
		line = append(line, livescreen.Span{Text: " · " + c.growing, Style: livescreen.Faint})
	}
	return line.Cut(width)
}

// sign returns the first character of the row of a call that has ended.
func (c *call) sign() (string, livescreen.Style) {
	switch c.state {
	case callFailed:
		return icon(c.Kind), livescreen.Red
	case callDenied:
		return icon(c.Kind), livescreen.Yellow
	}
	return icon(c.Kind), livescreen.Faint
}

// foldable reports whether the call shares a row with its neighbours.
func (c *call) foldable() bool {
	return foldable(c.Kind) && c.decision == "" && len(c.inner) == 0 && (c.state == callDone || c.state == callRunning)
}

// foldRow returns neighbouring reads and searches as one line.
func foldRow(calls []*call, dir, sign string, style livescreen.Style, width int, now time.Time) livescreen.Line {
	if len(calls) == 1 {
		return calls[0].row(dir, sign, style, width, now)
	}
	if sign == icon(event.KindSearch) {
		sign = icon(event.KindRead)
	}
	what, names := describeFold(calls, dir)
	line := livescreen.Line{{Text: sign + " ", Style: style}, {Text: what, Style: livescreen.Bold}}
	if names != "" {
		line = append(line, livescreen.Span{Text: "  " + names, Style: livescreen.Faint})
	}
	return line.Cut(width)
}

// folded divides calls into runs that share a row.
func folded(calls []*call) (out [][]*call) {
	for _, c := range calls {
		if n := len(out); n > 0 && c.foldable() && out[n-1][0].foldable() {
			out[n-1] = append(out[n-1], c)
			continue
		}
		out = append(out, []*call{c})
	}
	return out
}

// Numbers of lines below the row of a call.
const (
	maxFailure = 3  // of the output of a failed call
	maxSteps   = 12 // of a subagent that has ended
	liveSteps  = 3  // of a subagent that runs
)

// lines returns a call that has ended: its row, its diff or the end of its
// output, and the calls of its subagent.
func (c *call) lines(cfg Config, width int, now time.Time) []livescreen.Line {
	sign, style := c.sign()
	out := []livescreen.Line{c.row(cfg.Dir, sign, style, width, now)}
	out = append(out, c.innerLines(cfg, maxSteps, width, now)...)
	switch {
	case c.state == callDone && len(c.output.Changes) > 0:
		out = append(out, diffLines(c.output.Changes, cfg.Dir, width)...)
	case cfg.Verbose:
		for _, row := range outputRows(c.output.Output) {
			out = append(out, livescreen.Text("  "+row, livescreen.Faint))
		}
	case c.state == callFailed:
		out = append(out, lastLines(c.output.Output, maxFailure, width)...)
	}
	return out
}

// innerLines returns the last rows of the calls of a subagent, indented.
func (c *call) innerLines(cfg Config, limit, width int, now time.Time) (out []livescreen.Line) {
	groups := folded(c.inner)
	if more := len(groups) - limit; more > 0 {
		earlier := c.steps - len(c.active)
		groups = groups[more:]
		for _, g := range groups {
			earlier -= len(g)
		}
		out = append(out, livescreen.Text(fmt.Sprintf("  … %s before", plural(earlier, "step")), livescreen.Faint))
	}
	for _, g := range groups {
		sign, style := g[0].sign()
		out = append(out, indented(foldRow(g, cfg.Dir, sign, style, width-2, now)))
		for _, l := range g[0].innerLines(cfg, limit/2, width-2, now) {
			out = append(out, indented(l))
		}
	}
	return out
}

// live returns the rows of a call that runs, and of its subagent.
func (c *call) live(cfg Config, spinner string, width int, now time.Time) []livescreen.Line {
	style := livescreen.Cyan
	if c.state == callAsks {
		spinner, style = "?", livescreen.Yellow
	}
	out := []livescreen.Line{c.row(cfg.Dir, spinner, style, width, now)}
	if len(c.active) == 0 && len(c.inner) == 0 && c.says != "" {
		return append(out, livescreen.Text("  "+c.says, livescreen.Faint).Cut(width))
	}
	out = append(out, c.innerLines(cfg, liveSteps, width, now)...)
	for _, in := range c.active {
		for _, l := range in.live(cfg, spinner, width-2, now) {
			out = append(out, indented(l))
		}
	}
	return out
}

func indented(l livescreen.Line) livescreen.Line {
	return append(livescreen.Line{{Text: "  ", Style: livescreen.Plain}}, l...)
}

// lastLines returns the last lines of a text that are not blank.
func lastLines(text string, n, width int) (out []livescreen.Line) {
	var all []string
	for _, row := range outputRows(text) {
		if strings.TrimSpace(row) != "" {
			all = append(all, row)
		}
	}
	for _, row := range all[max(len(all)-n, 0):] {
		out = append(out, livescreen.Text("  "+row, livescreen.Faint).Cut(width))
	}
	return out
}
