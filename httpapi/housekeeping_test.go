package httpapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/stream"
)

// Every client sees a new title: in an event, in the status that the WebSocket
// sends, in lists and in exports.
func TestRenameReachesEveryClient(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	s.events(id, s.prompt(id, "text"))
	p := s.subscribed(stream.FamilyUpsert, id)
	path := "/api/session/" + id + "/rename"
	if st := call[gateway.Status](s.rig, "POST", path, `{"title":"My <b>title</b>"}`, 200); st.Title != "My <b>title</b>" {
		t.Errorf("answered %+v", st)
	}
	named := s.until(id, func(ev event.Event) bool { b, ok := ev.Body.(event.SessionUpdated); return ok && b.Title != "" })
	if b := named.Body.(event.SessionUpdated); b.Title != "My <b>title</b>" || b.TitleBy != event.TitleByUser || named.Turn != "" {
		t.Errorf("the event is %+v", named)
	}
	for {
		var st gateway.Status
		if f := p.await("session:status"); json.Unmarshal(f.Payload, &st) != nil {
			t.Fatalf("got %+v", f)
		}
		if st.Title == "My <b>title</b>" {
			break
		}
	}
	if list := call[listAnswer](s.rig, "GET", "/api/session/list?projectId=*", "", 200).Sessions; len(list) != 1 || list[0].Title != "My <b>title</b>" {
		t.Errorf("listed %+v", list)
	}
	if w := s.do("GET", "/api/session/"+id+"/export?format=html", ""); !strings.Contains(w.Body.String(), "<h1>My &lt;b&gt;title&lt;/b&gt;</h1>") {
		t.Errorf("exported %s", w.Body)
	}
	if st := call[gateway.Status](s.rig, "POST", path, `{"title":""}`, 200); st.Title != "text" {
		t.Errorf("without a title: %+v", st)
	}
}

func TestHousekeepingRefusals(t *testing.T) {
	rg := newRig(t)
	id := rg.create()
	path := "/api/session/" + id
	for _, body := range []string{`{}`, `{"title":null}`, `{"title":1}`, `{"Title":"x"}`, `{"title":"a\nb"}`, `{"title":"` + strings.Repeat("x", gateway.MaxChosenTitle+1) + `"}`} {
		rg.wantError("POST", path+"/rename", body, 400, runnel.InvalidRequest)
	}
	for _, body := range []string{`{}`, `{"archived":null}`, `{"archived":"yes"}`} {
		rg.wantError("POST", path+"/archive", body, 400, runnel.InvalidRequest)
	}
	rg.wantError("GET", "/api/session/list?projectId=*&archived=maybe", "", 400, runnel.InvalidRequest)
	rg.prompt(id, "hang")
	rg.wantError("POST", path+"/archive", `{"archived":true}`, 409, runnel.TurnInProgress)
	rg.token = rg.mint(auth.Read, auth.Approve, auth.Admin)
	rg.wantError("POST", path+"/rename", `{"title":"x"}`, 403, runnel.Forbidden)
	rg.wantError("POST", path+"/archive", `{"archived":true}`, 403, runnel.Forbidden)
	rg.wantError("DELETE", path, "", 403, runnel.Forbidden)
}

func TestArchiveOverHTTP(t *testing.T) {
	rg := newRig(t)
	id := rg.create()
	rg.events(id, rg.prompt(id, "text"))
	if st := call[gateway.Status](rg, "POST", "/api/session/"+id+"/archive", `{"archived":true}`, 200); !st.Archived {
		t.Errorf("answered %+v", st)
	}
	for target, want := range map[string]int{
		"/api/session/list?projectId=*": 0, "/api/session/list?projectId=*&all=true": 0, "/api/session/list?projectId=*&archived=true": 1,
		"/api/harness/session/list": 0, "/api/overview": 1,
	} {
		if list := call[listAnswer](rg, "GET", target, "", 200).Sessions; len(list) != want || want == 1 && !list[0].Archived {
			t.Errorf("%s lists %+v", target, list)
		}
	}
	rg.events(id, rg.prompt(id, "text"))
	if list := call[listAnswer](rg, "GET", "/api/session/list?projectId=*", "", 200).Sessions; len(list) != 1 || list[0].Archived {
		t.Errorf("after a prompt: %+v", list)
	}
}

// A deletion ends what runs and the streams of the session. Clients of the
// WebSocket receive a last status.
func TestDeleteOverHTTP(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	turn := s.prompt(id, "hang")
	s.until(id, is[event.ItemDelta])
	p := s.subscribed(stream.FamilyUpsert, id)
	follow := s.get("/api/session/" + id + "/events")
	path := "/api/session/" + id
	preview := call[gateway.Deletion](s.rig, "GET", path+"/deletion", "", 200)
	if preview.SessionID != id || preview.FreedBytes == 0 || preview.TurnID != turn || preview.Transcript == nil {
		t.Errorf("preview: %+v", preview)
	}
	if st := call[gateway.Status](s.rig, "GET", path+"/status", "", 200); st.TurnID != turn {
		t.Errorf("after the preview: %+v", st)
	}
	if freed := call[gateway.Deletion](s.rig, "DELETE", path, "", 200); freed.SessionID != id || freed.FreedBytes < preview.FreedBytes || freed.TurnID != turn {
		t.Errorf("deleted: %+v, previewed %+v", freed, preview)
	}
	if last := ending(follow.Body, 1); len(last) != 1 || last[0].name != "stream:end" || !strings.Contains(string(last[0].data), "SESSION_NOT_FOUND") {
		t.Errorf("the events end with %+v", last)
	}
	var gone, refused bool
	for !gone || !refused {
		f := p.await("session:status", "error")
		var st gateway.Status
		refused = refused || f.Error != nil && f.Error.Type == runnel.SessionNotFound
		gone = gone || f.Type == "session:status" && json.Unmarshal(f.Payload, &st) == nil && st.Deleted && st.State == event.StateDead
	}
	s.wantError("GET", path+"/status", "", 404, runnel.SessionNotFound)
	s.wantError("GET", path+"/deletion", "", 404, runnel.SessionNotFound)
	s.wantError("DELETE", path, "", 404, runnel.SessionNotFound)
}
