package stream

import (
	"container/list"
	"sync"
)

// largeMessage is the size in bytes from which a message counts while it is
// being written: smaller ones are what any subscription may hold.
const largeMessage = 64 << 10

// unread bounds the memory of large messages and of large parts of answers that
// clients do not read. When there
// are too many bytes, the connection that has been writing for longest is cut:
// one whose client reads is hardly ever that.
type unread struct {
	limit   int64
	reached func()

	mu      sync.Mutex
	bytes   int64
	writing list.List // of *write, the oldest first
}

type write struct {
	bytes int64
	cut   func()
}

// begin counts a message of n bytes in. The caller calls end once it is
// written. cut is called if the connection has to go; it must not block.
func (u *unread) begin(n int, cut func()) (end func()) {
	if n < largeMessage {
		return func() {}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	w := &write{int64(n), cut}
	at := u.writing.PushBack(w)
	u.bytes += w.bytes
	left := u.bytes // once those that were cut have gone
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
