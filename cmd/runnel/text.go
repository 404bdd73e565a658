package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/termtext"
)

// textView prints a run for a person: the agent's answer on out while it is
// written, everything else as notes on err. The agent's text is cleaned by
// package termtext.
type textView struct {
	err            io.Writer
	verbose, quiet bool
	asks           bool   // an asker prints the questions
	together       bool   // out and err are both terminals
	faint, plain   string // escape sequences around a note, if the terminal has colours

	transcript event.Transcript
	printed    map[string]int // by item, how many bytes of an open item are printed
	current    string         // item whose line on out is unfinished
	answer     *termtext.Writer
	column     lastByte // the writer to which answer writes
	said       bool     // a message was printed already

	mu   sync.Mutex // guards the fields from transcript to held, and the output
	held heldCall
}

// heldCall is the note of a tool call, held for holdTime. If an approval for
// the call arrives in that time the note is dropped, because the question shows
// more.
type heldCall struct {
	id    string // id of the call; "" if none is held
	note  string
	timer *time.Timer // prints the note
}

// holdTime is how long a note is held.
const holdTime = 300 * time.Millisecond

// hold keeps a note for holdTime.
func (v *textView) hold(id, note string) {
	v.held = heldCall{id: id, note: note, timer: time.AfterFunc(holdTime, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.held.id == id {
			v.release()
		}
	})}
}

// release prints the held note, if there is one.
func (v *textView) release() {
	if v.held.id != "" {
		v.held.timer.Stop()
		v.note("%s", v.held.note)
		v.held = heldCall{}
	}
}

// lastByte is a writer that remembers the last byte written.
type lastByte struct {
	w    io.Writer
	last byte
}

func (l *lastByte) Write(p []byte) (int, error) {
	if len(p) > 0 {
		l.last = p[len(p)-1]
	}
	return l.w.Write(p)
}

func newTextView(a *app, quiet, verbose bool) *textView {
	v := &textView{
		err: a.err, quiet: quiet, verbose: verbose, together: a.terminal(a.out) && a.terminal(a.err), printed: make(map[string]int),
	}
	if a.terminal(a.err) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" {
		v.faint, v.plain = "\x1b[2m", "\x1b[0m"
	}
	v.column.w = a.out
	v.answer = termtext.NewWriter(&v.column)
	return v
}

func (v *textView) event(ev event.Event) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if b, ok := ev.Body.(event.ApprovalRequested); ok && v.held.id != "" && b.Approval.CallID == v.held.id {
		v.held.timer.Stop()
		v.held = heldCall{}
	}
	v.release()
	id := v.transcript.Apply(ev)
	if id != "" {
		return v.item(ev, id)
	}
	switch b := ev.Body.(type) {
	case event.Notice:
		v.note("%s: %s", b.Level, oneLine(b.Message, 400))
	case event.ApprovalRequested:
		if !v.asks {
			v.note("? %s", oneLine(b.Approval.Title, 200))
		}
	case event.ApprovalResolved:
		answer := fmt.Sprintf("%s, by %s", oneLine(b.Choice, 80), b.By)
		if note := event.RuleNote(b.By, b.Rule); note != "" {
			answer += ", " + note
		}
		v.note("  %s", answer)
	}
	if event.Ends(ev.Body) {
		v.transcript.DropTurn(ev.Turn)
	}
	return nil
}

// item prints what changed in an item. It does not print messages of subagents.
func (v *textView) item(ev event.Event, id string) error {
	if id == runnel.UserItemID(ev.Turn) {
		return nil // the user's own prompt is not repeated
	}
	it, _ := v.transcript.Item(id)
	switch it.Type {
	case event.TypeMessage:
		if it.ParentCallID == "" {
			return v.message(it)
		}
	case event.TypeReasoning:
		if v.verbose && it.Status == event.ItemComplete {
			v.block(it.Content)
		}
	case event.TypeFunctionCall:
		f, ok := it.Final.(event.FunctionCall)
		switch {
		case ok && v.asks && f.CallID != "":
			v.hold(f.CallID, indent(it)+call(f))
		case ok:
			v.note("%s%s", indent(it), call(f))
		}
	case event.TypeFunctionCallOutput:
		if f, ok := it.Final.(event.FunctionCallOutput); ok {
			v.output(it, f)
		}
	case event.TypePlan:
		if f, ok := it.Final.(event.Plan); ok {
			v.plan(f)
		}
	}
	return nil
}

// message prints the new part of a message. The text usually only grows. If the
// final text is shorter than what was printed, all of it is printed again.
func (v *textView) message(it event.Item) error {
	if m, ok := it.Final.(event.Message); ok && m.Origin != event.OriginAgent {
		return nil
	}
	done := v.printed[it.ID]
	if done > len(it.Content) {
		done = 0
	}
	if text := it.Content[done:]; text != "" {
		if v.current != it.ID {
			if err := v.finishLine(); err != nil {
				return err
			}
			if v.said {
				if _, err := io.WriteString(&v.column, "\n"); err != nil {
					return err
				}
			}
			v.current, v.said = it.ID, true
		}
		if _, err := io.WriteString(v.answer, text); err != nil {
			return err
		}
		v.printed[it.ID] = len(it.Content)
	}
	if it.Status != event.ItemOpen {
		delete(v.printed, it.ID)
		if v.current == it.ID {
			return v.finishLine()
		}
	}
	return nil
}

// finishLine ends the current line on out, if an item has begun one.
func (v *textView) finishLine() error {
	if v.current == "" {
		return nil
	}
	v.current = ""
	if err := v.answer.Close(); err != nil {
		return err
	}
	if v.column.last == '\n' {
		return nil
	}
	_, err := io.WriteString(&v.column, "\n")
	return err
}

func (v *textView) close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.release()
	return v.finishLine()
}

func call(f event.FunctionCall) string {
	title := oneLine(f.Title, 160)
	if title == "" {
		title = oneLine(f.Name, 80) + " " + oneLine(compact(f.Arguments), 120)
	}
	return "• " + title
}

// compact returns JSON without white space between its tokens.
func compact(data json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, data) != nil {
		return string(data)
	}
	return b.String()
}

func (v *textView) output(it event.Item, f event.FunctionCallOutput) {
	switch {
	case v.verbose:
		v.block(f.Output)
	case f.IsError:
		v.note("%s  failed: %s", indent(it), oneLine(f.Output, 160))
	}
}

func (v *textView) plan(p event.Plan) {
	for _, e := range p.Entries {
		v.note("[%s] %s", mark(e), oneLine(e.Content, 160))
	}
}

func mark(e event.PlanEntry) string {
	switch e.Status {
	case "completed":
		return "x"
	case "in_progress":
		return ">"
	}
	return " "
}

// indent returns the indentation of a note: items of subagents are indented.
func indent(it event.Item) string {
	if it.ParentCallID != "" {
		return "  "
	}
	return ""
}

// note prints one line on err, unless quiet.
func (v *textView) note(format string, args ...any) {
	if v.quiet {
		return
	}
	if v.together {
		_ = v.finishLine()
	}
	fmt.Fprintf(v.err, "%s%s%s\n", v.faint, fmt.Sprintf(format, args...), v.plain)
}

// block prints text of several lines as notes.
func (v *textView) block(text string) {
	for line := range strings.Lines(termtext.Clean(text)) {
		v.note("  %s", strings.TrimSuffix(line, "\n"))
	}
}
