package recordtest

import (
	"bytes"
	"regexp"
	"slices"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// A Damage changes a recording's lines as a faulty agent could.
type Damage func([]runnel.Line) []runnel.Line

// DropLines returns a Damage that drops the agent's lines that match a regular
// expression.
func DropLines(pattern string) Damage {
	re := regexp.MustCompile(pattern)
	return func(lines []runnel.Line) []runnel.Line {
		return slices.DeleteFunc(lines, func(l runnel.Line) bool { return l.Dir == runnel.DirOut && re.Match(l.Text) })
	}
}

// Twice returns a Damage that repeats the agent's lines that match a regular
// expression.
func Twice(pattern string) Damage {
	re := regexp.MustCompile(pattern)
	return func(lines []runnel.Line) (out []runnel.Line) {
		for _, l := range lines {
			if out = append(out, l); l.Dir == runnel.DirOut && re.Match(l.Text) {
				out = append(out, l)
			}
		}
		return out
	}
}

// Replaced returns a Damage that replaces text in the agent's lines.
func Replaced(old, text string) Damage {
	return func(lines []runnel.Line) []runnel.Line {
		for i, l := range lines {
			if l.Dir == runnel.DirOut {
				lines[i].Text = bytes.ReplaceAll(l.Text, []byte(old), []byte(text))
			}
		}
		return lines
	}
}

// Both returns a Damage that applies one and then other.
func Both(one, other Damage) Damage {
	return func(lines []runnel.Line) []runnel.Line { return other(one(lines)) }
}

// SameTexts fails the test unless the turns of a damaged recording have the
// texts of the undamaged one. The last text of a turn must be the same, or the
// turn must have failed with the code PROTOCOL_ERROR. An earlier text may be
// missing if the turn shows a cancelled text for it, or has a notice with that
// code.
func SameTexts(t *testing.T, whole, damaged []event.Event) {
	t.Helper()
	want, got := wordsIn(whole), wordsIn(damaged)
	for turn, w := range want {
		g := got[turn]
		if g == nil {
			g = new(words)
		}
		switch {
		case !w.completed || len(w.texts) == 0 || g.failed:
			continue
		case len(g.texts) == 0 || g.texts[len(g.texts)-1] != w.texts[len(w.texts)-1]:
			t.Errorf("the last text of turn %s of %q is not that of %q", turn, g.texts, w.texts)
		case slices.Equal(w.texts, g.texts), g.noticed, len(g.texts)+g.cancelled >= len(w.texts) && g.cancelled > w.cancelled:
		default:
			t.Errorf("texts of turn %s: %q, want %q", turn, g.texts, w.texts)
		}
	}
}

// words are the agent's texts in a turn, without those of subagents.
type words struct {
	texts                      []string
	cancelled                  int  // cancelled texts
	completed, failed, noticed bool // failed or noticed with PROTOCOL_ERROR
}

func wordsIn(evs []event.Event) map[string]*words {
	var tr event.Transcript
	turns := make(map[string]*words)
	of := func(turn string) *words {
		if turns[turn] == nil {
			turns[turn] = new(words)
		}
		return turns[turn]
	}
	for _, ev := range evs {
		tr.Apply(ev)
		switch b := ev.Body.(type) {
		case event.ResponseDone:
			of(ev.Turn).completed = b.Status == event.StatusCompleted
		case event.ResponseError:
			of(ev.Turn).failed = b.Error.Code == string(runnel.ProtocolError)
		case event.Notice:
			of(ev.Turn).noticed = of(ev.Turn).noticed || b.Code == string(runnel.ProtocolError)
		}
	}
	for _, it := range tr.Items() {
		m, ok := it.Final.(event.Message)
		switch {
		case it.ParentCallID != "" || it.Type != event.TypeMessage:
		case it.Status == event.ItemStopped:
			of(it.Turn).cancelled++
		case ok && m.Origin == event.OriginAgent:
			of(it.Turn).texts = append(of(it.Turn).texts, m.Content)
		}
	}
	return turns
}
