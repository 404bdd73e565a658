package storetest

import (
	"errors"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// testCheckpoints tests a log that is a [store.Checkpointer].
func testCheckpoints(t *testing.T, log runnel.Log) {
	cache, ok := log.(store.Checkpointer)
	if !ok {
		t.Skip("this log has no checkpoints")
	}
	end := event.ResponseDone{Status: event.StatusCompleted}
	evs := []event.Event{
		{Turn: "a", Body: event.ResponseStart{ProviderID: "p"}}, // 1
		{Turn: "a", Body: end},
		{Body: event.Notice{Level: event.LevelInfo, Code: "C"}}, // 3: between turns
		{Turn: "b", Body: event.ResponseStart{ProviderID: "p"}},
		{Turn: "c", Body: event.ResponseStart{ProviderID: "p"}}, // 5: within b
		{Turn: "b", Body: end},
		{Turn: "c", Body: end}, // 7
		{Turn: "d", Body: end}, // 8: a turn of one event
		{Turn: "e", Body: event.ResponseStart{ProviderID: "p"}},
		{Turn: "f", Body: end}, // 10: within e, which stays open
	}
	for i := range evs {
		evs[i].Session, evs[i].Seq = "s", int64(i)+1
	}
	appendAll(t, log, "s", 0, evs...)
	cuts := []int64{0, 0, 2, 2, 2, 2, 2, 7, 8, 8, 8, 8}
	for at, want := range cuts {
		cut, err := cache.Cut(t.Context(), "s", int64(at))
		if err != nil || cut != want {
			t.Errorf("the cut at %d is %d, %v; want %d", at, cut, err, want)
		}
		c, err := cache.Checkpoint(t.Context(), "s", int64(at))
		if err != nil || c.Seq != want || len(c.Events) > 0 {
			t.Errorf("the checkpoint at %d is %+v, %v; want %d", at, c, err, want)
		}
	}
	if c, err := cache.Checkpoint(t.Context(), "unknown", 5); err != nil || c.Seq != 0 {
		t.Errorf("an unknown session has %+v, %v", c, err)
	}

	put := func(session string, seq int64, evs ...event.Event) error {
		return cache.PutCheckpoint(t.Context(), session, store.Checkpoint{Seq: seq, Events: evs})
	}
	for _, c := range []store.Checkpoint{{Seq: 5, Events: evs[3:5]}, {Seq: 9, Events: evs[8:9]}, {Seq: 5, Events: evs[4:5]}} {
		if err := put("s", c.Seq, c.Events...); err != nil {
			t.Fatal(err)
		}
	}
	for at, want := range map[int64]store.Checkpoint{
		4: {Seq: 2}, 5: {Seq: 5, Events: evs[4:5]}, 6: {Seq: 5, Events: evs[4:5]}, 7: {Seq: 7}, 8: {Seq: 8},
		9: {Seq: 9, Events: evs[8:9]}, 100: {Seq: 9, Events: evs[8:9]},
	} {
		c, err := cache.Checkpoint(t.Context(), "s", at)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "checkpoint", c, want)
	}
	// A log may reject a checkpoint beyond its end, but must not return it.
	for session, seq := range map[string]int64{"s": 11, "unknown": 1} {
		if err := put(session, seq); err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a checkpoint beyond the end: %v", err)
		}
	}
	if c, err := cache.Checkpoint(t.Context(), "s", 100); err != nil || c.Seq != 9 {
		t.Errorf("a checkpoint beyond the end is %+v, %v", c, err)
	}
}

func testHeads(t *testing.T, log runnel.Log) {
	lister, ok := log.(store.HeadLister)
	if !ok {
		t.Skip("this log does not list its heads")
	}
	appendAll(t, log, "a", 0, deltas("a", 0, 3)...)
	appendAll(t, log, "b", 0, deltas("b", 0, 1)...)
	appendAll(t, log, "a", 3, deltas("a", 3, 2)...)
	_ = state(t, log, "empty")
	heads, err := lister.Heads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "heads", heads, map[string]int64{"a": 5, "b": 1})
}
