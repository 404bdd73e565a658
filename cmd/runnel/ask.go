package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/termtext"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/internal/turnview"
)

// settleTime is how long a question is shown before answers are accepted. Lines
// typed earlier cannot be about the question.
const settleTime = 500 * time.Millisecond

// An asker asks the person at the terminal to decide approvals, one at a time.
type asker struct {
	out    io.Writer
	typed  *typed
	settle time.Duration
	seen   *seen // questions that the run has printed

	unanswered string // what is printed at the end of the input

	// ask prepares the terminal for the question about an approval; the
	// function that it returns ends that. Default: nothing.
	ask func(id string) (answered func())

	mu sync.Mutex // held while a question is on the screen
}

func newAsker(in io.Reader, out io.Writer) *asker {
	k := &asker{out: out, typed: &typed{in: in}, settle: settleTime, seen: newSeen(), unanswered: "No answer: denied."}
	go k.typed.read() // runs until the input or the process ends
	return k
}

// approve implements [runnel.Approver]. It denies the approval at the end of
// the input and when ctx ends.
func (k *asker) approve(ctx context.Context, a event.Approval) runnel.Decision {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen.wait(ctx, a.ID)
	if ctx.Err() != nil {
		return refusal(a)
	}
	if k.ask != nil {
		defer k.ask(a.ID)()
	}
	fmt.Fprint(k.out, question(a, k.width()))
	settled := time.NewTimer(k.settle)
	defer settled.Stop()
	select {
	case <-ctx.Done():
		return k.withdrawn(ctx, a)
	case <-settled.C:
	}
	lines := k.typed.begin()
	defer k.typed.end()
	for {
		fmt.Fprintf(k.out, "Your choice, 1 to %d: ", len(a.Choices))
		select {
		case <-ctx.Done():
			return k.withdrawn(ctx, a)
		case line, ok := <-lines:
			if !ok {
				fmt.Fprintln(k.out, "\n"+k.unanswered)
				return refusal(a)
			}
			if c, ok := chosen(a, line); ok {
				return runnel.Decision{Choice: c.ID, By: event.ByUser, ArgumentsDigest: a.ArgumentsDigest}
			}
		}
	}
}

// withdrawn ends a question that needs no answer any more.
func (k *asker) withdrawn(ctx context.Context, a event.Approval) runnel.Decision {
	fmt.Fprintln(k.out, "\n"+whyOver(ctx, a))
	return refusal(a)
}

// stillWaits is what a command prints that leaves an approval unanswered.
const stillWaits = "The approval still waits for an answer."

// whyOver says why an approval needs no answer any more. ctx is the context
// with which the approver was called.
func whyOver(ctx context.Context, a event.Approval) string {
	if errors.Is(context.Cause(ctx), errLeft) {
		return stillWaits
	}
	over, ok := errors.AsType[*errResolved](context.Cause(ctx))
	if !ok || over.By != event.ByUser && over.By != event.ByPolicy {
		return "The agent no longer needs an answer."
	}
	choice := over.Choice
	for _, c := range a.Choices {
		if c.ID == over.Choice {
			choice = c.Label
		}
	}
	who := "Answered elsewhere"
	if over.By == event.ByPolicy {
		who = "Decided without you"
	}
	if note := event.RuleNote(over.By, over.Rule); note != "" {
		who += ", " + note
	}
	return who + ": " + oneLine(choice, event.MaxTitle) + "."
}

// typed reads the lines that a person types. It drops a line that arrives while
// no question waits for one.
type typed struct {
	in io.Reader

	mu    sync.Mutex  // guards the rest
	lines chan string // for the question that waits; nil if none does
	over  bool        // the input has ended
}

// pasted is the capacity of typed.lines: how many pasted lines are tried as
// answers to one question.
const pasted = 16

func (t *typed) read() {
	for sc := bufio.NewScanner(t.in); sc.Scan(); {
		t.mu.Lock()
		select {
		case t.lines <- sc.Text():
		default:
		}
		t.mu.Unlock()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	if t.lines != nil {
		close(t.lines)
	}
}

// begin returns a channel with the lines that arrive from now on. The channel
// is closed at the end of the input. begin discards a line that was typed only
// partly.
func (t *typed) begin() <-chan string {
	if f, ok := t.in.(*os.File); ok {
		discardTyped(f)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = make(chan string, pasted)
	if t.over {
		close(t.lines)
	}
	return t.lines
}

// end drops all later lines, until the next begin.
func (t *typed) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = nil
}

// seen tracks which approvals the output of the run has shown. A question waits
// for that, so that it never appears before the output that led to it.
type seen struct {
	mu sync.Mutex
	at map[string]chan struct{} // by approval id; closed once the approval is printed
}

func newSeen() *seen { return &seen{at: make(map[string]chan struct{})} }

func (s *seen) of(id string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at[id] == nil {
		s.at[id] = make(chan struct{})
	}
	return s.at[id]
}

// note records that an approval was printed. It may be called again with the
// same id: an agent can reuse ids.
func (s *seen) note(id string) {
	c := s.of(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-c:
	default:
		close(c)
	}
}

// maxUnshown is how long wait waits for an approval to be printed. An
// out-of-turn approval is never printed: it is not one of the run's events.
const maxUnshown = time.Second

func (s *seen) wait(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, maxUnshown)
	defer cancel()
	select {
	case <-s.of(id):
	case <-ctx.Done():
	}
}

// showing is a sink that records the approvals that it has printed.
type showing struct {
	sink
	seen *seen
}

func (s showing) event(ev event.Event) error {
	err := s.sink.event(ev)
	if b, ok := ev.Body.(event.ApprovalRequested); ok {
		s.seen.note(b.Approval.ID)
	}
	return err
}

// maxQuestion is how many lines of arguments are shown.
const maxQuestion = 60

// width returns the width of the terminal on which questions appear, or 0 if it
// is not known.
func (k *asker) width() int {
	if f := fileOf(k.out); f != nil {
		return columns(f)
	}
	return 0
}

// question returns the text of an approval for a screen of the given width. It
// always shows the exact arguments, never only the agent's description of them.
func question(a event.Approval, width int) string {
	var b strings.Builder
	tool, title := oneLine(a.ToolName, 80), oneLine(a.Title, 200)
	if a.Kind == event.ApprovalTool && tool != "" && len(a.Arguments) > 0 {
		title = tool // the arguments below say exactly what the title describes
	}
	if at := turnview.Connection(a); at != "" {
		title = "Reach " + oneLine(at, 300)
	}
	fmt.Fprintf(&b, "\n? %s\n", title)
	if a.Why != "" {
		fmt.Fprintf(&b, "  the agent's reason: %s\n", oneLine(a.Why, 400))
	}
	if len(a.Arguments) > 0 {
		var text bytes.Buffer
		if json.Indent(&text, a.Arguments, "", "  ") != nil {
			text.Reset()
			text.Write(a.Arguments)
		}
		lines := strings.Split(exactJSON(text.String()), "\n")
		fmt.Fprintf(&b, "  its arguments, %d bytes:\n", len(a.Arguments))
		for i, line := range lines {
			if i == maxQuestion {
				fmt.Fprintf(&b, "  … %d more lines\n", len(lines)-i)
				break
			}
			b.WriteString("  " + strings.Join(argumentRows(line, width), "\n  "+continued) + "\n")
		}
	}
	for i, c := range a.Choices {
		fmt.Fprintf(&b, "  %d  %s\n", i+1, oneLine(c.Label, event.MaxTitle)) // in full: the end of a granted path matters, too
	}
	return b.String()
}

// continued begins each row of a line of arguments except the first. Otherwise the
// agent's text would begin the row, and could imitate a question.
const continued = "│ "

// argumentRows splits a line of arguments into rows that fit the screen, with
// an indent of two cells and continued. A width of 0 means 80. Terminals differ
// in the width of characters outside of ASCII, so each counts as two cells.
func argumentRows(line string, width int) (rows []string) {
	most := max(cmp.Or(width, 80)-2-2, 2)
	start, at := 0, 0
	for i, r := range line {
		n := 1
		if r >= utf8.RuneSelf {
			n = 2
		}
		if at += n; at > most {
			rows = append(rows, line[start:i])
			start, at = i, n
		}
	}
	return append(rows, line[start:])
}

// exactJSON escapes the characters in JSON that a person could not see: control
// characters, invisible characters and unusual spaces. Other output drops such
// characters, but here that would show something other than what would run.
func exactJSON(text string) string {
	var b strings.Builder
	for _, r := range text {
		if !unseen(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// unseen reports whether exactJSON writes r as an escape.
func unseen(r rune) bool { return r != '\n' && !drawn(r) }

// drawn reports whether r is visible on the screen, or a plain space.
func drawn(r rune) bool {
	const brailleBlank = '\u2800'
	return unicode.IsPrint(r) && r != brailleBlank &&
		!unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

func chosen(a event.Approval, line string) (event.Choice, bool) {
	line = strings.TrimSpace(line)
	if n, err := strconv.Atoi(line); err == nil && n >= 1 && n <= len(a.Choices) {
		return a.Choices[n-1], true
	}
	for _, c := range a.Choices {
		if c.ID == line {
			return c, true
		}
	}
	return event.Choice{}, false
}

// refusal returns the denial for an approval that nobody answered. The engine
// decides the same way when there is no approver.
func refusal(a event.Approval) runnel.Decision {
	d := runnel.Decision{Choice: event.ChoiceWithdrawn, By: event.ByPolicy, Reason: "nobody answered"}
	for _, kind := range []event.ChoiceKind{event.ChoiceDenyStop, event.ChoiceDeny} {
		for _, c := range a.Choices {
			if c.Kind == kind {
				d.Choice = c.ID
			}
		}
	}
	return d
}

// oneLine turns untrusted text into one line of at most n characters.
func oneLine(s string, n int) string {
	return text.ShortenRunes(strings.Join(strings.Fields(termtext.Clean(s)), " "), n)
}
