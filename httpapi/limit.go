package httpapi

import (
	"cmp"
	"sync"
	"time"

	"github.com/runnel-dev/runnel/httpapi/stream"
)

// Limits limits the resources that clients may use, so that a faulty client
// cannot take them from the others. A zero field has its default.
type Limits struct {
	Sessions     int   // new sessions of one credential in a minute. Default: 600
	UploadBytes  int64 // bytes that one credential uploads in a day. Default: 1 GiB
	Exports      int   // exports of one credential at a time. Default: 2
	FileRequests int   // requests of one credential for files and directories in a minute. Default: 1,200

	Streams                    int // open streams of all credentials. Default: 20,000
	StreamsPerCredential       int // open streams of one credential. Default: 256
	Subscriptions              int // subscriptions of all WebSockets. Default: 20,000
	SubscriptionsPerCredential int // subscriptions of all WebSockets of one credential. Default: 2,048
	SubscriptionsPerConnection int // subscriptions of one WebSocket. Default: 256
	Fragments                  int // small frames that complete no message, from one WebSocket in a second. Default: 1,000

	UnreadBytes   int64 // bytes of large messages and answers that clients have not read yet, in all. Default: 64 MiB
	ArrivingBytes int64 // bytes of the bodies of one credential's requests that have not arrived completely. Default: 64 MiB

	UnauthenticatedRequests int // running POST requests without a credential on one connection. Default: 16
}

func (l *Limits) complete() {
	l.Sessions = cmp.Or(l.Sessions, 600)
	l.UploadBytes = cmp.Or(l.UploadBytes, 1<<30)
	l.Exports = cmp.Or(l.Exports, 2)
	l.FileRequests = cmp.Or(l.FileRequests, 1200)
	l.Streams = cmp.Or(l.Streams, 20_000)
	l.StreamsPerCredential = cmp.Or(l.StreamsPerCredential, 256)
	l.Subscriptions = cmp.Or(l.Subscriptions, 20_000)
	l.SubscriptionsPerCredential = cmp.Or(l.SubscriptionsPerCredential, 2048)
	l.SubscriptionsPerConnection = cmp.Or(l.SubscriptionsPerConnection, 256)
	l.Fragments = cmp.Or(l.Fragments, 1000)
	l.UnreadBytes = cmp.Or(l.UnreadBytes, 64<<20)
	l.ArrivingBytes = cmp.Or(l.ArrivingBytes, 64<<20)
	l.UnauthenticatedRequests = cmp.Or(l.UnauthenticatedRequests, 16)
}

func (l *Limits) ofStreams() stream.Limits {
	return stream.Limits{
		Exports: l.Exports, Streams: l.Streams, StreamsPerCredential: l.StreamsPerCredential,
		Subscriptions: l.Subscriptions, SubscriptionsPerCredential: l.SubscriptionsPerCredential, SubscriptionsPerConnection: l.SubscriptionsPerConnection,
		Fragments: l.Fragments, UnreadBytes: l.UnreadBytes,
	}
}

// A budget limits what each id may spend in a period. The zero value is ready
// to use.
type budget struct {
	mu    sync.Mutex
	spent map[string]*spending
}

type spending struct {
	since time.Time
	n     int64
}

// spend reports whether id may spend n more without exceeding most in its
// period, and counts n if so. A period lasts for within. It begins with the
// first spend after the previous period.
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

// refund reduces what id has spent in the current period by n. It is for a
// caller that has spent more than it needed.
func (b *budget) refund(id string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.spent[id]; s != nil {
		s.n = max(0, s.n-n)
	}
}
