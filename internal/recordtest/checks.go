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

// UUIDs maps the UUIDs of a recording to replacements. The replacements are the
// same each time the recording is made.
type UUIDs map[string]string

var uuidRE = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// NewUUIDs returns replacements for the UUIDs in texts, numbered from 1 in the
// order in which they first occur.
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

// In returns the file "in" of a recording. It replaces the text of each line by
// the result of normal.
func In(t testing.TB, lines []Line, normal func(Line) string) txtar.File {
	t.Helper()
	var in bytes.Buffer
	for _, l := range lines {
		l.Line = normal(l)
		Encode(t, &in, l)
	}
	return txtar.File{Name: "in", Data: in.Bytes()}
}

// AllCheckpoints runs [Checkpoints] for the recordings that each provides. It
// fails the test if fewer than least turns have a checkpoint.
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

// Torn passes every proper prefix of a line to a translator, as if the agent
// had exited while it wrote the line. Each prefix must give one notice and no
// reply. Torn returns the number of prefixes.
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

// Seed returns the beginning of a recording as an input for fuzzing, with at
// most size bytes of text. A line that Runnel sent begins with "<", a line of
// the agent with ">". Seed omits the agent's lines for which skip returns true.
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

// Seeded decodes the lines of an input that Seed returned. A line without a
// mark is a line of the agent.
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
