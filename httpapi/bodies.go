package httpapi

import (
	"io"
	"net/http"
	"sync"

	"github.com/runnel-dev/runnel/httpapi/reply"
)

// arrivingStep is the unit, in bytes, in which a body without a declared length
// is counted as it arrives.
const arrivingStep = 16 << 10

// arriving counts the bytes of bodies and WebSocket messages that are arriving,
// by credential.
type arriving struct {
	most   int64 // bytes of one credential. A client that sends each body without delay does not reach it
	refuse func(setting string, limit int64, what string) error

	mu    sync.Mutex
	bytes map[string]int64
}

// take counts the body of r until it has arrived or done is called. A body with
// a declared length counts as that length, and any other as the bytes that have
// arrived, but never as more than [reply.MaxBody]. If too many bytes of the
// credential are arriving, take fails with RATE_LIMITED, or a later read of the
// body does.
func (a *arriving) take(r *http.Request, id string) (done func(), err error) {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return func() {}, nil
	}
	c := &counted{ReadCloser: r.Body, all: a, id: id, max: reply.MaxBody} // a longer body is an upload: it is written to the disk, so no more of it is in memory
	first := int64(arrivingStep)
	if r.ContentLength > 0 {
		c.max = min(c.max, r.ContentLength)
		first = c.max
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := c.count(first); err != nil {
		return nil, err
	}
	r.Body = c
	return c.done, nil
}

// message returns a reader of a WebSocket message from r that counts the bytes
// that have arrived, until the end of the message or until done is called. A
// read fails with RATE_LIMITED if too many bytes of the credential are
// arriving.
func (a *arriving) message(id string, r io.Reader) (message io.Reader, done func()) {
	c := &counted{ReadCloser: io.NopCloser(inSteps{r}), all: a, id: id, max: reply.MaxBody}
	return c, c.done
}

// inSteps reads at most arrivingStep bytes at a time. The library of the
// WebSocket fills the whole buffer before it returns from a read.
type inSteps struct{ io.Reader }

func (r inSteps) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(len(p), arrivingStep)]) }

// counted is a body that is counted until its end.
type counted struct {
	io.ReadCloser
	all *arriving
	id  string // of the credential
	max int64  // the most bytes that it counts as

	// Guarded by all.mu.
	read  int64 // bytes that have arrived
	held  int64 // bytes that it counts as at present
	ended bool
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if err != nil {
		c.done()
		return n, err
	}
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	c.read += int64(n)
	if c.ended || c.read <= c.held {
		return n, nil
	}
	return n, c.count((c.read + arrivingStep - 1) / arrivingStep * arrivingStep)
}

// count makes the body count as n bytes, at most c.max. It fails with
// RATE_LIMITED if its credential would exceed the limit. The caller holds
// c.all.mu.
func (c *counted) count(n int64) error {
	more := min(n, c.max) - c.held
	if c.all.bytes[c.id]+more > c.all.most {
		return c.all.refuse("max-arriving-mib-per-credential", c.all.most>>20,
			"too many requests of this credential have bodies that have not arrived yet; send them one after the other")
	}
	if c.all.bytes == nil {
		c.all.bytes = make(map[string]int64)
	}
	c.all.bytes[c.id] += more
	c.held += more
	return nil
}

// done stops counting the body.
func (c *counted) done() {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	if c.ended {
		return
	}
	c.ended = true
	if c.all.bytes[c.id] -= c.held; c.all.bytes[c.id] <= 0 {
		delete(c.all.bytes, c.id)
	}
}
