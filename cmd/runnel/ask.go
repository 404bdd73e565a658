package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/termtext"
	"github.com/runnel-dev/runnel/internal/text"
)

// asker asks a person, one question after the other.
type asker struct {
	mu    sync.Mutex // held while a question is on the screen
	out   io.Writer
	lines <-chan string // closed at the end of input
}

func newAsker(in io.Reader, out io.Writer) *asker {
	lines := make(chan string)
	go func() { // ends with the input, or with the process
		defer close(lines)
		for sc := bufio.NewScanner(in); sc.Scan(); {
			lines <- sc.Text()
		}
	}()
	return &asker{out: out, lines: lines}
}

// approve implements [runnel.Approver]. No answer is a denial.
func (k *asker) approve(ctx context.Context, a event.Approval) runnel.Decision {
	k.mu.Lock()
	defer k.mu.Unlock()
	if ctx.Err() != nil {
		return refusal(a)
	}
	fmt.Fprint(k.out, question(a))
	for {
		fmt.Fprintf(k.out, "Your choice, 1 to %d: ", len(a.Choices))
		select {
		case <-ctx.Done():
			fmt.Fprintln(k.out, "\nThe question was withdrawn.")
			return refusal(a)
		case line, ok := <-k.lines:
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

// maxQuestion bounds how many lines of arguments are shown.
const maxQuestion = 60

// question returns what is asked: exactly what would run, never only the
// agent's words for it.
func question(a event.Approval) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n? %s\n", oneLine(a.Title, 200))
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
		fmt.Fprintf(&b, "  %s, %d bytes:\n", oneLine(a.ToolName, 80), len(a.Arguments))
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
		if r == '\n' || drawn(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

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
