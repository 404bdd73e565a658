package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

func request(credential, key, session, turn string) store.Request {
	return store.Request{
		Credential: credential, Key: key, Digest: [32]byte{1, 31: 255}, Session: session, Turn: turn,
		Answer: json.RawMessage(`{"turnId":  "é"}`), At: at,
	}
}

func putRequests(t *testing.T, c store.Catalogue, rs ...store.Request) {
	t.Helper()
	if err := c.PutRequests(t.Context(), rs...); err != nil {
		t.Fatal(err)
	}
}

// kept returns the keys of the given requests that the catalogue has.
func kept(t *testing.T, c store.Catalogue, rs ...store.Request) (keys []string) {
	t.Helper()
	for _, r := range rs {
		_, err := c.Request(t.Context(), r.Credential, r.Key)
		if err == nil {
			keys = append(keys, r.Credential+"/"+r.Key)
		} else if !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
	}
	return keys
}

func testRequests(t *testing.T, _ runnel.Log, c store.Catalogue) {
	a, b, unanswered := request("ci", "k", "s1", "t1"), request("other", "k", "s2", ""), request("", "t1", "s1", "t1")
	unanswered.Answer = nil
	if got := kept(t, c, a, b, unanswered); got != nil {
		t.Errorf("an empty catalogue has %v", got)
	}
	putRequests(t, c, a, b, unanswered)
	for _, want := range []store.Request{a, b, unanswered} {
		got := must[store.Request](t)(c.Request(t.Context(), want.Credential, want.Key))
		equal(t, "request", got, want)
		equal(t, "answer", string(got.Answer), string(want.Answer))
	}
	a.Digest, a.Turn, a.Answer, a.At = [32]byte{9}, "t9", nil, at.Add(time.Hour)
	putRequests(t, c, a)
	equal(t, "replaced", must[store.Request](t)(c.Request(t.Context(), "ci", "k")), a)
	for range 2 {
		if err := c.DeleteRequest(t.Context(), "ci", "k"); err != nil {
			t.Error(err)
		}
	}
	equal(t, "left", fmt.Sprint(kept(t, c, a, b, unanswered)), "[other/k /t1]")
}

// testRequestsEnd checks how long requests are kept. PruneRequests removes
// those of credentials by age. DeleteSession removes those for turns.
func testRequestsEnd(t *testing.T, _ runnel.Log, c store.Catalogue) {
	put(t, c, full("s1"), full("s2"))
	old, fresh := request("ci", "old", "s1", "t1"), request("ci", "fresh", "s1", "t2")
	oldTurn, created, other := request("", "t1", "s1", "t1"), request("ci", "create", "s1", ""), request("ci", "other", "s2", "t3")
	for _, r := range []*store.Request{&fresh, &created, &other} {
		r.At = at.Add(time.Nanosecond)
	}
	putRequests(t, c, old, fresh, oldTurn, created, other)
	if err := c.PruneRequests(t.Context(), at.Add(time.Nanosecond)); err != nil {
		t.Fatal(err)
	}
	equal(t, "not old", fmt.Sprint(kept(t, c, old, fresh, oldTurn, created, other)), "[ci/fresh /t1 ci/create ci/other]")
	if err := c.DeleteSession(t.Context(), "s1"); err != nil {
		t.Fatal(err)
	}
	// The request that created the session stays: if repeated, it must not
	// create another.
	equal(t, "after the session", fmt.Sprint(kept(t, c, old, fresh, oldTurn, created, other)), "[ci/create ci/other]")
}

func testTurnLocations(t *testing.T, log runnel.Log, c store.Catalogue) {
	put(t, c, full("a"), full("b"), full("c"))
	start := event.ResponseStart{ProviderID: "p"}
	appendAll(t, log, "a", 0, numbered("a", "first", 0, start, event.ResponseDone{Status: event.StatusCompleted})...)
	appendAll(t, log, "a", 2, numbered("a", "copied", 2, start, event.Notice{Level: event.LevelInfo, Code: "c"})...)
	appendAll(t, log, "b", 0, numbered("b", "copied", 0, start)...)
	enqueue(t, c, "a", "waits")
	enqueue(t, c, "b", "copied") // it has begun and is still in the queue
	for turn, want := range map[string]string{
		"first": "[{a false 0}]", "copied": "[{a false 2} {b true 0}]", "waits": "[{a true 0}]", "none": "[]", "": "[]",
	} {
		got := must[[]store.TurnLocation](t)(c.TurnLocations(t.Context(), turn))
		slices.SortFunc(got, func(x, y store.TurnLocation) int { return int(x.Session[0]) - int(y.Session[0]) })
		equal(t, turn, fmt.Sprint(got), want)
	}
	if err := c.DeleteSession(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	equal(t, "of a deleted session", len(must[[]store.TurnLocation](t)(c.TurnLocations(t.Context(), "first"))), 0)
}
