package stream

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/runnel-dev/runnel/event"
)

// encoded has the JSON of the newest events, so that an event with several
// readers is encoded once. SSE and the WebSocket family events-v1 have the same
// JSON of an event.
type encoded struct {
	shards [encodedShards]encodedShard
}

// Bounds of encoded: 2 MiB in all.
const (
	encodedShards = 16
	encodedEvents = 64      // in each shard
	encodedBytes  = 2 << 10 // of an event; larger ones are encoded for each reader
)

type encodedShard struct {
	mu     sync.Mutex
	events [encodedEvents]encodedEvent
}

// An encodedEvent is the JSON of the event with these fields. The time
// distinguishes a session from one with the same id that was deleted.
type encodedEvent struct {
	session string
	seq     int64
	at      time.Time
	json    []byte
}

var encodedSeed = maphash.MakeSeed()

// append appends the JSON of ev to b.
func (e *encoded) append(b []byte, ev event.Event) ([]byte, error) {
	s := &e.shards[maphash.String(encodedSeed, ev.Session)%encodedShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := &s.events[ev.Seq%encodedEvents]
	if slot.seq == ev.Seq && slot.session == ev.Session && slot.at.Equal(ev.At) {
		return append(b, slot.json...), nil
	}
	start := len(b)
	b, err := ev.AppendJSON(b)
	if n := len(b) - start; err == nil && n <= encodedBytes {
		slot.session, slot.seq, slot.at = ev.Session, ev.Seq, ev.At
		slot.json = append(slot.json[:0], b[start:]...)
	}
	return b, err
}
