package proc

import (
	"bytes"
	"os"
	"sync"
	"time"
)

// leadIn is the number of bytes kept before the tail. A secret that begins
// there is still complete when the text is redacted. Without it, a secret cut
// by the start of the tail would not be recognised.
const leadIn = 8 << 10

// lastWords bounds the time for reading the remaining contents of a pipe.
const lastWords = 200 * time.Millisecond

// tail reads a child's standard error to its end and keeps its last bytes.
type tail struct {
	f      *os.File // read by run only
	max    int
	redact func([]byte) []byte
	end    chan struct{} // closed by run at its end

	mu    sync.Mutex
	ring  []byte // grows up to max+leadIn, then the oldest byte is at next
	next  int
	ended bool
}

func newTail(f *os.File, max int, redact func([]byte) []byte) *tail {
	return &tail{f: f, max: max, redact: redact, end: make(chan struct{})}
}

func (t *tail) run() {
	defer close(t.end)
	defer t.f.Close()
	buf := make([]byte, 16<<10)
	for {
		n, err := t.f.Read(buf)
		t.add(buf[:n], err != nil)
		if err != nil {
			return
		}
	}
}

// close ends run, after it had time to read the contents of the pipe. It
// reports whether the other end is still open.
func (t *tail) close() (held bool) {
	timer := time.NewTimer(lastWords)
	defer timer.Stop()
	select {
	case <-t.end:
		return false
	case <-timer.C:
		t.f.Close()
		<-t.end
		return true
	}
}

func (t *tail) add(p []byte, ended bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = ended
	size := t.max + leadIn
	if room := size - len(t.ring); room > 0 {
		n := min(room, len(p))
		t.ring = append(t.ring, p[:n]...)
		p = p[n:]
	}
	for len(p) > 0 {
		n := copy(t.ring[t.next:], p)
		t.next = (t.next + n) % size
		p = p[n:]
	}
}

func (t *tail) text() string {
	t.mu.Lock()
	text := append(append([]byte(nil), t.ring[t.next:]...), t.ring[:t.next]...)
	full, ended := len(t.ring) == t.max+leadIn, t.ended
	t.mu.Unlock()

	if !ended { // an incomplete line may contain a part of a secret
		text = text[:bytes.LastIndexByte(text, '\n')+1]
	}
	text = clean(text) // before redaction, so that removing characters later cannot join the parts of a secret
	if t.redact != nil {
		text = clean(t.redact(text))
	}
	if full {
		text = text[min(leadIn, len(text)):]
	}
	if over := len(text) - t.max; over > 0 {
		text, full = text[over:], true
	}
	if full { // begin with a whole line, or at least a whole rune
		if i := bytes.IndexByte(text, '\n'); i >= 0 && i < len(text)-1 {
			text = text[i+1:]
		}
		text = bytes.ToValidUTF8(text, nil)
	}
	return string(text)
}
