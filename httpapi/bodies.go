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

// arriving counts the bodies that arrive, by credential. The zero value is
// ready to use.
type arriving struct {
	mu    sync.Mutex
	bytes map[string]int64
}

// take counts the body of r in, until the body has arrived or done is called.
// It fails with RATE_LIMITED if too much of the credential arrives already.
func (a *arriving) take(r *http.Request, id string) (done func(), err error) {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return func() {}, nil
	}
	n := int64(reply.MaxBody) // of a longer one, which is on its way to the disk, no more is in memory
	if r.ContentLength > 0 {
		n = min(n, r.ContentLength)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.bytes[id]+n > maxArriving {
		return nil, runnel.Fail(runnel.RateLimited, "too many requests of this credential have bodies that have not arrived yet; send them one after the other")
	}
	if a.bytes == nil {
		a.bytes = make(map[string]int64)
	}
	a.bytes[id] += n
	done = sync.OnceFunc(func() { a.give(id, n) })
	r.Body = &counted{r.Body, done}
	return done, nil
}

func (a *arriving) give(id string, n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.bytes[id] -= n; a.bytes[id] <= 0 {
		delete(a.bytes, id)
	}
}

// counted is a body that is counted until its end.
type counted struct {
	io.ReadCloser
	done func()
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if err != nil {
		c.done()
	}
	return n, err
}
