package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/recording"
)

// maxRecorded is the maximum length of a line of a recording, in bytes. The
// line of an agent in it is longer than the agent printed it, because it is
// escaped.
const maxRecorded = 64 << 20

// A recorder writes a recording. Its methods are safe for concurrent use.
type recorder struct {
	began time.Time

	mu    sync.Mutex // guards the rest
	w     *bufio.Writer
	lines int
	err   error
}

func newRecorder(w io.Writer, agent, version string) (*recorder, error) {
	r := &recorder{began: time.Now(), w: bufio.NewWriter(w)}
	head, err := json.Marshal(recording.Head{Recording: recording.Version, Agent: agent, Version: version, StartedAt: r.began.UTC()})
	if err != nil {
		return nil, err
	}
	r.write(runnel.DirMeta, head, 0)
	return r, r.err
}

// tap records one line. It is the Tap of [runnel.Options]. It leaves out marks,
// because the recording has one turn of one process.
func (r *recorder) tap(dir runnel.Dir, line []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil || dir == runnel.DirMeta {
		return
	}
	r.lines++
	r.write(dir, line, time.Since(r.began))
}

func (r *recorder) write(dir runnel.Dir, line []byte, after time.Duration) {
	data, err := recording.New(after, dir, line).Encode()
	if err == nil {
		_, err = r.w.Write(data)
	}
	r.err = err
}

// close flushes the file. It returns how many lines were recorded, and the
// first error.
func (r *recorder) close() (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lines, errors.Join(r.err, r.w.Flush())
}

// A recordingError describes what is wrong with the file that the user named.
// It has no error code, because only the user can correct the file.
type recordingError struct {
	file string // "" for standard input
	line int    // from 1; 0 for the whole file
	what string
}

func (e *recordingError) Error() string {
	var where string
	if e.file != "" {
		where = e.file + ": "
	}
	if e.line > 0 {
		where += fmt.Sprintf("line %d: ", e.line)
	}
	return where + e.what
}

const notRecording = `this is not a recording: each line has to be {"t":ms,"dir":"in|out|err|meta","line":"…"}`

// maxOffset is the maximum of t, 1000 days. It keeps the computation of a
// line's time from overflowing.
const maxOffset = 1000 * 24 * time.Hour

// lineReader reads the lines of a recording. Its errors contain the line
// number.
type lineReader struct {
	sc *bufio.Scanner
	n  int // number of the last line read
}

// next returns the next line that is not empty. ok is false at the end.
func (l *lineReader) next() (e recording.Line, ok bool, err error) {
	for l.sc.Scan() {
		l.n++
		if len(l.sc.Bytes()) == 0 {
			continue
		}
		if json.Unmarshal(l.sc.Bytes(), &e) != nil {
			return e, false, l.fault(notRecording)
		}
		if e.T < 0 || e.T > float64(maxOffset.Milliseconds()) {
			return e, false, l.fault(fmt.Sprintf("t is %g; want the milliseconds since the start, from 0 to %d", e.T, maxOffset.Milliseconds()))
		}
		switch e.Dir {
		case runnel.DirIn, runnel.DirOut, runnel.DirErr, runnel.DirMeta:
			return e, true, nil
		}
		return e, false, l.fault(notRecording)
	}
	if errors.Is(l.sc.Err(), bufio.ErrTooLong) {
		return e, false, &recordingError{what: fmt.Sprintf("line %d is longer than %d MiB", l.n+1, maxRecorded>>20)}
	}
	return e, false, l.sc.Err()
}

func (l *lineReader) fault(what string) error { return &recordingError{line: l.n, what: what} }

// readRecording reads the head of a recording, which may be missing, and
// returns an iterator over all of its lines.
func readRecording(rd io.Reader) (recording.Head, iter.Seq2[runnel.Line, error], error) {
	in := &lineReader{sc: bufio.NewScanner(rd)}
	in.sc.Buffer(nil, maxRecorded)
	var head recording.Head
	first, ok, err := in.next()
	if err != nil {
		return head, nil, err
	}
	if !ok {
		return head, nil, &recordingError{what: "the recording is empty"}
	}
	if first.Dir == runnel.DirMeta && json.Unmarshal([]byte(first.Line), &head) == nil && head.Recording > recording.Version {
		return head, nil, &recordingError{what: fmt.Sprintf("the recording has format %d, but this runnel reads format 1 only; use a newer runnel", head.Recording)}
	}
	return head, func(yield func(runnel.Line, error) bool) {
		for e, ok, err := first, true, error(nil); ; e, ok, err = in.next() {
			if err != nil {
				yield(runnel.Line{}, err)
				return
			}
			if !ok {
				return
			}
			text, err := e.Bytes()
			if err != nil {
				yield(runnel.Line{}, in.fault(notRecording))
				return
			}
			at := head.StartedAt.Add(time.Duration(e.T * float64(time.Millisecond)))
			if !yield(runnel.Line{At: at, Dir: e.Dir, Text: text}, nil) {
				return
			}
		}
	}, nil
}
