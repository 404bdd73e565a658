package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/runnel-dev/runnel"
)

// A recording is a file of JSON lines. Each is a raw line that passed between
// us and an agent, the first says what is recorded.
//
//	{"t":0,"dir":"meta","line":"{\"recording\":1,\"agent\":\"…\",\"startedAt\":\"…\"}"}
//	{"t":12,"dir":"in","line":"{\"type\":\"user\",…"}
type recorded struct {
	T    int64      `json:"t"` // milliseconds since the beginning
	Dir  runnel.Dir `json:"dir"`
	Line string     `json:"line,omitzero"`
	Raw  string     `json:"base64,omitzero"` // instead of Line if it is not UTF-8
}

// recordingHead is the line of the first entry.
type recordingHead struct {
	Recording int       `json:"recording"` // version of the format: 1
	Agent     string    `json:"agent"`
	Version   string    `json:"version,omitzero"` // of the agent
	StartedAt time.Time `json:"startedAt"`
}

// maxRecorded bounds a line of a recording, in bytes: a line of an agent, escaped.
const maxRecorded = 64 << 20

// A recorder writes a recording. Its methods may be called from anywhere.
type recorder struct {
	began time.Time

	mu    sync.Mutex // guards the rest
	w     *bufio.Writer
	enc   *json.Encoder
	lines int
	err   error
}

func newRecorder(w io.Writer, agent, version string) (*recorder, error) {
	r := &recorder{began: time.Now(), w: bufio.NewWriter(w)}
	r.enc = json.NewEncoder(r.w)
	r.enc.SetEscapeHTML(false)
	head, err := json.Marshal(recordingHead{1, agent, version, r.began.UTC()})
	if err != nil {
		return nil, err
	}
	r.err = r.enc.Encode(recorded{Dir: runnel.DirMeta, Line: string(head)})
	return r, r.err
}

// tap is a [runnel.Options] Tap.
func (r *recorder) tap(dir runnel.Dir, line []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return
	}
	e := recorded{T: time.Since(r.began).Milliseconds(), Dir: dir}
	if utf8.Valid(line) {
		e.Line = string(line)
	} else {
		e.Raw = base64.StdEncoding.EncodeToString(line)
	}
	r.lines++
	r.err = r.enc.Encode(e)
}

// close returns how many lines were recorded, and the first error.
func (r *recorder) close() (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lines, errors.Join(r.err, r.w.Flush())
}

var errNotRecording = errors.New(`this is not a recording: each line has to be {"t":ms,"dir":"in|out|err|meta","line":"…"}`)

// readRecording reads the head, if there is one, and returns the lines after it.
func readRecording(rd io.Reader) (recordingHead, iter.Seq2[runnel.Line, error], error) {
	sc := bufio.NewScanner(rd)
	sc.Buffer(nil, maxRecorded)
	n := 0
	next := func() (e recorded, ok bool, err error) {
		for sc.Scan() {
			n++
			if len(sc.Bytes()) == 0 {
				continue
			}
			if json.Unmarshal(sc.Bytes(), &e) != nil {
				return e, false, fmt.Errorf("line %d: %w", n, errNotRecording)
			}
			switch e.Dir {
			case runnel.DirIn, runnel.DirOut, runnel.DirErr, runnel.DirMeta:
				return e, true, nil
			}
			return e, false, fmt.Errorf("line %d: %w", n, errNotRecording)
		}
		if errors.Is(sc.Err(), bufio.ErrTooLong) {
			return e, false, fmt.Errorf("line %d is longer than %d MiB", n+1, maxRecorded>>20)
		}
		return e, false, sc.Err()
	}

	var head recordingHead
	first, ok, err := next()
	if err != nil {
		return head, nil, err
	}
	if !ok {
		return head, nil, errors.New("the recording is empty")
	}
	if first.Dir == runnel.DirMeta && json.Unmarshal([]byte(first.Line), &head) == nil && head.Recording > 1 {
		return head, nil, fmt.Errorf("the recording has format %d; this runnel knows format 1", head.Recording)
	}
	return head, func(yield func(runnel.Line, error) bool) {
		for e, ok, err := first, true, error(nil); ; e, ok, err = next() {
			if err != nil {
				yield(runnel.Line{}, err)
				return
			}
			if !ok {
				return
			}
			text, err := e.bytes()
			if err != nil {
				yield(runnel.Line{}, fmt.Errorf("line %d: %w", n, errNotRecording))
				return
			}
			at := head.StartedAt.Add(time.Duration(e.T) * time.Millisecond)
			if !yield(runnel.Line{At: at, Dir: e.Dir, Text: text}, nil) {
				return
			}
		}
	}, nil
}

func (e recorded) bytes() ([]byte, error) {
	if e.Raw != "" {
		return base64.StdEncoding.DecodeString(e.Raw)
	}
	return []byte(e.Line), nil
}
