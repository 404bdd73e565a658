//go:build unix

package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

var _ = register(37, eventStreams)

// eventStreams returns the table of the streams of server-sent events.
func eventStreams() table {
	var s server
	tab := table{
		name: "sse", title: "Event streams", file: "sse_test.go",
		intro: "The frames of `GET /api/session/{id}/events` and how every stream says whether a client that resumes gets all that it lacks: " +
			"`resume: {status: ok | gap | reset, from?, to?, reason?, logId?}` in its first frame. The rows of [storage](#storage-and-recovery) have positions in a compacted, " +
			"a restored and a damaged log, and say why no log of this store has a `gap`.",
		head: []string{"stream", "condition", "what the client reads"},
		setup: func(t *testing.T) {
			s = server{}
			s.start(t)
		},
	}
	for _, r := range sseRows {
		tab.rows = append(tab.rows, row{[]string{r.stream, r.condition, r.answer}, func(t *testing.T) { r.check(t, &s) }, ""})
	}
	for _, r := range [][4]string{
		{"events", "nothing happens", "a comment every 15 s at most", "httpapi.TestHeartbeat"},
		{"events", "cut at every event, and resumed", "no event is missing or comes twice", "httpapi.TestEveryCutOfSSE"},
		{"events", "the deltas of finished items were removed from the log", "the events that are left, with their old `seq`; `resume` is `ok`", "httpapi.TestCompactedLog"},
		{"events", "the store fails", "`stream:end` with an error", "httpapi.TestStreamsOfAFailedStore"},
		{"events", "the credential ends", "the stream ends at once", "httpapi.TestRevokeClosesStreams"},
		{"events", "the client does not read", "the stream ends; others are not delayed", "httpapi.TestSlowReader"},
		{"events", "too many streams", "`RATE_LIMITED` before the stream opens", "httpapi.TestTooManyStreams"},
		{"harness turn", "a retry with the same `Idempotency-Key`", "the stream of the running turn", "httpapi.TestRetryStreamsTheRunningTurn"},
		{"harness turn", "the agent is silent for longer than the limit", "a fatal `turn:error` with `AGENT_STALLED`, then `process:exit`", "httpapi.TestTurnStalls"},
	} {
		tab.rows = append(tab.rows, row{r[:3], nil, r[3]})
	}
	return tab
}

// opened opens the event stream of a session. It returns the first frame and
// the rest of the stream.
func opened(t *testing.T, c client, session, query string) (frame, *eventStream) {
	t.Helper()
	stream := c.stream(t, http.MethodGet, "/api/session/"+session+"/events"+query, nil)
	first, _ := stream.next(t)
	equal(t, "name of the first frame", first.event, "stream:open")
	return first, stream
}

// resumes checks the status in the first frame of a stream, and the id of the
// event after it.
func resumes(t *testing.T, c client, session, query, status string, next float64) frame {
	t.Helper()
	first, stream := opened(t, c, session, query)
	defer stream.close()
	equal(t, "status", at(first.data, "resume", "status"), status)
	f, _ := stream.next(t)
	equal(t, "first event", f.id, fmt.Sprint(next))
	return first
}

// harnessTurn starts a turn of the harness and returns its stream.
func harnessTurn(t *testing.T, s *server, session, query, message string) *eventStream {
	t.Helper()
	return s.stream(t, http.MethodPost, "/api/harness/turn"+query, object{"sessionId": session, "message": message})
}

var sseRows = []struct {
	stream, condition, answer string
	check                     func(t *testing.T, s *server)
}{
	{"events", "any", "the answer has `text/event-stream`, and no proxy stores or changes it", func(t *testing.T, s *server) {
		res := s.open(t, http.MethodGet, "/api/session/"+s.session(t, nil)+"/events", nil)
		equal(t, "headers", []string{res.Header.Get("Content-Type"), res.Header.Get("Cache-Control"), res.Header.Get("X-Accel-Buffering")},
			[]string{"text/event-stream", "no-cache, no-transform", "no"})
	}},
	{"events", "the first frame", "`stream:open {sessionId, seq, resume}` without an `id`", func(t *testing.T, s *server) {
		session, _ := finished(t, s)
		first, _ := opened(t, s.client, session, "")
		equal(t, "id", first.id, "")
		equal(t, "session and seq", []any{first.data["sessionId"], first.data["seq"]}, []any{session, 0})
		if id, _ := at(first.data, "resume", "logId").(string); id == "" {
			t.Errorf("no logId in %v", first.data)
		}
	}},
	{"events", "every other frame", "`id` is the `seq`, `event` the type, `data` the event as one line of JSON", func(t *testing.T, s *server) {
		session, _ := finished(t, s)
		for i, f := range s.events(t, session, frame.ends)[1:] {
			if f.id != fmt.Sprint(f.data["seq"]) || f.event != f.data["type"] || f.id != fmt.Sprint(i+1) {
				t.Errorf("frame %d: id %s, event %s, data %v", i, f.id, f.event, f.data)
			}
		}
	}},
	{"events", "the deltas of a message", "their concatenation is the final text", func(t *testing.T, s *server) {
		_, events := s.play(t, s.session(t, nil), object{"text": "one two  three\n"})
		text := ""
		for _, f := range events {
			if f.event == "item_delta" {
				text += f.payload()["deltaContent"].(string)
			}
		}
		equal(t, "text", text, "one two  three\n")
	}},
	{"events", "without a position", "everything; `resume` is `ok`", func(t *testing.T, s *server) {
		session, _ := finished(t, s)
		resumes(t, s.client, session, "", "ok", 1)
	}},
	{"events", "`Last-Event-ID` is a position", "what comes after it; `resume` is `ok`", func(t *testing.T, s *server) {
		session, _ := finished(t, s)
		resumes(t, s.with("Last-Event-ID", "3"), session, "", "ok", 4)
	}},
	{"events", "`?after=` is a position", "what comes after it; `resume` is `ok`", func(t *testing.T, s *server) {
		session, _ := finished(t, s)
		resumes(t, s.client, session, "?after=3", "ok", 4)
	}},
	{"events", "`Last-Event-ID` and `?after=`", "`Last-Event-ID` counts", func(t *testing.T, s *server) {
		session, _ := finished(t, s)
		resumes(t, s.with("Last-Event-ID", "3"), session, "?after=1", "ok", 4)
	}},
	{"events", "the position is the end of the log", "nothing but what happens later; `resume` is `ok`", func(t *testing.T, s *server) {
		session, head := finished(t, s)
		first, stream := opened(t, s.client, session, "?after="+fmt.Sprint(head))
		equal(t, "status", at(first.data, "resume", "status"), "ok")
		s.send(t, session, "text")
		f, _ := stream.next(t)
		equal(t, "first event", f.id, fmt.Sprint(head+1))
	}},
	{"events", "the position is beyond the end of the log", "everything; `resume` is `reset` with a reason", func(t *testing.T, s *server) {
		session, head := finished(t, s)
		first := resumes(t, s.client, session, "?after="+fmt.Sprint(head+1), "reset", 1)
		if reason, _ := at(first.data, "resume", "reason").(string); reason == "" {
			t.Error("no reason")
		}
	}},
	{"events", "`?logId=` is that of another log", "everything; `resume` is `reset` with a reason", func(t *testing.T, s *server) {
		session, _ := finished(t, s)
		first := resumes(t, s.client, session, "?after=3&logId=another", "reset", 1)
		if reason, _ := at(first.data, "resume", "reason").(string); reason == "" {
			t.Error("no reason")
		}
	}},
	{"events", "`?logId=` is that of this log", "what comes after the position; `resume` is `ok`", func(t *testing.T, s *server) {
		session, _ := finished(t, s)
		first, _ := opened(t, s.client, session, "")
		resumes(t, s.client, session, "?after=3&logId="+at(first.data, "resume", "logId").(string), "ok", 4)
	}},
	{"events", "the position is negative", "400 `INVALID_REQUEST` before the stream opens", badPosition("-1")},
	{"events", "the position is a word", "400 `INVALID_REQUEST` before the stream opens", badPosition("x")},
	{"events", "the position is greater than any `seq` can be", "400 `INVALID_REQUEST` before the stream opens", badPosition("9223372036854775808")},
	{"events", "the position is a fraction", "400 `INVALID_REQUEST` before the stream opens", badPosition("1.5")},
	{"events", "the session does not exist", "404 `SESSION_NOT_FOUND` before the stream opens", func(t *testing.T, s *server) {
		s.get(t, "/api/session/"+nobody+"/events").fails(t, 404, "SESSION_NOT_FOUND")
	}},
	{"events", "the session is deleted", "`stream:end` with the reason `error` and `SESSION_NOT_FOUND`", func(t *testing.T, s *server) {
		session := s.session(t, nil)
		_, stream := opened(t, s.client, session, "")
		if a := s.do(t, http.MethodDelete, "/api/harness/session/"+session, nil); a.status >= 300 {
			t.Fatalf("got %d %s", a.status, a.body)
		}
		end := stream.rest(t).find("stream:end")
		equal(t, "end", []any{end.data["reason"], at(end.data, "error", "type")}, []any{"error", "SESSION_NOT_FOUND"})
	}},
	{"events", "the server shuts down", "`stream:end` with the reason `server_shutdown` and the position to resume after", func(t *testing.T, _ *server) {
		var s server
		s.start(t)
		session, head := finished(t, &s)
		_, stream := opened(t, s.client, session, "?after="+fmt.Sprint(head))
		s.Stop()
		end := stream.rest(t).find("stream:end")
		equal(t, "end", []any{end.data["reason"], end.data["seq"]}, []any{"server_shutdown", head})
	}},
	{"harness turn", "the first frame", "`session:init` with `resume`, which is `ok`", func(t *testing.T, s *server) {
		first, _ := harnessTurn(t, s, s.session(t, nil), "", "text").next(t)
		equal(t, "first frame", []any{first.event, at(first.data, "resume", "status")}, []any{"session:init", "ok"})
	}},
	{"harness turn", "the deltas of a message", "their concatenation is the text of `chat:complete`", func(t *testing.T, s *server) {
		text := ""
		all := harnessTurn(t, s, s.session(t, nil), "", "text").rest(t)
		for _, f := range all {
			if f.event == "chat:delta" {
				text += f.data["text"].(string)
			}
		}
		equal(t, "text", text, all.find("chat:complete").data["text"])
	}},
	{"harness turn", "a plain turn", "`session:init`, `chat:delta`, `chat:complete`, `session:complete`, `process:exit`", func(t *testing.T, s *server) {
		names := strings.ReplaceAll(harnessTurn(t, s, s.session(t, nil), "", script(object{"text": "one"})).rest(t).names(), "chat:delta chat:delta", "chat:delta")
		equal(t, "frames", names, "session:init chat:delta chat:complete session:complete process:exit")
	}},
	{"harness turn", "the client leaves; no `onDisconnect`", "the turn goes on, and `Last-Event-ID` resumes it at `/api/session/{id}/events`", leaves("")},
	{"harness turn", "the client leaves; `?onDisconnect=detach`", "the turn goes on, and `Last-Event-ID` resumes it at `/api/session/{id}/events`", leaves("?onDisconnect=detach")},
	{"harness turn", "the client leaves; `?onDisconnect=cancel`", "the turn ends as cancelled", func(t *testing.T, s *server) {
		session := s.session(t, nil)
		stream := harnessTurn(t, s, session, "?onDisconnect=cancel", "hang")
		stream.next(t)
		stream.close()
		all := s.events(t, session, frame.ends)
		equal(t, "status", all[len(all)-1].payload()["status"], "cancelled")
	}},
	{"harness turn", "`?onDisconnect=` has an unknown value", "400 `INVALID_REQUEST` before the stream opens", func(t *testing.T, s *server) {
		s.post(t, "/api/harness/turn?onDisconnect=explode", object{"sessionId": s.session(t, nil), "message": "text"}).fails(t, 400, "INVALID_REQUEST")
	}},
	{"WebSocket", "the first `session:history` of a subscription", "`resume`, as in `stream:open`", func(t *testing.T, s *server) {
		session, head := finished(t, s)
		for after, status := range map[float64]string{0: "ok", head: "ok", head + 1: "reset"} {
			first := historyOf(s.hello(t, "events-v1").subscribe(t, session, after))[0]
			equal(t, "status", at(first, "resume", "status"), status)
		}
	}},
}

func badPosition(position string) func(*testing.T, *server) {
	return func(t *testing.T, s *server) {
		session := s.session(t, nil)
		s.with("Last-Event-ID", position).get(t, "/api/session/"+session+"/events").fails(t, 400, "INVALID_REQUEST")
		s.get(t, "/api/session/"+session+"/events?after="+position).fails(t, 400, "INVALID_REQUEST")
	}
}

// leaves checks that a turn continues after its client has disconnected while
// an approval was waiting.
func leaves(query string) func(*testing.T, *server) {
	return func(t *testing.T, s *server) {
		session := s.session(t, nil)
		stream := harnessTurn(t, s, session, query, "approve")
		for {
			f, ok := stream.next(t)
			if !ok {
				t.Fatal("no permission:request")
			}
			if f.event == "permission:request" {
				stream.close()
				a := f.data["approval"].(object)
				s.post(t, fmt.Sprintf("/api/session/%s/approvals/%s", session, a["id"]), object{"choice": "allow", "argumentsDigest": a["argumentsDigest"]}).ok(t, 200)
				rest := s.with("Last-Event-ID", f.id).events(t, session, frame.ends)
				equal(t, "first event", rest[1].event, "approval_resolved")
				equal(t, "status", rest[len(rest)-1].payload()["status"], "completed")
				return
			}
		}
	}
}
