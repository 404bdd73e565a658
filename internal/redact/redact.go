// Package redact removes secrets from everything that leaves the process:
// events of agents, logs and errors.
//
// A [Redactor] searches for known values in several forms (plain, escaped for
// JSON or a URL, in base64 or hexadecimal), and for well-known kinds of keys.
// It replaces what it finds by "[redacted]".
//
// A [Stream] does the same for a text that arrives in pieces. It holds back
// only text that may become a secret. Its pieces together equal the result of
// String for the whole text, wherever the text is split. Its time is linear in
// the length of the text. The held-back text is bounded by the longest form of
// a value.
package redact

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Marker replaces a secret. It may also replace other text in a place where a
// secret is expected.
const Marker = "[redacted]"

// A Redactor may be used by several goroutines. A nil Redactor finds only
// well-known kinds of keys.
type Redactor struct {
	below *Redactor // its values are searched for too
	known atomic.Pointer[forms]
	stale atomic.Bool // known lacks values that were added

	mu     sync.Mutex
	fixed  []string // values passed to New
	added  []string // guarded by mu; oldest first
	newest int      // guarded by mu; number of the last added values, which known lacks
	recent *forms   // guarded by mu; the compiled newest values, or nil
}

// maxAdded bounds the values added to one Redactor. Beyond it Add drops the
// oldest.
const maxAdded = 512

// maxNewest bounds the values that known may lack while String finds no secret.
const maxNewest = 32

// New returns a Redactor that always searches for values, for example those of
// [Env]. It ignores values that are too short or too simple to distinguish from
// ordinary text.
func New(values ...string) *Redactor {
	r := new(Redactor)
	for _, v := range values {
		if distinct(v) && !slices.Contains(r.fixed, v) {
			r.fixed = append(r.fixed, v)
		}
	}
	if len(r.fixed) > 0 {
		r.known.Store(compile(r.fixed))
	}
	return r
}

// Above returns a Redactor that searches for values and for everything that
// below searches for, including values added to below later. Adding values to
// one of the two never drops values of the other.
func Above(below *Redactor, values ...string) *Redactor {
	r := New(values...)
	r.below = below
	return r
}

// With returns Above(r, values...), or r if no value is usable; see [New].
func (r *Redactor) With(values ...string) *Redactor {
	if !slices.ContainsFunc(values, distinct) {
		return r
	}
	return Above(r, values...)
}

// Add adds values for every text that begins afterwards. It may drop the oldest
// added values.
func (r *Redactor) Add(values ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.added)
	for _, v := range values {
		if distinct(v) && !slices.Contains(r.fixed, v) && !slices.Contains(r.added, v) {
			r.added = append(r.added, v)
		}
	}
	if len(r.added) == before {
		return
	}
	r.newest += len(r.added) - before
	r.recent = nil
	r.added = slices.Delete(r.added, 0, max(0, len(r.added)-maxAdded))
	r.stale.Store(true)
}

// forms returns the compiled strings, or nil if there are none. The first call
// after Add compiles them, which takes long for many values.
func (r *Redactor) forms() *forms {
	if r.stale.Load() {
		r.mu.Lock()
		if r.stale.Load() {
			r.compile()
		}
		r.mu.Unlock()
	}
	return r.known.Load()
}

// compile makes known complete. The caller holds mu.
func (r *Redactor) compile() {
	r.known.Store(compile(slices.Concat(r.fixed, r.added)))
	r.newest, r.recent = 0, nil
	r.stale.Store(false)
}

// halves returns the strings that are compiled, and those of the values that
// were added since, or nil. It compiles only the latter unless they are many.
func (r *Redactor) halves() (known, recent *forms) {
	if !r.stale.Load() {
		return r.known.Load(), nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !r.stale.Load():
	case r.newest > maxNewest:
		r.compile()
	case r.recent == nil:
		r.recent = compile(r.added[len(r.added)-r.newest:])
	}
	return r.known.Load(), r.recent
}

// lacks reports whether s contains no value, searching for those of known and
// for the newest apart. Values that overlap need one search for all of them,
// but only in a text that contains a value.
func (r *Redactor) lacks(s string) bool {
	for ; r != nil; r = r.below {
		known, recent := r.halves()
		if known.in(s) || recent.in(s) {
			return false
		}
	}
	return true
}

// isStale reports whether values were added for which nothing is compiled.
func (r *Redactor) isStale() bool {
	for ; r != nil; r = r.below {
		if r.stale.Load() {
			return true
		}
	}
	return false
}

// String returns s with secrets replaced by [Marker].
func (r *Redactor) String(s string) string {
	if len(s) < minValue { // every secret is longer
		return s
	}
	if r.isStale() && r.lacks(s) { // compiles less than Stream
		r = nil
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

// Bytes returns a copy of b with secrets replaced by [Marker].
func (r *Redactor) Bytes(b []byte) []byte { return []byte(r.String(string(b))) }

// Stream starts a text that arrives in pieces.
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

// A stage passes a text on without the secrets that it finds. It may hold back
// the end of the text.
type stage interface {
	append(dst, p []byte) []byte
	end(dst []byte) []byte // returns the held-back text and resets the stage
}

// A Stream redacts one text. It must be used by one goroutine only.
type Stream struct {
	stages []stage
	in     []byte // scratch
	out    []byte
}

// Append adds a piece and returns the text that is safe to show now.
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

// End ends the text and returns the rest of it. A sufficiently long prefix of a
// secret at the end counts as a secret.
func (s *Stream) End() string {
	s.in = s.in[:0]
	for _, st := range s.stages {
		s.out = st.end(st.append(s.out[:0], s.in))
		s.in, s.out = s.out, s.in
	}
	return string(s.in)
}
