package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/termtext"
	"github.com/runnel-dev/runnel/internal/text"
)

// settleTime is how long a question is on the screen before it takes an answer.
// What is typed until then was not typed about the question.
const settleTime = 500 * time.Millisecond

// An asker asks a person at a terminal, one question after the other.
type asker struct {
	out    io.Writer
	typed  *typed
	settle time.Duration
	seen   *seen // what the person has seen of the run

	mu sync.Mutex // held while a question is on the screen
}

func newAsker(in io.Reader, out io.Writer) *asker {
	k := &asker{out: out, typed: &typed{in: in}, settle: settleTime, seen: newSeen()}
	go k.typed.read() // ends with the input, or with the process
	return k
}

// approve implements [runnel.Approver]. No answer is a denial.
func (k *asker) approve(ctx context.Context, a event.Approval) runnel.Decision {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen.wait(ctx, a.ID)
	if ctx.Err() != nil {
		return refusal(a)
	}
	fmt.Fprint(k.out, question(a))
	settled := time.NewTimer(k.settle)
	defer settled.Stop()
	select {
	case <-ctx.Done():
		return k.withdrawn(a)
	case <-settled.C:
	}
	lines := k.typed.begin()
	defer k.typed.end()
	for {
		fmt.Fprintf(k.out, "Your choice, 1 to %d: ", len(a.Choices))
		select {
		case <-ctx.Done():
			return k.withdrawn(a)
		case line, ok := <-lines:
			if !ok {
				fmt.Fprintln(k.out, "\nNo answer: denied.")
				return refusal(a)
			}
			if c, ok := chosen(a, line); ok {
				return runnel.Decision{Choice: c.ID, By: event.ByUser, ArgumentsDigest: a.ArgumentsDigest}
			}
		}
	}
}

func (k *asker) withdrawn(a event.Approval) runnel.Decision {
	fmt.Fprintln(k.out, "\nThe question was withdrawn.")
	return refusal(a)
}

// typed are the lines that a person types. A line counts only if it arrives
// while somebody waits for it; the others are dropped.
type typed struct {
	in io.Reader

	mu    sync.Mutex  // guards the rest
	lines chan string // to whoever waits; nil if nobody does
	over  bool        // there is no more input
}

// pasted is how many lines at once are taken for tries at one answer.
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

// begin returns where lines arrive from now on, closed at the end of input. It
// discards what the terminal holds of an unfinished line.
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

// end drops what is typed from now on.
func (t *typed) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = nil
}

// seen knows which questions of a run are part of what was printed, so that a
// question never stands before what led to it.
type seen struct {
	mu sync.Mutex
	at map[string]chan struct{} // by approval; closed once it was printed
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

// note says that a question was printed. An agent may ask by the same id again.
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

// maxUnshown bounds the wait for a question to be printed. One that is asked
// beside the turn is no part of the run's events.
const maxUnshown = time.Second

func (s *seen) wait(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, maxUnshown)
	defer cancel()
	select {
	case <-s.of(id):
	case <-ctx.Done():
	}
}

// showing is a sink that tells what it has printed.
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

// maxQuestion bounds how many lines of arguments are shown.
const maxQuestion = 60

// question returns what is asked: exactly what would run, never only the
// agent's words for it.
func question(a event.Approval) string {
	var b strings.Builder
	tool, title := oneLine(a.ToolName, 80), oneLine(a.Title, 200)
	if a.Kind == event.ApprovalTool && tool != "" && len(a.Arguments) > 0 {
		title = tool // the title would say again what the arguments say exactly
	}
	fmt.Fprintf(&b, "\n? %s\n", title)
	if a.Why != "" {
		fmt.Fprintf(&b, "  the agent's reason: %s\n", oneLine(a.Why, 400))
	}
	if len(a.Arguments) > 0 {
		var text bytes.Buffer
		if json.Indent(&text, a.Arguments, "  ", "  ") != nil {
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
			fmt.Fprintf(&b, "  %s\n", line)
		}
	}
	for i, c := range a.Choices {
		fmt.Fprintf(&b, "  %d  %s\n", i+1, oneLine(c.Label, 120))
	}
	return b.String()
}

// exactJSON writes what a person could not see in JSON as escapes: characters
// that a terminal obeys or draws as nothing, and blanks that are not blanks.
// Removing them, as elsewhere, would show something else than what would run.
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

// drawn reports whether r leaves a mark of its own on the screen.
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

// refusal denies, as the engine does where nobody is asked.
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

// oneLine makes text of others one line of at most n characters.
func oneLine(s string, n int) string {
	return text.ShortenRunes(strings.Join(strings.Fields(termtext.Clean(s)), " "), n)
}
