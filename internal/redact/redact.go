// Package redact keeps secrets out of everything that leaves the process: the
// events of agents, logs, errors.
//
// A [Redactor] knows values, in the forms in which they travel (plain, escaped
// for JSON or a URL, in base64 or hexadecimal), and the looks of well-known
// kinds of keys. What it finds becomes "[redacted]".
//
// A [Stream] does the same to a text that comes in pieces. It holds back only
// what may still turn out to be a secret, and however the text is cut, its
// pieces together are what String makes of the whole. Time is linear in the
// text; what is held back is bounded by the longest form of a value.
package redact

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Marker takes the place of a secret. What it stands for may be more than a
// secret: whatever an agent writes where one would be.
const Marker = "[redacted]"

// A Redactor may be used from anywhere. The nil one knows patterns only.
type Redactor struct {
	below *Redactor // its values are known too
	known atomic.Pointer[forms]
	stale atomic.Bool // values were added to those of known

	mu    sync.Mutex
	told  []string // with New
	added []string // guarded by mu; oldest first
}

// maxAdded bounds the values that are added to one Redactor; the oldest are
// forgotten.
const maxAdded = 512

// New returns a Redactor that knows values, and never forgets them. See [Env] for
// where they come from; what is too short or too plain to be told from text is
// left out.
func New(values ...string) *Redactor {
	r := new(Redactor)
	for _, v := range values {
		if distinct(v) && !slices.Contains(r.told, v) {
			r.told = append(r.told, v)
		}
	}
	if len(r.told) > 0 {
		r.known.Store(compile(r.told))
	}
	return r
}

// Above returns a Redactor that knows what below does, also what below learns
// later, and values. What is added to one of the two makes the other forget
// nothing.
func Above(below *Redactor, values ...string) *Redactor {
	r := New(values...)
	r.below = below
	return r
}

// With is [Above] where there are values to look for, and r where there are none.
func (r *Redactor) With(values ...string) *Redactor {
	if !slices.ContainsFunc(values, distinct) {
		return r
	}
	return Above(r, values...)
}

// Add makes more values known, to every text that begins afterwards. It may have
// r forget values that were added before.
func (r *Redactor) Add(values ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.added)
	for _, v := range values {
		if distinct(v) && !slices.Contains(r.told, v) && !slices.Contains(r.added, v) {
			r.added = append(r.added, v)
		}
	}
	if len(r.added) == before {
		return
	}
	r.added = slices.Delete(r.added, 0, max(0, len(r.added)-maxAdded))
	r.stale.Store(true)
}

// forms returns what to look for; nil if there is nothing. The first text after
// values were added compiles them, which takes long if they are many.
func (r *Redactor) forms() *forms {
	if r.stale.Load() {
		r.mu.Lock()
		if r.stale.Load() {
			r.known.Store(compile(slices.Concat(r.told, r.added)))
			r.stale.Store(false)
		}
		r.mu.Unlock()
	}
	return r.known.Load()
}

// String returns s without secrets.
func (r *Redactor) String(s string) string {
	if len(s) < minValue { // nothing that we look for is that short
		return s
	}
	st := r.Stream()
	out := st.Append(s)
	if rest := st.End(); rest != "" {
		out += rest
	}
	if out == s {
		return s
	}
	return out
}

// Bytes returns a copy of b without secrets.
func (r *Redactor) Bytes(b []byte) []byte { return []byte(r.String(string(b))) }

// Stream begins a text that comes in pieces.
func (r *Redactor) Stream() *Stream {
	s := new(Stream)
	for ; r != nil; r = r.below {
		if f := r.forms(); f != nil {
			s.stages = append(s.stages, &matcher{set: f.plain}, &matcher{set: f.encoded})
		}
	}
	s.stages = append(s.stages, new(scanner))
	return s
}

// A stage passes a text on, without what it looks for, and may hold back its end.
type stage interface {
	append(dst, p []byte) []byte
	end(dst []byte) []byte // what was held back; the next text may begin
}

// A Stream takes the secrets out of one text. It belongs to one goroutine.
type Stream struct {
	stages []stage
	in     []byte // scratch
	out    []byte
}

// Append takes the next piece and returns what can be shown now.
func (s *Stream) Append(piece string) string {
	s.in = append(s.in[:0], piece...)
	for _, st := range s.stages {
		s.out = st.append(s.out[:0], s.in)
		s.in, s.out = s.out, s.in
	}
	if string(s.in) == piece {
		return piece
	}
	return string(s.in)
}

// End ends the text and returns the rest of it. A beginning of a secret that is
// long enough to be of use to someone counts as one.
func (s *Stream) End() string {
	s.in = s.in[:0]
	for _, st := range s.stages {
		s.out = st.end(st.append(s.out[:0], s.in))
		s.in, s.out = s.out, s.in
	}
	return string(s.in)
}
