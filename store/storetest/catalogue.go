package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// RunCatalogue tests a catalogue. Each call of open returns an empty catalogue
// and the log of its sessions.
func RunCatalogue(t *testing.T, open func(t *testing.T) (runnel.Log, store.Catalogue)) {
	tests := []struct {
		name string
		run  func(*testing.T, runnel.Log, store.Catalogue)
	}{
		{"Session", testSession},
		{"SessionsByAgent", testSessionsByAgent},
		{"Sessions", testSessions},
		{"DeleteSession", testDeleteSession},
		{"Unfinished", testUnfinished},
		{"Trim", testTrim},
		{"Report", testReport},
		{"Queue", testQueue},
		{"QueueOrder", testQueueOrder},
		{"Requeue", testRequeue},
		{"Tokens", testTokens},
		{"Rules", testRules},
		{"Push", testPush},
		{"Requests", testRequests},
		{"RequestsEnd", testRequestsEnd},
		{"TurnLocations", testTurnLocations},
		{"Usage", testUsage},
		{"UsageOfCopies", testUsageOfCopies},
		{"UsageIsBounded", testUsageIsBounded},
		{"Hostile", testHostile},
		{"Concurrent", testConcurrentRecords},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			log, c := open(t)
			tt.run(t, log, c)
		})
	}
}

// full returns a record with a value in every field.
func full(id string) store.Session {
	return store.Session{
		ID: id, CLIType: "claude-code", ProjectID: "p", ProjectDir: "/p", Title: "A \"title\" 日本", AgentSessionID: "agent-" + id,
		ModelID: "opus", PermissionMode: "plan", Options: json.RawMessage(`{"model": "opus",  "n": 1e400}`), State: event.StateOpen,
		LastTurn: event.StatusCancelled, LastLine: "said\nthis", CreatedAt: at, LastActiveAt: at.Add(time.Nanosecond),
		BootedAt: at.Add(time.Second), BootFingerprint: "00ff", SeenSeq: 1 << 40, QueueHeld: true,
	}
}

func ids(list []store.Session) string {
	var out []string
	for _, s := range list {
		out = append(out, s.ID)
	}
	return strings.Join(out, " ")
}

func put(t *testing.T, c store.Catalogue, list ...store.Session) {
	t.Helper()
	for _, s := range list {
		if err := c.PutSession(t.Context(), s); err != nil {
			t.Fatalf("PutSession(%s): %v", s.ID, err)
		}
	}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func testSession(t *testing.T, _ runnel.Log, c store.Catalogue) {
	if _, err := c.Session(t.Context(), "a"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Session of an unknown id: %v, want ErrNotFound", err)
	}
	// The catalogue returns the record unchanged, with its options byte for
	// byte.
	empty, whole := store.Session{ID: "empty"}, full("a")
	put(t, c, empty, whole)
	equal(t, "whole", must[store.Session](t)(c.Session(t.Context(), "a")), whole)
	equal(t, "options", string(must[store.Session](t)(c.Session(t.Context(), "a")).Options), string(whole.Options))
	equal(t, "empty", must[store.Session](t)(c.Session(t.Context(), "empty")), empty)
	whole.Title, whole.Options, whole.LastActiveAt, whole.QueueHeld = "", nil, at.Add(time.Hour), false
	put(t, c, whole)
	equal(t, "replaced", must[store.Session](t)(c.Session(t.Context(), "a")), whole)
	equal(t, "all", ids(must[[]store.Session](t)(c.Sessions(t.Context(), store.SessionFilter{Dead: true}))), "a empty")
}

func testReport(t *testing.T, _ runnel.Log, c store.Catalogue) {
	if _, err := c.Report(t.Context(), "a"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Report of an unknown session: %v, want ErrNotFound", err)
	}
	put(t, c, full("a"), full("b"))
	for _, r := range []store.Report{
		{Config: json.RawMessage(`[{"id": "mode",  "value": "plan"}]`), Files: json.RawMessage(`[{"path":"/p/日本.md","kind":"plan"}]`), Commands: json.RawMessage(`[{"name": "compact"}]`)},
		{Config: json.RawMessage(`[]`)},
		{},
	} {
		if err := c.PutReport(t.Context(), "a", r); err != nil {
			t.Fatal(err)
		}
		equal(t, "report", must[store.Report](t)(c.Report(t.Context(), "a")), r)
	}
	equal(t, "record after PutReport", must[store.Session](t)(c.Session(t.Context(), "a")), full("a"))
	put(t, c, full("a"))
	equal(t, "report after PutSession", must[store.Report](t)(c.Report(t.Context(), "a")), store.Report{})
	if err := c.DeleteSession(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b"} {
		if _, err := c.Report(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Report of %s: %v, want ErrNotFound", id, err)
		}
	}
}

func testSessionsByAgent(t *testing.T, _ runnel.Log, c store.Catalogue) {
	old, young, other := full("old"), full("young"), full("other")
	old.AgentSessionID, young.AgentSessionID, other.AgentSessionID = "x", "x", "x"
	young.CreatedAt, other.CLIType = at.Add(time.Second), "codex"
	old.LastActiveAt, old.State = at.Add(time.Hour), event.StateDead
	second := full("second")
	second.AgentSessionID, second.CreatedAt = "y", at.Add(2*time.Second)
	put(t, c, young, old, other, second, store.Session{ID: "none", CLIType: "claude-code"})
	for _, tt := range []struct{ cli, agent, want string }{
		{"claude-code", "x", "young old"}, {"codex", "x", "other"}, {"claude-code", "X", ""}, {"gemini", "x", ""}, {"claude-code", ",", ""},
		{"claude-code", "x,y,,z", "second young old"}, {"claude-code", "y,y", "second"}, {"codex", "y", ""},
	} {
		var ids []string
		for _, s := range must[[]store.Session](t)(c.SessionsByAgent(t.Context(), tt.cli, strings.Split(tt.agent, ",")...)) {
			ids = append(ids, s.ID)
		}
		equal(t, tt.cli+" "+tt.agent, strings.Join(ids, " "), tt.want)
	}
	equal(t, "without an id", len(must[[]store.Session](t)(c.SessionsByAgent(t.Context(), "claude-code"))), 0)
}

func testSessions(t *testing.T, _ runnel.Log, c store.Catalogue) {
	equal(t, "none", len(must[[]store.Session](t)(c.Sessions(t.Context(), store.SessionFilter{}))), 0)
	for i, s := range []struct {
		id, project, dir string
		state            event.SessionState
		active           time.Duration
	}{
		{"a", "p1", "/1", event.StateOpen, 3}, {"b", "p1", "/1", event.StateDead, 5}, {"c", "p2", "/2", event.StateLoading, 1},
		{"d", "p1", "/1", event.StateOpen, 4}, {"e", "p2", "/2", event.StateDead, 2}, {"f", "p2", "/2", "", 1},
	} {
		r := full(s.id)
		r.ProjectID, r.ProjectDir, r.State, r.LastActiveAt = s.project, s.dir, s.state, at.Add(s.active)
		r.CreatedAt = at.Add(time.Duration(-i))
		put(t, c, r)
	}
	for _, tt := range []struct {
		f    store.SessionFilter
		want string
	}{
		{store.SessionFilter{}, "d a c f"},
		{store.SessionFilter{Dead: true}, "b d a e c f"},
		{store.SessionFilter{ProjectID: "p1"}, "d a"},
		{store.SessionFilter{ProjectID: "p1", Dead: true}, "b d a"},
		{store.SessionFilter{ProjectDir: "/2"}, "c f"},
		{store.SessionFilter{ProjectID: "p1", ProjectDir: "/2"}, ""},
		{store.SessionFilter{Limit: 1}, "d"},
		{store.SessionFilter{ProjectDir: "/2", Dead: true, Limit: 2}, "e c"},
		{store.SessionFilter{Limit: 100}, "d a c f"},
		{store.SessionFilter{State: event.StateLoading}, "c"},
		{store.SessionFilter{State: event.StateDead, Dead: true}, "b e"},
	} {
		equal(t, fmt.Sprintf("%+v", tt.f), ids(must[[]store.Session](t)(c.Sessions(t.Context(), tt.f))), tt.want)
	}
}

func testDeleteSession(t *testing.T, _ runnel.Log, c store.Catalogue) {
	put(t, c, full("a"), full("b"))
	for _, s := range []string{"a", "b"} {
		enqueue(t, c, s, "t1")
	}
	if err := c.DeleteSession(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	equal(t, "left", ids(must[[]store.Session](t)(c.Sessions(t.Context(), store.SessionFilter{Dead: true}))), "b")
	equal(t, "queue", queued(t, c, ""), "b/t1")
	if err := c.DeleteSession(t.Context(), "a"); err != nil {
		t.Errorf("deleting again: %v", err)
	}
}

func testUnfinished(t *testing.T, log runnel.Log, c store.Catalogue) {
	for i, turns := range [][]string{{}, {"begun"}, {"begun", "over"}, {"begun", "over", "begun"}} {
		session := fmt.Sprint("s", i)
		put(t, c, full(session))
		for j, what := range turns {
			b := event.Body(event.ResponseStart{ProviderID: "p"})
			if what == "over" {
				b = event.ResponseDone{Status: event.StatusCompleted}
			}
			appendAll(t, log, session, int64(j), numbered(session, fmt.Sprint("t", j/2), int64(j), b)...)
		}
	}
	got := must[[]string](t)(c.Unfinished(t.Context()))
	slices.Sort(got)
	equal(t, "unfinished", got, []string{"s1", "s3"})
}

func testTrim(t *testing.T, _ runnel.Log, c store.Catalogue) {
	long := full("a")
	long.Options = json.RawMessage(`{"long": true}`)
	empty := full("b")
	empty.Options = nil
	put(t, c, long, empty)
	trim := func(options json.RawMessage) json.RawMessage { return append(json.RawMessage("trimmed "), options...) }
	got := make(map[string]string)
	for _, s := range must[[]store.Session](t)(c.Sessions(t.Context(), store.SessionFilter{Dead: true, Trim: trim})) {
		got[s.ID] = string(s.Options)
	}
	equal(t, "trimmed", got, map[string]string{"a": `trimmed {"long": true}`, "b": "trimmed "})
	equal(t, "the record", string(must[store.Session](t)(c.Session(t.Context(), "a")).Options), `{"long": true}`)
}

func enqueue(t *testing.T, c store.Catalogue, session, turn string) {
	t.Helper()
	if err := c.Enqueue(t.Context(), store.Queued{Session: session, Turn: turn, Input: json.RawMessage(`{"text": "x"}`), At: at}); err != nil {
		t.Fatalf("Enqueue(%s, %s): %v", session, turn, err)
	}
}

func queued(t *testing.T, c store.Catalogue, session string) string {
	t.Helper()
	var out []string
	for _, q := range must[[]store.Queued](t)(c.Queue(t.Context(), session)) {
		if q.Input != nil {
			t.Errorf("the list contains the input of %s/%s: %s", q.Session, q.Turn, q.Input)
		}
		if input := must[json.RawMessage](t)(c.QueuedInput(t.Context(), q.Session, q.Turn)); string(input) != `{"text": "x"}` || !q.At.Equal(at) {
			t.Errorf("%s/%s came back as %s at %v", q.Session, q.Turn, input, q.At)
		}
		out = append(out, q.Session+"/"+q.Turn)
	}
	return strings.Join(out, " ")
}

func testQueue(t *testing.T, _ runnel.Log, c store.Catalogue) {
	for _, q := range []string{"a/3", "b/1", "a/1", "b/2", "a/2"} {
		session, turn, _ := strings.Cut(q, "/")
		enqueue(t, c, session, turn)
	}
	equal(t, "all", queued(t, c, ""), "a/3 b/1 a/1 b/2 a/2")
	equal(t, "one session", queued(t, c, "a"), "a/3 a/1 a/2")
	equal(t, "no session", queued(t, c, "c"), "")
	for _, turn := range []string{"1", "none", "1"} {
		if err := c.Dequeue(t.Context(), "a", turn); err != nil {
			t.Errorf("Dequeue(a, %s): %v", turn, err)
		}
	}
	equal(t, "the rest", queued(t, c, ""), "a/3 b/1 b/2 a/2")
	for _, q := range []store.Queued{{Session: "a", Turn: "1"}, {Session: "b", Turn: "3"}, {Session: "c", Turn: "1"}} {
		if input, err := c.QueuedInput(t.Context(), q.Session, q.Turn); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s/%s is not queued: got %s, %v", q.Session, q.Turn, input, err)
		}
	}
	enqueue(t, c, "a", "4") // after the queued prompts, even after others were removed
	equal(t, "one more", queued(t, c, "a"), "a/3 a/2 a/4")
}

func testQueueOrder(t *testing.T, _ runnel.Log, c store.Catalogue) {
	for _, q := range []string{"a/1", "b/1", "a/2", "a/3", "b/2", "a/4"} {
		session, turn, _ := strings.Cut(q, "/")
		enqueue(t, c, session, turn)
	}
	for _, tt := range []struct{ order, want string }{
		{"4 2", "a/4 a/2 a/1 a/3"},
		{"", "a/4 a/2 a/1 a/3"},
		{"3 none 3 1", "a/3 a/1 a/4 a/2"}, // unknown and repeated turns are ignored
		{"1 2 3 4", "a/1 a/2 a/3 a/4"},
		{"2", "a/2 a/1 a/3 a/4"},
	} {
		if err := c.OrderQueue(t.Context(), "a", strings.Fields(tt.order)); err != nil {
			t.Fatal(err)
		}
		equal(t, "order after "+tt.order, queued(t, c, "a"), tt.want)
		equal(t, "the other session", queued(t, c, "b"), "b/1 b/2")
	}
	if err := c.OrderQueue(t.Context(), "none", []string{"1"}); err != nil {
		t.Errorf("order of an empty queue: %v", err)
	}
	if err := c.Dequeue(t.Context(), "a", "2"); err != nil {
		t.Fatal(err)
	}
	enqueue(t, c, "a", "5")
	equal(t, "one more", queued(t, c, "a"), "a/1 a/3 a/4 a/5")
}

func testRequeue(t *testing.T, _ runnel.Log, c store.Catalogue) {
	first := store.Queued{Session: "a", Turn: "1", Input: json.RawMessage(`{"text": "x"}`), About: json.RawMessage(`{"text":"x"}`), At: at}
	for _, q := range []store.Queued{first, {Session: "a", Turn: "2", Input: json.RawMessage(`{}`), At: at}} {
		if err := c.Enqueue(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	first.Input, first.About = json.RawMessage(`{"text": "y"}`), json.RawMessage(`{"text":"y"}`)
	changed := first
	changed.At = at.Add(time.Hour) // has no effect
	if err := c.Requeue(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	equal(t, "input", string(must[json.RawMessage](t)(c.QueuedInput(t.Context(), "a", "1"))), `{"text": "y"}`)
	first.Input = nil
	equal(t, "queue", must[[]store.Queued](t)(c.Queue(t.Context(), "a")), []store.Queued{first, {Session: "a", Turn: "2", At: at}})
	for _, q := range []store.Queued{{Session: "a", Turn: "3"}, {Session: "b", Turn: "1"}} {
		if err := c.Requeue(t.Context(), q); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s/%s is not queued: %v, want ErrNotFound", q.Session, q.Turn, err)
		}
	}
	equal(t, "one session", len(must[[]store.Queued](t)(c.Queue(t.Context(), ""))), 2)
}

func testTokens(t *testing.T, _ runnel.Log, c store.Catalogue) {
	tokens := []store.Token{
		{ID: "1", Kind: store.TokenAPI, Name: "ci", Hash: [32]byte{1, 31: 255}, Scopes: []string{"read", "send"}, Project: "/p", Parent: "2", CreatedAt: at.Add(2), LastUsedAt: at, ExpiresAt: at},
		{ID: "2", Kind: store.TokenAPI, Hash: [32]byte{2}, CreatedAt: at.Add(1)},
		{ID: "3", Kind: store.TokenLogin, Hash: [32]byte{}, Scopes: []string{}, CreatedAt: at},
	}
	for _, tok := range tokens {
		if err := c.PutToken(t.Context(), tok); err != nil {
			t.Fatal(err)
		}
	}
	for _, tok := range tokens {
		equal(t, "token "+tok.ID, must[store.Token](t)(c.TokenByHash(t.Context(), tok.Hash)), tok)
	}
	equal(t, "oldest first", must[[]store.Token](t)(c.Tokens(t.Context(), store.TokenAPI)), []store.Token{tokens[1], tokens[0]})
	equal(t, "tokens of an unused kind", len(must[[]store.Token](t)(c.Tokens(t.Context(), store.TokenBrowser))), 0)

	changed := tokens[0]
	changed.Hash, changed.LastUsedAt = [32]byte{9}, at.Add(time.Hour)
	if err := c.PutToken(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	if _, err := c.TokenByHash(t.Context(), tokens[0].Hash); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the old hash still finds the token: %v", err)
	}
	equal(t, "changed", must[store.Token](t)(c.TokenByHash(t.Context(), changed.Hash)), changed)
	if err := c.DeleteToken(t.Context(), "1"); err != nil {
		t.Error(err)
	}
	if _, err := c.TokenByHash(t.Context(), changed.Hash); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the hash of a deleted token still finds it: %v", err)
	}
	if err := c.DeleteToken(t.Context(), "1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("deleting again: %v, want ErrNotFound", err)
	}
	// Deleting a token deletes the tokens that it made, directly or indirectly.
	for _, tok := range []store.Token{
		{ID: "4", Kind: store.TokenBrowser, Hash: [32]byte{4}, Parent: "2"}, {ID: "5", Kind: store.TokenAPI, Hash: [32]byte{5}, Parent: "4"},
		{ID: "6", Kind: store.TokenAPI, Hash: [32]byte{6}, Parent: "3"},
	} {
		if err := c.PutToken(t.Context(), tok); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.DeleteToken(t.Context(), "2"); err != nil {
		t.Error(err)
	}
	for id, want := range map[byte]error{2: store.ErrNotFound, 4: store.ErrNotFound, 5: store.ErrNotFound, 6: nil, 0: nil} {
		if _, err := c.TokenByHash(t.Context(), [32]byte{id}); !errors.Is(err, want) {
			t.Errorf("token with hash %d: %v, want %v", id, err, want)
		}
	}
}

// testHostile uses ids and texts that have a meaning in SQL, in patterns or in
// file formats.
func testHostile(t *testing.T, _ runnel.Log, c store.Catalogue) {
	for _, text := range []string{"'; DROP TABLE sessions; --", "%", "_", "\x00", "a\x00b", "?1", `"`, strings.Repeat("x", 1<<16), "é", "e\u0301"} {
		s := full(text)
		s.Title, s.AgentSessionID, s.ProjectDir = text, text, text
		put(t, c, s)
		equal(t, text, must[store.Session](t)(c.Session(t.Context(), text)), s)
		equal(t, text, must[[]store.Session](t)(c.SessionsByAgent(t.Context(), s.CLIType, text)), []store.Session{s})
		equal(t, text, ids(must[[]store.Session](t)(c.Sessions(t.Context(), store.SessionFilter{ProjectDir: text}))), text)
		enqueue(t, c, text, text)
		equal(t, text, queued(t, c, text), text+"/"+text)
	}
}

// testConcurrentRecords checks that records may be changed concurrently, and
// that a caller can read its own change.
func testConcurrentRecords(t *testing.T, _ runnel.Log, c store.Catalogue) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			s := full(fmt.Sprint("s", w))
			for i := range 20 {
				s.LastActiveAt = at.Add(time.Duration(i))
				if err := c.PutSession(ctx, s); err != nil {
					t.Errorf("PutSession: %v", err)
					return
				}
				got, err := c.Session(ctx, s.ID)
				if err != nil || !got.LastActiveAt.Equal(s.LastActiveAt) {
					t.Errorf("Session(%s) = %v, %v, want %v", s.ID, got.LastActiveAt, err, s.LastActiveAt)
					return
				}
			}
		})
	}
	wg.Wait()
	cancel()
	if err := c.PutSession(ctx, full("late")); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("PutSession with a context that has ended: %v", err)
	}
}
