//go:build unix

package conformance

import (
	"bytes"
	"net/http"
	"testing"
)

// careRows adds the rows about renaming, archiving and deleting sessions.
func (s *sessions) careRows(tab *table) {
	const list = "/api/session/list?projectId=*"
	listed := func(t *testing.T, query, id string) bool {
		t.Helper()
		a := s.get(t, list+query)
		a.ok(t, http.StatusOK)
		return bytes.Contains(a.body, []byte(id))
	}
	tab.add("rename", "the title is one line", "200 with the status; the log gets session_updated with titleBy: user", func(t *testing.T) {
		id := s.session(t, nil)
		_, turn := s.play(t, id, object{"text": "x"})
		st := s.verb(t, id, "rename", object{"title": " Fix the login "}).ok(t, http.StatusOK)
		equal(t, "title", st["title"], "Fix the login")
		named := s.events(t, id, func(f frame) bool { return f.event == "session_updated" && f.payload()["title"] != nil })
		last := named[len(named)-1]
		equal(t, "event", []any{last.payload()["title"], last.payload()["titleBy"], len(named) > len(turn)}, []any{"Fix the login", "user", true})
	})
	tab.add("rename", "the title is empty", "200; the session has the title that it had without a client's choice", func(t *testing.T) {
		id := s.session(t, nil)
		s.play(t, id, object{"text": "x"})
		before := s.status(t, id)["title"]
		s.verb(t, id, "rename", object{"title": "mine"}).ok(t, http.StatusOK)
		equal(t, "title", s.verb(t, id, "rename", object{"title": ""}).ok(t, http.StatusOK)["title"], before)
	})
	tab.add("rename", "the session was ended", "200; it stays ended", func(t *testing.T) {
		id := s.session(t, nil)
		s.verb(t, id, "kill", object{}).ok(t, http.StatusOK)
		st := s.verb(t, id, "rename", object{"title": "mine"}).ok(t, http.StatusOK)
		equal(t, "status", []any{st["title"], st["state"]}, []any{"mine", "dead"})
	})
	tab.add("rename", "the title is missing, has two lines or more than 200 bytes", "400 INVALID_REQUEST", func(t *testing.T) {
		id := s.session(t, nil)
		for _, body := range []object{{}, {"title": "a\nb"}, {"title": string(bytes.Repeat([]byte("x"), 201))}} {
			s.verb(t, id, "rename", body).fails(t, http.StatusBadRequest, "INVALID_REQUEST")
		}
	})
	tab.add("archive", "no turn runs", "200; only lists with archived=true have the session", func(t *testing.T) {
		id := s.session(t, nil)
		equal(t, "archived", s.verb(t, id, "archive", object{"archived": true}).ok(t, http.StatusOK)["archived"], true)
		equal(t, "listed", []any{listed(t, "", id), listed(t, "&all=true", id), listed(t, "&archived=true", id)}, []any{false, false, true})
		s.verb(t, id, "archive", object{"archived": false}).ok(t, http.StatusOK)
		equal(t, "listed again", listed(t, "", id), true)
	})
	tab.add("archive", "a prompt follows", "the session is not archived any more", func(t *testing.T) {
		id := s.session(t, nil)
		s.verb(t, id, "archive", object{"archived": true}).ok(t, http.StatusOK)
		s.play(t, id, object{"text": "x"})
		equal(t, "archived", s.status(t, id)["archived"], nil)
	})
	tab.add("archive", "a turn runs", "409 TURN_IN_PROGRESS with sessionId and turnId", func(t *testing.T) {
		id, turn := s.running(t)
		p := s.verb(t, id, "archive", object{"archived": true}).fails(t, http.StatusConflict, "TURN_IN_PROGRESS")
		equal(t, "details", p.Details, object{"sessionId": id, "turnId": turn})
	})
	tab.add("deletion", "a turn runs", "200 with what a deletion would free; nothing changes", func(t *testing.T) {
		id, turn := s.running(t)
		freed := s.get(t, "/api/session/"+id+"/deletion").ok(t, http.StatusOK)
		equal(t, "preview", []any{freed["sessionId"], freed["turnId"], freed["freedBytes"].(float64) > 0}, []any{id, turn, true})
		equal(t, "turnId", s.status(t, id)["turnId"], turn)
	})
	tab.add("delete", "a turn runs", "200 with what was freed; the session is unknown from then on", func(t *testing.T) {
		id, turn := s.running(t)
		freed := s.do(t, http.MethodDelete, "/api/session/"+id, nil).ok(t, http.StatusOK)
		equal(t, "answer", []any{freed["sessionId"], freed["turnId"], freed["freedBytes"].(float64) > 0}, []any{id, turn, true})
		s.get(t, "/api/session/"+id+"/status").fails(t, http.StatusNotFound, "SESSION_NOT_FOUND")
		equal(t, "listed", listed(t, "&all=true&archived=true", id), false)
	})
	tab.link("delete", "streams of the session are open", "they end with SESSION_NOT_FOUND; the WebSocket sends a last session:status with deleted: true", "httpapi.TestDeleteOverHTTP")
	tab.link("delete", "the session has attached uploads and a debug capture", "they are deleted, except uploads that another session has used", "gateway.TestDeletionRemovesFilesOfTheSessionOnly")
}

func keepsTitleAndArchive(t *testing.T) {
	var s server
	s.start(t)
	id := s.session(t, nil)
	s.play(t, id, object{"text": "x"})
	s.post(t, "/api/session/"+id+"/rename", object{"title": "mine"}).ok(t, http.StatusOK)
	s.post(t, "/api/session/"+id+"/archive", object{"archived": true}).ok(t, http.StatusOK)
	s.Kill()
	s.start(t)
	st := s.get(t, "/api/session/"+id+"/status").ok(t, http.StatusOK)
	equal(t, "status", []any{st["title"], st["archived"]}, []any{"mine", true})
}
