package stream

import (
	"container/list"
	"sync"
)

// largeMessage is the size in bytes from which a message counts as unread while
// it is being written. Smaller ones do not count, because every subscription
// may hold one.
const largeMessage = 24 << 10

// unread bounds the memory of large messages, and of large parts of answers,
// that clients do not read. If there are too many bytes, it cuts the connection
// that has been writing for longest, whose client most likely does not read.
type unread struct {
	limit   int64
	reached func()

	mu      sync.Mutex
	bytes   int64
	writing list.List // of *write, oldest first
}

type write struct {
	bytes int64
	cut   func()
}

// begin counts a message of n bytes as unread until the caller calls end. It
// does not count small messages. If too many bytes are unread, begin calls the
// cut functions of the oldest writes. A cut function must not block.
func (u *unread) begin(n int, cut func()) (end func()) {
	if n < largeMessage {
		return func() {}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	w := &write{int64(n), cut}
	at := u.writing.PushBack(w)
	u.bytes += w.bytes
	left := u.bytes // bytes that remain without the writes that were cut
	for e := u.writing.Front(); e != at && left > u.limit; e = e.Next() {
		old, _ := e.Value.(*write)
		left -= old.bytes
		if old.cut != nil {
			old.cut()
			old.cut = nil
			u.reached()
		}
	}
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.bytes -= w.bytes
		u.writing.Remove(at)
	}
}
