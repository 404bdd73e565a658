package httpapi

import (
	"io"
	"net/http"
	"sync"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/httpapi/reply"
)

// maxArriving bounds what the bodies of one credential's requests may take of
// memory while they arrive, in bytes. A client that sends its bodies at once
// does not reach it.
const maxArriving = 64 << 20

// arrivingStep is the unit in which the bytes of a body without a declared
// length are counted as they arrive.
const arrivingStep = 16 << 10

// arriving counts the bodies that arrive, by credential. The zero value is
// ready to use.
type arriving struct {
	mu    sync.Mutex
	bytes map[string]int64
}

// take counts the body of r in, until the body has arrived or done is called. A
// body counts as its declared length, or as what has arrived of it if it
// declares none. take, or reading the body, fails with RATE_LIMITED if too much
// of the credential arrives already.
func (a *arriving) take(r *http.Request, id string) (done func(), err error) {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return func() {}, nil
	}
	c := &counted{ReadCloser: r.Body, all: a, id: id, max: reply.MaxBody} // of a longer one, which is on its way to the disk, no more is in memory
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

// counted is a body that is counted until its end.
type counted struct {
	io.ReadCloser
	all *arriving
	id  string // of the credential
	max int64  // that it may count as

	// Guarded by all.mu.
	read  int64 // bytes that have arrived
	held  int64 // bytes that it counts as
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

// count has the body count as n bytes, at most c.max. The caller holds
// c.all.mu.
func (c *counted) count(n int64) error {
	more := min(n, c.max) - c.held
	if c.all.bytes[c.id]+more > maxArriving {
		return runnel.Fail(runnel.RateLimited, "too many requests of this credential have bodies that have not arrived yet; send them one after the other")
	}
	if c.all.bytes == nil {
		c.all.bytes = make(map[string]int64)
	}
	c.all.bytes[c.id] += more
	c.held += more
	return nil
}

// done ends the counting.
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
