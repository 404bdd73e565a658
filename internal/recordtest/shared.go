package recordtest

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
)

// UUIDs are the UUIDs of a recording, and what stands for each. A recording
// holds the same stand-ins each time it is made.
type UUIDs map[string]string

var uuidRE = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// NewUUIDs numbers the UUIDs in texts, in the order in which they first occur.
func NewUUIDs(texts []string) UUIDs {
	u := UUIDs{}
	for _, text := range texts {
		for _, id := range uuidRE.FindAllString(text, -1) {
			if u[id] == "" {
				u[id] = fmt.Sprintf("00000000-0000-4000-8000-%012d", len(u)+1)
			}
		}
	}
	return u
}

// Replace replaces the UUIDs in a text.
func (u UUIDs) Replace(text string) string {
	return uuidRE.ReplaceAllStringFunc(text, func(id string) string { return u[id] })
}

// Texts returns the texts of lines.
func Texts(lines []Line) (texts []string) {
	for _, l := range lines {
		texts = append(texts, l.Line)
	}
	return texts
}

// In returns the section "in" of a recording: lines, each as normal returns its
// text.
func In(t testing.TB, lines []Line, normal func(Line) string) txtar.File {
	t.Helper()
	var in bytes.Buffer
	for _, l := range lines {
		l.Line = normal(l)
		Encode(t, &in, l)
	}
	return txtar.File{Name: "in", Data: in.Bytes()}
}

// AllCheckpoints runs [Checkpoints] with the recordings that each passes to its
// function. It fails the test if fewer than least turns could be begun.
func AllCheckpoints[F any, T agentconn.Translator](t *testing.T, least int, each func(*testing.T, func(*testing.T, F, string, *txtar.Archive)), fresh func() T) {
	t.Helper()
	points := 0
	each(t, func(t *testing.T, _ F, _ string, a *txtar.Archive) {
		points += Checkpoints(t, Section(a, "in"), fresh)
	})
	if points < least {
		t.Errorf("only %d turns were begun at a checkpoint", points)
	}
}

// Torn gives a translator every beginning of a line of the agent, as if the
// agent had died in the middle of writing the line. Each must give one notice
// and no reply. Torn returns how many beginnings there were.
func Torn(t *testing.T, tr agentconn.Translator, l runnel.Line) (cuts int) {
	t.Helper()
	for k := 1; k < len(l.Text); k++ {
		got, replies := tr.Printed(l.Text[:k], l.At)
		if len(got) != 1 || event.Type(got[0].Body) != "notice" || len(replies) != 0 {
			t.Fatalf("%d bytes of a line give %v and %d replies", k, got, len(replies))
		}
		cuts++
	}
	return cuts
}

// Seed returns the beginning of a recording as an input of fuzzing, at most
// size bytes of lines: "<" and a line of ours, or ">" and one of the agent. It
// leaves out the agent's lines for which skip holds.
func Seed(t testing.TB, in []byte, size int, skip func(text []byte) bool) []byte {
	t.Helper()
	var seed bytes.Buffer
	for l, err := range Lines(t, in) {
		if err != nil {
			t.Fatal(err)
		}
		if l.Dir == runnel.DirOut && skip(l.Text) {
			continue
		}
		if seed.Len()+len(l.Text) > size {
			break
		}
		fmt.Fprintf(&seed, "%s%s\n", map[runnel.Dir]string{runnel.DirIn: "<", runnel.DirOut: ">"}[l.Dir], l.Text)
	}
	return seed.Bytes()
}

// Seeded returns the lines of an input of the form that [Seed] returns. A line
// without a mark is one of the agent's.
func Seeded(data []byte) (lines []runnel.Line) {
	for line := range strings.Lines(string(data)) {
		if text, sent := strings.CutPrefix(line, "<"); sent {
			lines = append(lines, runnel.Line{At: Start, Dir: runnel.DirIn, Text: []byte(text)})
		} else {
			lines = append(lines, runnel.Line{At: Start, Dir: runnel.DirOut, Text: []byte(strings.TrimPrefix(line, ">"))})
		}
	}
	return lines
}
