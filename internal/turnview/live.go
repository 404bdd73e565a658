package turnview

import (
	"fmt"
	"time"

	"github.com/runnel-dev/runnel/internal/livescreen"
)

// SpinnerTime is how long a picture of the spinner is shown. A frame of an open
// turn is outdated after it.
const SpinnerTime = 250 * time.Millisecond

var spinner = []string{"⠋", "⠙", "⠸", "⠴", "⠦", "⠇"}

// live returns the lines that the next frame replaces: the end of the message
// that grows, the calls that run, and the status of the turn.
func (v *View) live(width, height int, now time.Time) (out []livescreen.Line) {
	sign := spinner[int(now.UnixMilli()/SpinnerTime.Milliseconds())%len(spinner)]
	calls := v.callLines(sign, width, max(height/2, 3), now)
	status := v.status(sign, width, now)
	if p := v.prose; p != nil {
		tail := p.tail(width)
		if room := height - 2 - len(calls) - len(status); len(tail) > room {
			tail = tail[len(tail)-max(room, 1):]
		}
		if len(tail) > 0 && !p.begun && v.last.kind != noBlock {
			out = append(out, nil)
		}
		out = append(out, tail...)
	}
	if len(calls) > 0 {
		if len(out) > 0 || v.last.kind != noBlock && v.last.kind != rowBlock {
			out = append(out, nil)
		}
		out = append(out, calls...)
	}
	if len(status) > 0 {
		if len(out) > 0 || v.last.kind != noBlock {
			out = append(out, nil)
		}
		out = append(out, status...)
	}
	return out
}

// callLines returns the rows of the reads that are over and of the calls that
// run, at most limit lines.
func (v *View) callLines(sign string, width, limit int, now time.Time) (out []livescreen.Line) {
	fold, others := v.fold, []*call(nil)
	style := livescreen.Faint
	first := ""
	if len(fold) > 0 {
		first, style = fold[0].sign()
	}
	for _, c := range v.running {
		switch {
		case now.Sub(c.seen) < v.cfg.Hold && c.state == callRunning, c.question:
		case c.foldable():
			fold = append(fold[:len(fold):len(fold)], c)
			first, style = sign, livescreen.Cyan
		default:
			others = append(others, c)
		}
	}
	if len(fold) > 0 {
		out = append(out, foldRow(fold, v.cfg.Dir, first, style, width, now))
	}
	for i, c := range others {
		lines := c.live(v.cfg, sign, width, now)
		if len(out)+len(lines) > limit && i > 0 {
			return append(out, livescreen.Text(fmt.Sprintf("  … %d more", len(others)-i), livescreen.Faint))
		}
		out = append(out, lines...)
	}
	return out
}

// status returns what the turn is doing; nothing if no turn runs.
func (v *View) status(sign string, width int, now time.Time) []livescreen.Line {
	if !v.turn.open {
		return nil
	}
	what := "Working"
	switch {
	case len(v.asked) > 0:
		sign, what = "?", "Waiting for an answer"
	case v.thinking != "":
		what = "Thinking"
	}
	line := livescreen.Line{{Text: sign + " " + what, Style: livescreen.Cyan}}
	add := func(text string) { line = append(line, livescreen.Span{Text: text, Style: livescreen.Faint}) }
	if d := now.Sub(v.turn.started); d >= time.Second {
		add(" · " + Elapsed(d))
	}
	for _, e := range v.plan {
		if e.Status == "in_progress" {
			add(" · plan " + progress(v.plan) + ": " + oneLine(e.Content, 200))
			break
		}
	}
	hint := v.cfg.Hint
	if hint != "" {
		hint = " · " + hint
	}
	room := width - 1 - livescreen.Width(hint)
	if v.thinking != "" && line.Width() < room {
		add(" · " + v.thinking)
	}
	line = line.Cut(room)
	return []livescreen.Line{append(line, livescreen.Span{Text: hint, Style: livescreen.Faint})}
}
