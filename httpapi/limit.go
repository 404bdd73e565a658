package httpapi

import (
	"sync"
	"time"
)

// A Limits bounds what one credential may take of the server, so that a client
// gone wrong does not take it from the others.
type Limits struct {
	Sessions    int   // made within a minute. Default: 600
	UploadBytes int64 // sent within a day. Default: 1 GiB
	Exports     int   // written at a time. Default: 2
}

func (l *Limits) complete() {
	if l.Sessions == 0 {
		l.Sessions = 600
	}
	if l.UploadBytes == 0 {
		l.UploadBytes = 1 << 30
	}
	if l.Exports == 0 {
		l.Exports = 2
	}
}

// A budget is what each of several may spend within a time. The zero value is
// ready to use.
type budget struct {
	mu    sync.Mutex
	spent map[string]*spending
}

type spending struct {
	since time.Time
	n     int64
}

// spend takes n from what id has left of most, if there is that much.
func (b *budget) spend(id string, n, most int64, within time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for other, s := range b.spent {
		if now.Sub(s.since) >= within {
			delete(b.spent, other)
		}
	}
	s := b.spent[id]
	if s == nil {
		if b.spent == nil {
			b.spent = make(map[string]*spending)
		}
		s = &spending{since: now}
		b.spent[id] = s
	}
	if n > most-s.n {
		return false
	}
	s.n += n
	return true
}

// refund gives back what was not needed.
func (b *budget) refund(id string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.spent[id]; s != nil {
		s.n = max(0, s.n-n)
	}
}
