package jsonrpc_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/runnel-dev/runnel/internal/jsonrpc"
)

func decode(t testing.TB, line string) jsonrpc.Message {
	t.Helper()
	m, err := jsonrpc.Decode([]byte(line))
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return m
}

func TestPeer(t *testing.T) {
	var p jsonrpc.Peer
	got := func(line string, want jsonrpc.Verdict, method string) {
		t.Helper()
		if v, c := p.Got(decode(t, line)); v != want || c.Method != method {
			t.Errorf("%s: %v %+v", line, v, c)
		}
	}
	for i := range int64(3) {
		id, err := p.NextID()
		if n, _ := id.Int(); err != nil || n != i+1 {
			t.Fatalf("%v %v", id, err)
		}
		p.Sent(jsonrpc.Message{ID: id, Method: "m" + string('0'+byte(i))})
	}
	p.Sent(jsonrpc.Message{ID: jsonrpc.String("prompt:1"), Method: "prompt"})
	got(`{"id":2,"result":{}}`, jsonrpc.Answered, "m1")
	got(`{"id":2,"result":{}}`, jsonrpc.Stray, "")
	got(`{"id":1.0,"error":{}}`, jsonrpc.Answered, "m0")
	got(`{"id":"prompt:1","result":{}}`, jsonrpc.Answered, "prompt")
	got(`{"id":"3","result":{}}`, jsonrpc.Stray, "")
	got(`{"error":{}}`, jsonrpc.Stray, "")
	got(`{"method":"tell"}`, jsonrpc.Notified, "tell")

	got(`{"id":0,"method":"ask"}`, jsonrpc.Asked, "ask")
	got(`{"id":0,"method":"other"}`, jsonrpc.AskedAgain, "ask")
	got(`{"method":"$/cancel_request","params":{"requestId":0}}`, jsonrpc.Withdrawn, "ask")
	got(`{"method":"$/cancel_request","params":{"requestId":9}}`, jsonrpc.Stray, "")
	got(`{"method":"$/cancel_request","params":[]}`, jsonrpc.Stray, "")
	p.Sent(jsonrpc.NewFailure(jsonrpc.Number(0), jsonrpc.CodeRequestCancelled, "cancelled"))
	got(`{"id":0,"method":"ask"}`, jsonrpc.Asked, "ask")
	if !p.Forget(jsonrpc.Number(0)) || p.Forget(jsonrpc.Number(0)) {
		t.Error("Forget succeeded twice for one request")
	}
	if w, o := p.Waiting(), p.Open(); len(w) != 1 || w[0].Method != "m2" || len(o) != 0 {
		t.Errorf("waiting %+v, open %+v", w, o)
	}
	if m := jsonrpc.Unsupported(decode(t, `{"id":"u","method":"unheard/of"}`)); m.Error.Code != jsonrpc.CodeMethodNotFound || m.ID != jsonrpc.String("u") {
		t.Errorf("%+v", m)
	}
}

func TestOpenRequestsAreBounded(t *testing.T) {
	p := jsonrpc.Peer{MaxOpen: 2}
	for i := range int64(2) {
		if v, _ := p.Got(jsonrpc.Message{ID: jsonrpc.Number(i), Method: "ask"}); v != jsonrpc.Asked {
			t.Fatal(v)
		}
		id, err := p.NextID()
		if err != nil {
			t.Fatal(err)
		}
		p.Sent(jsonrpc.Message{ID: id, Method: "m"})
	}
	m := jsonrpc.Message{ID: jsonrpc.Number(2), Method: "ask"}
	if v, _ := p.Got(m); v != jsonrpc.Overrun || len(p.Open()) != 2 {
		t.Errorf("%v %v", v, p.Open())
	}
	p.Sent(jsonrpc.Overloaded(m))
	if _, err := p.NextID(); !errors.Is(err, jsonrpc.ErrTooMany) {
		t.Error(err)
	}
	p.Got(jsonrpc.Message{ID: jsonrpc.Number(1)})
	if id, err := p.NextID(); err != nil || id != jsonrpc.Number(3) {
		t.Errorf("%v %v", id, err)
	}
}

// TestStoredPeerContinues stores a Peer before every step. The restored Peer
// must behave like the original, and responses must match requests in any
// order.
func TestStoredPeerContinues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := jsonrpc.Peer{MaxOpen: 5}
		var asked, theirs []string
		step := func(t *rapid.T) jsonrpc.Message {
			id := jsonrpc.Number(rapid.Int64Range(0, 8).Draw(t, "id"))
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				return jsonrpc.Message{ID: id, Method: "ask"}
			case 1:
				return jsonrpc.Message{ID: id}
			case 2:
				return cancel(id)
			}
			return jsonrpc.Message{Method: "tell"}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			stored, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			var q jsonrpc.Peer
			if err := json.Unmarshal(stored, &q); err != nil {
				t.Fatal(err)
			}
			m := step(t)
			if rapid.Bool().Draw(t, "ours") {
				p.Sent(m)
				q.Sent(m)
				switch key := m.ID.Key(); {
				case m.Kind() == jsonrpc.Request && !slices.Contains(asked, key) && len(asked) < 5:
					asked = append(asked, key)
				case m.Kind() == jsonrpc.Response:
					theirs = slices.DeleteFunc(theirs, func(k string) bool { return k == key })
				}
			} else {
				v, c := p.Got(m)
				w, d := q.Got(m)
				if v != w || c != d {
					t.Fatalf("%v %v, stored %v %v", v, c, w, d)
				}
				key := m.ID.Key()
				if want := slices.Contains(asked, key); m.Kind() == jsonrpc.Response && want != (v == jsonrpc.Answered) {
					t.Fatalf("%s: %v", key, v)
				}
				if v == jsonrpc.Answered {
					asked = slices.DeleteFunc(asked, func(k string) bool { return k == key })
				}
				if v == jsonrpc.Asked {
					theirs = append(theirs, key)
				}
			}
			if d := cmp.Diff(asked, keys(p.Waiting())); d != "" && len(asked)+len(p.Waiting()) > 0 {
				t.Fatal(d)
			}
			if d := cmp.Diff(theirs, keys(p.Open())); d != "" && len(theirs)+len(p.Open()) > 0 {
				t.Fatal(d)
			}
			p = q
		}
	})
}

func keys(calls []jsonrpc.Call) (out []string) {
	for _, c := range calls {
		out = append(out, c.ID.Key())
	}
	return out
}

// cancel returns the notification by which the other side withdraws its request
// id.
func cancel(id jsonrpc.ID) jsonrpc.Message {
	params, err := json.Marshal(map[string]jsonrpc.ID{"requestId": id})
	if err != nil {
		panic(err)
	}
	return jsonrpc.Message{Method: "$/cancel_request", Params: params}
}
