// Package recording defines the file format of the raw lines between Runnel and
// an agent: JSON lines. 'runnel record' and the debug capture of a session
// write such files, and 'runnel translate' reads them.
package recording

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/runnel-dev/runnel"
)

// A Line is one line of a recording. The first line describes the recording.
// Each other line is a raw line that passed between Runnel and an agent, or a
// [Mark].
//
//	{"t":0,"dir":"meta","line":"{\"recording\":1,\"agent\":\"…\",\"startedAt\":\"…\"}"}
//	{"t":12,"dir":"in","line":"{\"type\":\"user\",…"}
type Line struct {
	T    float64    `json:"t"` // milliseconds since the start; we write whole milliseconds
	Dir  runnel.Dir `json:"dir"`
	Line string     `json:"line,omitzero"`
	Raw  string     `json:"base64,omitzero"` // the line in base64, if it is not UTF-8
}

// New returns the Line for a raw line that passed at a time after the start of
// the recording. A time before the start counts as the start.
func New(after time.Duration, dir runnel.Dir, text []byte) Line {
	l := Line{T: float64(max(after, 0).Milliseconds()), Dir: dir}
	if utf8.Valid(text) {
		l.Line = string(text)
	} else {
		l.Raw = base64.StdEncoding.EncodeToString(text)
	}
	return l
}

// Encode returns the line as JSON, with a newline and without HTML escapes.
func (l Line) Encode() ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(l)
	return buf.Bytes(), err
}

// Bytes returns the raw line.
func (l Line) Bytes() ([]byte, error) {
	if l.Raw != "" {
		return base64.StdEncoding.DecodeString(l.Raw)
	}
	return []byte(l.Line), nil
}

// Version is the version of the format.
const Version = 1

// A Head is the content of the first line of a recording.
type Head struct {
	Recording int       `json:"recording"` // Version
	Agent     string    `json:"agent"`
	Version   string    `json:"version,omitzero"` // version of the agent
	StartedAt time.Time `json:"startedAt"`

	// Capture is set if the recording is the debug capture of a session. It has
	// marks, and may begin in the middle of a turn.
	Capture bool `json:"capture,omitzero"`
}

// A Mark is the content of a line with runnel.DirMeta that says what the next
// lines are.
type Mark struct {
	Mark Kind `json:"mark"`

	// State is the agentconn.Translator's checkpoint from which the following
	// lines can be translated. Only Turn and Takeover have one.
	State json.RawMessage `json:"state,omitzero"`

	// Times are the times of the lines that follow a Takeover. Each has passed
	// in an earlier server process.
	Times []time.Time `json:"times,omitzero"`
}

// A Kind is the kind of a Mark.
type Kind string

// The kinds of marks.
const (
	Start    Kind = "start"    // a process of the agent starts
	Turn     Kind = "turn"     // a turn begins
	Takeover Kind = "takeover" // all lines since the last Start or Turn follow again
)

// ParseMark returns the mark in a line with runnel.DirMeta. It reports false if
// the line has none.
func ParseMark(line []byte) (m Mark, ok bool) {
	return m, json.Unmarshal(line, &m) == nil && m.Mark != ""
}
