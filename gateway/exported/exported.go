// Package exported reads the file that an export of a session as JSON Lines
// wrote.
//
// The file is hostile input. Read accepts only what an export writes: every
// line must be the JSON of one event or of one picture, byte for byte, the
// events must obey the rules of a log, and a picture must follow an event that
// names it. An error names the line.
package exported

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/jsonl"
)

// Bounds of a file.
const (
	MaxFile  = 1 << 30  // bytes
	MaxLine  = 32 << 20 // bytes of one line
	maxTurns = 100_000
	maxItems = 1_000_000 // items and approvals of the turns that have not ended, at any place in the file

	// A reader of the session holds the text of every item that has not ended.
	maxText     = 2 * event.MaxText // bytes of one item; the engine cuts it at MaxText, before secrets are replaced by longer marks
	maxOpenText = 256 << 20         // bytes of the items that have not ended, at any place in the file; the default of max-turn-mib

	// maxParts bounds the members and elements in the JSON of a line, because
	// a decoded part may take many times the bytes that it has in the file.
	maxParts = 1 << 19
)

// Read yields the events of a file in their order. It yields an error and stops
// at the first line that no export can contain, and at the end of a file that
// has no events or in which a turn has not ended. An error of r is yielded as
// it is; every other error is INVALID_REQUEST or PAYLOAD_TOO_LARGE.
//
// Read calls picture, unless it is nil, with the content of each picture, after
// it has yielded the event that names the picture.
func Read(r io.Reader, picture func(data []byte)) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		lines := reader{src: jsonl.NewReader(&bounded{r, MaxFile}, MaxLine), picture: picture}
		log := newChecker()
		for {
			ev, err := lines.next()
			if errors.Is(err, io.EOF) {
				if err := log.end(); err != nil {
					yield(event.Event{}, err)
				}
				return
			}
			if err == nil {
				err = log.check(lines.n, ev)
			}
			if err != nil {
				yield(event.Event{}, err)
				return
			}
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// refuse returns the error for a line.
func refuse(line int, format string, args ...any) error {
	return runnel.Fail(runnel.InvalidRequest, fmt.Sprintf("line %d: ", line)+fmt.Sprintf(format, args...))
}

// reader decodes the lines of a file.
type reader struct {
	src *jsonl.Reader
	n   int    // number of the current line, without blank lines
	own []byte // buffer for the encoding of an event

	picture func(data []byte)
	session string   // of the newest event
	named   []string // pictures that the newest event names
}

// next returns the event of the next line with an event, or io.EOF.
func (r *reader) next() (event.Event, error) {
	for {
		line, err := r.line()
		if err != nil {
			return event.Event{}, err
		}
		if !bytes.HasPrefix(line, []byte(`{"type":"`+event.PictureLineType+`",`)) {
			return r.decode(line)
		}
		if err := r.decodePicture(line); err != nil {
			return event.Event{}, err
		}
	}
}

// line returns the next line, or io.EOF.
func (r *reader) line() ([]byte, error) {
	line, err := r.src.Next()
	r.n++
	if tooLong, ok := errors.AsType[*jsonl.TooLongError](err); ok {
		return nil, runnel.Fail(runnel.PayloadTooLarge, fmt.Sprintf("line %d: has %d bytes; a line may have at most %d", r.n, tooLong.Length, MaxLine))
	}
	if err != nil {
		return nil, err
	}
	if r.src.Torn() {
		return nil, refuse(r.n, "is incomplete: it has no newline at its end")
	}
	if !jsonl.Valid(line) {
		return nil, refuse(r.n, "is not UTF-8 text")
	}
	if parts(line) > maxParts {
		return nil, refuse(r.n, "has more than %d JSON values", maxParts)
	}
	return line, nil
}

// decodePicture decodes the line of a picture.
func (r *reader) decodePicture(line []byte) error {
	var p event.PictureLine
	if err := json.Unmarshal(line, &p); err != nil {
		return refuse(r.n, "%s", err)
	}
	own, err := json.Marshal(p)
	if err != nil {
		return refuse(r.n, "%s", err)
	}
	i := slices.Index(r.named, p.Picture)
	switch {
	case !bytes.Equal(own, line):
		return refuse(r.n, "differs from what an export writes, at byte %d", firstDifference(own, line)+1)
	case p.Session != r.session:
		return refuse(r.n, "sessionId: is not that of the event before")
	case i < 0:
		return refuse(r.n, "picture: the event before does not name it")
	case event.PictureID(p.Data) != p.Picture:
		return refuse(r.n, "data: is not the content of the picture")
	}
	r.named = slices.Delete(r.named, i, i+1)
	if r.picture != nil {
		r.picture(p.Data)
	}
	return nil
}

func (r *reader) decode(line []byte) (ev event.Event, err error) {
	if err := json.Unmarshal(line, &ev); err != nil {
		return ev, refuse(r.n, "%s", err)
	}
	body, lost := event.Bounded(ev.Body)
	if len(lost) > 0 || body == nil {
		return ev, refuse(r.n, "%s: too long or nested too deep", strings.Join(lost, ", "))
	}
	ev.Body = body
	if r.own, err = ev.AppendJSON(r.own[:0]); err != nil {
		return ev, refuse(r.n, "%s", err)
	}
	if !bytes.Equal(r.own, line) {
		return ev, refuse(r.n, "differs from what an export writes, at byte %d", firstDifference(r.own, line)+1)
	}
	if cap(r.own) > MaxLine/8 {
		r.own = nil
	}
	r.session, r.named = ev.Session, event.Pictures(ev.Body)
	return ev, nil
}

func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// parts counts the values in the JSON of a line. It may count too many if the
// line is not JSON.
func parts(line []byte) (n int) {
	quoted := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == '{' || c == '['):
			n++
		}
	}
	return n
}

// bounded reads at most left bytes and then fails.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, runnel.Fail(runnel.PayloadTooLarge, fmt.Sprintf("the file is too large; it may have at most %d MiB", MaxFile>>20))
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
