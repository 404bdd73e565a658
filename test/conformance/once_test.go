//go:build unix

package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// The table repeated checks requests that a client sends again.
var _ = register(41, func() table {
	tab := table{
		name: "repeated", title: "Requests that are sent again", file: "once_test.go",
		intro: "A client whose connection broke sends a request again, with the same `turnId` or the same `Idempotency-Key`. `replayed` is the header `Idempotency-Replayed: true`.",
		head:  []string{"request", "sent again", "answer"},
	}
	s := new(sessions)
	tab.setup = s.setup
	key := func(k string) client { return s.with("Idempotency-Key", k) }
	prompt := script(object{"text": "x"})
	sent := func(t *testing.T, c client, id string, body object) (turn string, replayed bool) {
		t.Helper()
		a := c.post(t, "/api/session/"+id+"/send", body)
		return a.ok(t, http.StatusAccepted)["turnId"].(string), a.header.Get("Idempotency-Replayed") == "true"
	}
	tab.add("send with a turnId", "the same", "202 with the turnId, replayed; one turn", func(t *testing.T) {
		id, turn := s.session(t, nil), uuid.NewString()
		body := object{"content": prompt, "turnId": turn}
		for i := range 3 {
			got, replayed := sent(t, s.client, id, body)
			equal(t, "answer", []any{got, replayed}, []any{turn, i > 0})
		}
		s.turn(t, id, turn)
		s.oneTurn(t, id)
	})
	tab.add("send with an Idempotency-Key", "the same", "202 with the first turnId, replayed; one turn", func(t *testing.T) {
		id, c := s.session(t, nil), key(uuid.NewString())
		first, replayed := sent(t, c, id, object{"content": prompt})
		equal(t, "replayed", replayed, false)
		again, replayed := sent(t, c, id, object{"content": prompt})
		equal(t, "answer", []any{again, replayed}, []any{first, true})
		s.turn(t, id, first)
		s.oneTurn(t, id)
	})
	tab.add("send with an Idempotency-Key", "the same, with other white space and order of fields", "202, replayed", func(t *testing.T) {
		id, c := s.session(t, nil), key(uuid.NewString())
		path := "/api/session/" + id + "/send"
		c.post(t, path, `{"content":"{\"steps\":[]}","queue":true}`).ok(t, http.StatusAccepted)
		a := c.post(t, path, "{ \"queue\": true,\n\"content\": \"{\\\"steps\\\":[]}\" }")
		a.ok(t, http.StatusAccepted)
		equal(t, "Idempotency-Replayed", a.header.Get("Idempotency-Replayed"), "true")
	})
	for _, by := range []string{"turnId", "Idempotency-Key"} {
		tab.add("send with "+by, "with another body, or for another session", "409 INVALID_REQUEST; no second turn", func(t *testing.T) {
			id, c, body := s.session(t, nil), s.client, object{"content": prompt}
			if by == "turnId" {
				body["turnId"] = uuid.NewString()
			} else {
				c = key(uuid.NewString())
			}
			turn, _ := sent(t, c, id, body)
			c.post(t, "/api/session/"+s.session(t, nil)+"/send", body).fails(t, http.StatusConflict, "INVALID_REQUEST")
			body["content"] = "other"
			c.post(t, "/api/session/"+id+"/send", body).fails(t, http.StatusConflict, "INVALID_REQUEST")
			s.turn(t, id, turn)
			s.oneTurn(t, id)
		})
	}
	tab.add("send with an Idempotency-Key", "with another credential", "202, another turn: keys belong to credentials", func(t *testing.T) {
		id, k := s.session(t, nil), uuid.NewString()
		first, _ := sent(t, key(k), id, object{"content": prompt})
		s.turn(t, id, first)
		other, replayed := sent(t, s.as(s.token(t, "", "read", "send")).with("Idempotency-Key", k), id, object{"content": prompt})
		if other == first || replayed {
			t.Errorf("got %s, replayed %v", other, replayed)
		}
	})
	tab.add("send that was refused", "the same key, after what was wrong is mended", "202: a refused request is not kept", func(t *testing.T) {
		id, turn := s.running(t)
		c := key(uuid.NewString())
		c.post(t, "/api/session/"+id+"/send", object{"content": prompt}).fails(t, http.StatusConflict, "TURN_IN_PROGRESS")
		s.verb(t, id, "cancel", object{}).ok(t, http.StatusOK)
		s.turn(t, id, turn)
		sent(t, c, id, object{"content": prompt})
	})
	tab.add("turn of the harness", "the same, while the turn runs", "200, replayed: the turn's stream from its first frame; one turn", func(t *testing.T) {
		id, turn := s.session(t, nil), uuid.NewString()
		body := object{"sessionId": id, "turnId": turn, "message": script(object{"text": "x"}, object{"hang": true})}
		first := s.stream(t, http.MethodPost, "/api/harness/turn", body)
		begun, _ := first.next(t)
		again := s.open(t, http.MethodPost, "/api/harness/turn", body)
		defer func() { _ = again.Body.Close() }()
		equal(t, "answer", []any{again.StatusCode, again.Header.Get("Idempotency-Replayed")}, []any{200, "true"})
		second := streamOf(again.Body)
		same, _ := second.next(t)
		equal(t, "first frame", same.data, begun.data)
		s.verb(t, id, "cancel", object{}).ok(t, http.StatusOK)
		equal(t, "frames", second.rest(t).names(), first.rest(t).names())
		s.oneTurn(t, id)
	})
	tab.add("turn of the harness", "as send, after the turn", "202 with the turn's id, replayed", func(t *testing.T) {
		id, c := s.session(t, nil), key(uuid.NewString())
		init := readFrames(t, c.post(t, "/api/harness/turn", object{"sessionId": id, "message": prompt}).body).find("session:init")
		turn, replayed := sent(t, c, id, object{"content": prompt})
		equal(t, "answer", []any{turn, replayed}, []any{init.data["turnId"], true})
	})
	for _, r := range []struct {
		what, path string
		status     int
		id         []any // path to the session's id in the response
		body       func() object
	}{
		{"create", "/api/session/create", http.StatusCreated, []any{"sessionId"}, func() object { return object{"cliType": "script", "projectDir": s.project} }},
		{"create of the harness", "/api/harness/session/create", http.StatusOK, []any{"session", "sessionId"}, func() object { return object{"cliType": "script", "projectRoot": s.project} }},
	} {
		tab.add(r.what+" with an Idempotency-Key", "the same", fmt.Sprintf("%d with the first session, replayed; one session", r.status), func(t *testing.T) {
			c := key(uuid.NewString())
			first, again := c.post(t, r.path, r.body()), c.post(t, r.path, r.body())
			equal(t, "session", at(again.ok(t, r.status), r.id...), at(first.ok(t, r.status), r.id...))
			equal(t, "Idempotency-Replayed", []string{first.header.Get("Idempotency-Replayed"), again.header.Get("Idempotency-Replayed")}, []string{"", "true"})
		})
	}
	tab.add("fork with an Idempotency-Key", "the same", "201 with the first copy, replayed; one copy", func(t *testing.T) {
		id, c := s.sessionOf(t, "claude-agent-acp"), key(uuid.NewString())
		s.turn(t, id, s.send(t, id, "hello"))
		first, again := c.post(t, "/api/session/"+id+"/fork", object{}), c.post(t, "/api/session/"+id+"/fork", object{})
		equal(t, "session", again.ok(t, http.StatusCreated)["sessionId"], first.ok(t, http.StatusCreated)["sessionId"])
	})
	tab.add("send with a turnId of a turn that the server named", "the same", "409 INVALID_REQUEST: the id is taken", func(t *testing.T) {
		id := s.session(t, nil)
		turn, _ := s.play(t, id, object{"text": "x"})
		s.verb(t, id, "send", object{"content": "x", "turnId": turn}).fails(t, http.StatusConflict, "INVALID_REQUEST")
	})
	tab.add("an Idempotency-Key of 256 bytes, an empty one, or one with other characters than printable ASCII", "no", "400 INVALID_REQUEST", func(t *testing.T) {
		id := s.session(t, nil)
		for _, k := range []string{strings.Repeat("k", 256), "é"} {
			key(k).post(t, "/api/session/"+id+"/send", object{"content": prompt}).fails(t, http.StatusBadRequest, "INVALID_REQUEST")
		}
		c := s.client
		c.header = c.header.Clone()
		c.header["Idempotency-Key"] = []string{""}
		c.post(t, "/api/session/"+id+"/send", object{"content": prompt}).fails(t, http.StatusBadRequest, "INVALID_REQUEST")
	})
	tab.add("an Idempotency-Key of 255 bytes", "no", "202", func(t *testing.T) {
		sent(t, key(strings.Repeat("~", 255)), s.session(t, nil), object{"content": prompt})
	})
	tab.add("a turnId that is no UUID in lower case", "no", "400 INVALID_REQUEST", func(t *testing.T) {
		id := s.session(t, nil)
		for _, turn := range []string{"x", strings.ToUpper(uuid.NewString()), "00000000-0000-0000-0000-000000000000"} {
			s.verb(t, id, "send", object{"content": prompt, "turnId": turn}).fails(t, http.StatusBadRequest, "INVALID_REQUEST")
		}
	})
	tab.link("50 requests that are the same at once", "by each way", "one turn, and 49 replayed answers", "httpapi.TestParallelRetriesMakeOneTurn")
	tab.link("a request whose server was killed", "the same, to the new server", "one turn", "test/hostile.TestRetryAfterKillMakesOneTurn")
	return tab
})

// oneTurn checks that a session has had exactly one turn.
func (s *sessions) oneTurn(t *testing.T, id string) {
	t.Helper()
	last := fmt.Sprint(s.status(t, id)["lastSeq"])
	begun := 0
	for _, f := range s.events(t, id, func(f frame) bool { return f.id == last }) {
		if f.event == "response_start" {
			begun++
		}
	}
	equal(t, "turns", begun, 1)
}
