package fakemodel

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"
)

// A dialect reads the requests and writes the answers of one API. It has no
// state. A step means the same in all dialects.
type dialect interface {
	check(b Block) error // fails if the API cannot represent b
	read(r *http.Request, body []byte) (query, error)
	refuse(w http.ResponseWriter, f Failure)

	whole(a answer) object // without streaming
	stream(a answer, e *emitter) error

	malformed() string          // the event that a Malformed fault writes
	report(e *emitter, f Fault) // writes an ErrorEvent or Failed fault
}

// query is a decoded request.
type query struct {
	model  string
	stream bool
	usage  bool // whether a stream reports the usage
	msgs   []message
	tools  tools
	helper *choice // the answer to a request that the agent made without a prompt; else nil
}

// last returns the text of the last message if the user sent it; else "".
func (q query) last() string {
	if n := len(q.msgs); n > 0 && q.msgs[n-1].role == "user" {
		return q.msgs[n-1].text()
	}
	return ""
}

// answer is a response before it is sent.
type answer struct {
	query
	step  Step
	id    string // from the scenario, the step and the number of its answers so far
	model string
	usage map[string]int64
}

// object is a JSON object.
type object map[string]any

// serve answers one request to a model.
func (s *Server) serve(d dialect, w http.ResponseWriter, r *http.Request, body []byte) {
	q, err := d.read(r, body)
	if err != nil {
		d.refuse(w, Failure{Status: http.StatusBadRequest, Message: err.Error()})
		return
	}
	c, err := s.stepFor(d, q, body)
	if err != nil {
		d.refuse(w, Failure{Status: http.StatusBadRequest, Message: err.Error()})
		return
	}
	st := c.step
	if st.Hold != "" && s.Gate(st.Hold).wait(r.Context()) != nil {
		return
	}
	if pause(r.Context(), time.Duration(st.DelayMS)*time.Millisecond) != nil {
		return
	}
	setHeaders(w, st.Headers)
	if f := st.Fail; f != nil && (f.Times == 0 || s.count("fail "+c.key) <= f.Times) {
		d.refuse(w, *f)
		return
	}
	if st.EmptyAnswers > 0 && s.count("silent "+c.key) <= st.EmptyAnswers {
		st.Text, st.Blocks = "", nil
	}
	a := answer{
		query: q, step: st, model: cmp.Or(st.Model, q.model),
		id:    fmt.Sprintf("%s_%d", c.key, s.count("message "+c.key)),
		usage: usage(st, len(body)),
	}
	if !q.stream {
		writeJSON(w, http.StatusOK, d.whole(a))
		return
	}
	s.streamed(d, a, w, r, c.key)
}

func (s *Server) streamed(d dialect, a answer, w http.ResponseWriter, r *http.Request, key string) {
	faults := make([]Fault, 0, len(a.step.Faults))
	for i, f := range a.step.Faults {
		if f.Times == 0 || s.count(fmt.Sprintf("fault %s %d", key, i)) <= f.Times {
			faults = append(faults, f)
		}
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	e := &emitter{
		ctx: r.Context(), w: w, flush: http.NewResponseController(w).Flush, gate: s.Gate,
		dialect: d, pace: a.step.Pace, faults: faults,
	}
	if pause(e.ctx, time.Duration(a.step.FirstDelayMS)*time.Millisecond) != nil {
		return
	}
	if errors.Is(d.stream(a, e), errBroken) {
		panic(http.ErrAbortHandler) // makes net/http break the connection
	}
}

// stepFor returns the step that answers a request.
func (s *Server) stepFor(d dialect, q query, body []byte) (choice, error) {
	c, ok := s.ownStep(q, body)
	if !ok && q.helper != nil {
		return *q.helper, nil
	}
	if !ok {
		var err error
		if c, err = choose(q.msgs, s.named); err != nil {
			return choice{}, err
		}
	}
	for _, b := range c.step.blocks() {
		if err := d.check(b); err != nil {
			return choice{}, err
		}
	}
	return c, nil
}

// only fails if the type of b is not one of types. It is the check of a dialect
// that can represent these types.
func only(b Block, types ...string) error {
	if !slices.Contains(types, b.Type) {
		return fmt.Errorf("fakemodel: this API has no %s", b.Type)
	}
	return nil
}

// usage returns estimated numbers of tokens. They are the same for the same
// request, and a step can override them.
func usage(st Step, requestBytes int) map[string]int64 {
	out := 0
	for _, b := range st.blocks() {
		out += (len(b.text()) + len(b.Input) + len(b.RawInput) + 3) / 4
	}
	u := map[string]int64{
		"input_tokens": int64(requestBytes / 4), "cache_creation_input_tokens": 0,
		"cache_read_input_tokens": 0, "output_tokens": int64(out),
	}
	maps.Copy(u, st.Usage)
	return u
}

func chunks(s string, size int) []string {
	if size <= 0 {
		size = 8
	}
	var out []string
	for r := []rune(s); len(r) > 0; {
		n := min(size, len(r))
		out = append(out, string(r[:n]))
		r = r[n:]
	}
	return out
}

var (
	errBroken = errors.New("fakemodel: the stream breaks here")
	errEnded  = errors.New("fakemodel: the stream ends here")
)

// earlyStop is the error that ends an answer early with this stop reason. The
// stream is complete.
type earlyStop string

func (c earlyStop) Error() string { return "fakemodel: the answer ends here: " + string(c) }

// emitter writes one stream of events.
type emitter struct {
	ctx     context.Context
	w       io.Writer
	flush   func() error
	gate    func(string) *Gate
	dialect dialect
	pace    int
	faults  []Fault // not applied yet
	sent    int     // deltas sent so far
	events  int     // events sent so far
}

// send writes an event with its type in the event line and in the data.
func (e *emitter) send(name string, o object) {
	o["type"] = name
	e.write("event: %s\ndata: %s\n\n", name, encode(o))
}

// data writes an event without an event line.
func (e *emitter) data(o object) { e.write("data: %s\n\n", encode(o)) }

func (e *emitter) write(format string, args ...any) {
	fmt.Fprintf(e.w, format, args...)
	e.flush()
	e.events++
}

// delta writes one piece of an answer with send, unless a fault ends the stream
// first.
func (e *emitter) delta(send func()) error {
	if err := e.applyFaults(); err != nil {
		return err
	}
	send()
	e.sent++
	if e.pace == 0 {
		return e.ctx.Err()
	}
	return pause(e.ctx, time.Second/time.Duration(e.pace))
}

// deltas writes text in pieces of size runes.
func (e *emitter) deltas(text string, size int, send func(piece string)) error {
	for _, piece := range chunks(text, size) {
		if err := e.delta(func() { send(piece) }); err != nil {
			return err
		}
	}
	return nil
}

// applyFaults applies the faults that are due. If it returns an error, the
// stream ends.
func (e *emitter) applyFaults() error {
	for len(e.faults) > 0 && e.faults[0].After <= e.sent {
		f := e.faults[0]
		e.faults = e.faults[1:]
		switch f.Kind {
		case Stall:
			if f.Gate == "" {
				<-e.ctx.Done()
				return e.ctx.Err()
			}
			if err := e.gate(f.Gate).wait(e.ctx); err != nil {
				return err
			}
		case Malformed:
			e.write("%s", e.dialect.malformed())
			return errEnded
		case ErrorEvent, Failed:
			e.dialect.report(e, f)
			return errEnded
		case Incomplete:
			return earlyStop(cmp.Or(f.Type, "max_tokens"))
		case Truncate:
			return errBroken
		case NoStop:
			return errEnded
		}
	}
	return nil
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // unreachable: validate has checked Input, and all other values marshal
	}
	return b
}

func setHeaders(w http.ResponseWriter, h Headers) {
	for k, v := range h {
		w.Header().Set(k, v)
	}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b := encode(v)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(b)
}
