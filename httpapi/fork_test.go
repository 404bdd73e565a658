package httpapi

import (
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/event"
)

// A fork after a turn returns a draft. The draft is the same if the request is
// repeated with its Idempotency-Key, and no further session is created.
func TestForkAfterATurnOverHTTP(t *testing.T) {
	rg := newRig(t)
	id := rg.create()
	turn := rg.prompt(id, "text")
	rg.events(id, turn)
	rg.events(id, rg.prompt(id, "tools"))
	path, body := "/api/session/"+id+"/fork", `{"turnId":"`+turn+`"}`
	key := header("Idempotency-Key", "k")
	w, again := rg.do("POST", path, body, key), rg.do("POST", path, body, key)
	if w.Code != 201 || again.Body.String() != w.Body.String() {
		t.Fatalf("got %d %s, then %s", w.Code, w.Body, again.Body)
	}
	forked := call[forkAnswer](rg, "POST", path, body, 201)
	if !strings.Contains(forked.Draft, "User:\n> text\n") || strings.Contains(forked.Draft, "tools") || !strings.Contains(w.Body.String(), `"draft":`) {
		t.Errorf("the draft is %q", forked.Draft)
	}
	if list := call[listAnswer](rg, "GET", "/api/session/list?projectId=*", "", 200).Sessions; len(list) != 3 {
		t.Errorf("%d sessions", len(list))
	}
	rg.prompt(forked.SessionID, forked.Draft+"text")
	first := rg.until(forked.SessionID, is[event.ItemDone]).Body.(event.ItemDone).FinalItem.(event.Message)
	if !strings.HasPrefix(first.Content, "This continues") {
		t.Errorf("the first prompt is %q", first.Content)
	}
	rg.wantError("POST", path, `{"turnId":"none"}`, 400, runnel.InvalidRequest)
	rg.wantError("POST", path, `{"turn":"none"}`, 400, runnel.InvalidRequest)
	rg.token = rg.mint(auth.Read)
	rg.wantError("POST", path, body, 403, runnel.Forbidden)
}
