package gateway

import (
	"fmt"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
)

// Bounds of a quotation, in bytes.
const (
	maxQuotedMessage = 8 << 10
	maxQuotedTurn    = 32 << 10
	maxQuotation     = 64 << 10 // of all turns, the newest of which are kept
	maxQuotedCalls   = 20       // names of calls in a turn, not bytes
)

// A quotation is the text of a session's turns up to one of them, for an agent
// that does not know them. It quotes the messages of the user and of the agent,
// and names the agent's calls. It leaves out reasoning, outputs of calls and
// the work of subagents.
type quotation struct {
	turn  string // the last one to quote
	begun bool   // it has begun
	ended bool   // it has ended
	last  bool   // no other turn has begun after it

	open    map[string]*quotedTurn
	parts   []string // the turns in the order in which they ended
	size    int      // of parts
	omitted int      // turns that are left out
}

type quotedTurn struct {
	text    strings.Builder
	calls   []string
	more    int             // calls that are not in calls
	foreign map[string]bool // items of subagents
}

func newQuotation(turn string) *quotation {
	return &quotation{turn: turn, open: make(map[string]*quotedTurn)}
}

// add takes the next event of the log.
func (q *quotation) add(ev event.Event) {
	if ev.Turn == "" {
		return
	}
	if q.ended {
		q.last = q.last && ev.Turn == q.turn
		return
	}
	t := q.open[ev.Turn]
	if t == nil {
		t = &quotedTurn{foreign: make(map[string]bool)}
		q.open[ev.Turn] = t
	}
	q.begun = q.begun || ev.Turn == q.turn
	t.add(ev)
	if !event.Ends(ev.Body) {
		return
	}
	delete(q.open, ev.Turn)
	q.keep(t.end())
	if ev.Turn == q.turn {
		q.ended, q.last = true, len(q.open) == 0
	}
}

// keep adds the text of a turn and drops the oldest turns if necessary.
func (q *quotation) keep(part string) {
	q.parts = append(q.parts, part)
	for q.size += len(part); q.size > maxQuotation; q.omitted++ {
		q.size -= len(q.parts[0])
		q.parts = q.parts[1:]
	}
}

// text returns the quotation as the beginning of a prompt.
func (q *quotation) text() string {
	var b strings.Builder
	b.WriteString("This continues an earlier conversation, which is quoted here:\n\n")
	if q.omitted > 0 {
		fmt.Fprintf(&b, "(earlier turns that are left out: %d)\n\n", q.omitted)
	}
	for _, p := range q.parts {
		b.WriteString(p)
	}
	b.WriteString("That was the earlier conversation. Continue from there:\n\n")
	return b.String()
}

func (t *quotedTurn) add(ev event.Event) {
	switch b := ev.Body.(type) {
	case event.ItemStart:
		if b.ParentCallID != "" {
			t.foreign[b.ItemID] = true
		}
	case event.ItemDone:
		if !t.foreign[b.ItemID] {
			t.item(b.FinalItem, b.ItemID == runnel.UserItemID(ev.Turn))
		}
	}
}

func (t *quotedTurn) item(f event.FinalItem, prompt bool) {
	switch f := f.(type) {
	case event.Message:
		t.flush()
		if prompt || f.Origin == event.OriginUser {
			t.quote("User", f.Content)
		} else {
			t.quote("You", f.Content)
		}
	case event.FunctionCall:
		name := text.OneLine(f.Name, event.MaxName)
		if title := text.OneLine(f.Title, event.MaxTitle); title != "" && title != name {
			name += " (" + title + ")"
		}
		if len(t.calls) < maxQuotedCalls {
			t.calls = append(t.calls, name)
		} else {
			t.more++
		}
	}
}

// quote adds a message with a mark before each line, so that no message can
// look like another one.
func (t *quotedTurn) quote(who, content string) {
	content = strings.TrimSpace(content)
	if content == "" || t.text.Len() > maxQuotedTurn {
		return
	}
	t.text.WriteString(who + ":\n")
	for line := range strings.Lines(text.Shorten(content, maxQuotedMessage)) {
		t.text.WriteString(strings.TrimRight("> "+line, " \r\n") + "\n")
	}
	t.text.WriteString("\n")
}

// flush adds the calls since the last message.
func (t *quotedTurn) flush() {
	if len(t.calls) == 0 {
		return
	}
	t.text.WriteString("You called " + strings.Join(t.calls, ", "))
	if t.more > 0 {
		fmt.Fprintf(&t.text, " and %d more", t.more)
	}
	t.text.WriteString(".\n\n")
	t.calls, t.more = nil, 0
}

func (t *quotedTurn) end() string {
	t.flush()
	return t.text.String()
}
