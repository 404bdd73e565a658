//go:build linux

package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/testapi"
)

// A repeated is a request that a client sends until it gets a response.
type repeated struct {
	path, key string
	body      any
}

func (r repeated) request(ctx context.Context, w *world) *http.Request {
	data, err := json.Marshal(r.body)
	if err != nil {
		w.t.Error(err)
	}
	req, err := http.NewRequestWithContext(ctx, "POST", "http://"+w.Addr+r.path, bytes.NewReader(data))
	if err != nil {
		w.t.Error(err)
		return nil
	}
	req.Header.Set("Authorization", "Bearer "+w.Token)
	req.Header.Set("Content-Type", "application/json")
	if r.key != "" {
		req.Header.Set("Idempotency-Key", r.key)
	}
	return req
}

// once sends the request and returns the body of the response; "" if there was
// none, or if the server was not ready.
func (r repeated) once(w *world) (answer string, replayed bool) {
	ctx, cancel := context.WithTimeout(context.Background(), testapi.Timeout)
	defer cancel()
	res, err := http.DefaultClient.Do(r.request(ctx, w))
	if err != nil {
		return "", false
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode == http.StatusServiceUnavailable {
		return "", false
	}
	if res.StatusCode >= http.StatusBadRequest {
		w.t.Errorf("%s: got %d %s", r.path, res.StatusCode, data)
	}
	return string(data), res.Header.Get("Idempotency-Replayed") == "true"
}

// answered sends the request until once returns a response.
func (r repeated) answered(w *world) (answer string, replayed bool) {
	w.t.Helper()
	late := time.Now().Add(testapi.Timeout)
	for time.Now().Before(late) {
		if answer, replayed := r.once(w); answer != "" {
			return answer, replayed
		}
	}
	w.t.Fatalf("%s: no answer in %v", r.path, testapi.Timeout)
	return "", false
}

// prompts returns the turns of a session that have a prompt with this text.
func (w *world) prompts(c *testapi.Client, text string) (turns []string) {
	for _, ev := range c.Events {
		if b, ok := ev.Body.(event.ItemDone); ok && b.ItemID == runnel.UserItemID(ev.Turn) && b.FinalItem.(event.Message).Content == text {
			turns = append(turns, ev.Turn)
		}
	}
	return turns
}

// sends returns the n-th prompt and its text. The server can recognise a retry
// of the prompt by its Idempotency-Key, by the id of its turn, or by both.
func (w *world) sends(session string, n int) (r repeated, text string) {
	text = fmt.Sprintf("round %d ", n) + plan{Deltas: 2}.prompt()
	body := object{"content": text}
	r = repeated{"/api/session/" + session + "/send", fmt.Sprint("round ", n), body}
	if n%3 > 0 {
		body["turnId"] = uuid.NewString()
	}
	if n%3 > 1 {
		r.key = ""
	}
	return r, text
}

// oneTurn checks that a prompt has exactly one turn, which the response names.
func (w *world) oneTurn(c *testapi.Client, text, answer string) {
	w.t.Helper()
	var a struct{ TurnID string }
	if err := json.Unmarshal([]byte(answer), &a); err != nil || a.TurnID == "" {
		w.t.Fatalf("%v: %s", err, answer)
	}
	c.End(a.TurnID)
	if got := w.prompts(c, text); !slices.Equal(got, []string{a.TurnID}) {
		w.t.Errorf("the answer names the turn %s, the log has %v", a.TurnID, got)
	}
}

// TestRetryAfterKillMakesOneTurn kills the server at a random time while it
// handles a prompt. The client then sends the prompt again.
func TestRetryAfterKillMakesOneTurn(t *testing.T) {
	w := newWorld(t, nil, "60s")
	w.start()
	c := w.Follow(w.create())
	defer c.Leave()
	lost := 0
	for n := range often(120, 12) {
		prompt, text := w.sends(c.Session, n)
		first := make(chan string, 1)
		go func() { answer, _ := prompt.once(w); first <- answer }()
		<-time.After(time.Duration(rand.Int64N(int64(12 * time.Millisecond))))
		w.kill()
		said := <-first
		if said == "" {
			lost++
		}
		w.start()
		answer, replayed := prompt.answered(w)
		if said != "" && (answer != said || !replayed) {
			t.Errorf("round %d: first %s, then %s (replayed: %v)", n, said, answer, replayed)
		}
		w.oneTurn(c, text, answer)
		if again, replayed := prompt.answered(w); again != answer || !replayed {
			t.Errorf("round %d: once more: %s (replayed: %v), want %s", n, again, replayed, answer)
		}
	}
	t.Logf("%d answers were lost", lost)
}

// TestRetryAfterKillMakesOneSession kills the server at a random time while it
// creates a session. The client then sends the request again.
func TestRetryAfterKillMakesOneSession(t *testing.T) {
	w := newWorld(t, nil, "60s")
	w.start()
	for n := range often(80, 8) {
		create := repeated{"/api/session/create", fmt.Sprint("session ", n), object{"cliType": "claude", "projectDir": w.project}}
		first := make(chan string, 1)
		go func() { answer, _ := create.once(w); first <- answer }()
		<-time.After(time.Duration(rand.Int64N(int64(150 * time.Millisecond))))
		w.kill()
		said := <-first
		w.start()
		answer, _ := create.answered(w)
		if said != "" && answer != said {
			t.Errorf("round %d: first %s, then %s", n, said, answer)
		}
		var list struct {
			Sessions []struct{ SessionID string }
		}
		if code, ok := w.Call("GET", "/api/session/list?projectId=*&all=1", nil, &list); !ok || code != http.StatusOK {
			t.Fatalf("list: %d", code)
		}
		if len(list.Sessions) != n+1 || !strings.Contains(answer, list.Sessions[0].SessionID) {
			t.Fatalf("round %d: the answer is %s, the sessions are %+v", n, answer, list.Sessions)
		}
		w.knows(list.Sessions[0].SessionID)
	}
}

// TestRetryAfterCutConnectionMakesOneTurn resets the connection right after the
// prompt was written to it. The client then sends the prompt again.
func TestRetryAfterCutConnectionMakesOneTurn(t *testing.T) {
	w := newWorld(t, nil, "60s")
	w.start()
	c := w.Follow(w.create())
	defer c.Leave()
	for n := range often(120, 12) {
		prompt, text := w.sends(c.Session, n)
		conn, err := net.Dial("tcp", w.Addr)
		if err != nil {
			t.Fatal(err)
		}
		if err := prompt.request(t.Context(), w).Write(conn); err != nil {
			t.Fatal(err)
		}
		_ = conn.(*net.TCPConn).SetLinger(0) // a reset, which the server sees at once
		if n%2 == 0 {
			<-time.After(time.Duration(rand.Int64N(int64(5 * time.Millisecond))))
		}
		_ = conn.Close()
		answer, _ := prompt.answered(w)
		w.oneTurn(c, text, answer)
	}
}

func TestParallelRetriesMakeOneTurn(t *testing.T) {
	w := newWorld(t, nil, "60s")
	w.start()
	c := w.Follow(w.create())
	defer c.Leave()
	for n := range 3 {
		prompt, text := w.sends(c.Session, n)
		var all sync.WaitGroup
		answers := make([]string, 50)
		for i := range answers {
			all.Go(func() { answers[i], _ = prompt.answered(w) })
		}
		all.Wait()
		if distinct := slices.Compact(slices.Sorted(slices.Values(answers))); len(distinct) != 1 {
			t.Errorf("answers %v", distinct)
		}
		w.oneTurn(c, text, answers[0])
	}
}
