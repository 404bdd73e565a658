package httpapi

import (
	"strings"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/gateway"
)

func TestRetentionIsPreviewedAndApplied(t *testing.T) {
	rg := newRig(t, func(_ *Config, c *gateway.Config) { c.Retention.Age = time.Hour })
	old := rg.create()
	rg.events(old, rg.prompt(old, "text"))
	if x := call[gateway.Expiry](rg, "GET", "/api/retention", "", 200); x.OlderThan != "1h0m0s" || x.Count != 0 || x.Sessions == nil {
		t.Errorf("by the setting: %+v", x)
	}
	x := call[gateway.Expiry](rg, "GET", "/api/retention?olderThan=1ns", "", 200)
	if x.Count != 1 || x.Sessions[0].SessionID != old || x.Sessions[0].Reason != "age" || x.Sessions[0].ProjectDir != rg.dir || x.FreedBytes == 0 {
		t.Errorf("preview: %+v", x)
	}
	rg.answers(rg.document(), "GET", "/api/retention", "/api/retention?olderThan=1ns&maxMib=5", "")
	working := rg.create()
	rg.prompt(working, "hang")
	for target, body := range map[string]string{
		"/api/retention?olderThan=soon": "", "/api/retention?olderThan=-1h": "", "/api/retention?maxMib=-1": "",
		"/api/retention": `{}`, "/api/retention?": `{"olderThan":"0s"}`,
	} {
		method := "GET"
		if body != "" {
			method = "POST"
		}
		if w := rg.do(method, target, body); w.Code != 400 {
			t.Errorf("%s %s %s: %d %s", method, target, body, w.Code, w.Body)
		}
	}
	if x := call[gateway.Expiry](rg, "POST", "/api/retention", `{"olderThan":"1ns"}`, 200); x.Count != 1 || x.Sessions[0].SessionID != old {
		t.Errorf("applied: %+v", x)
	}
	if w := rg.do("GET", "/api/session/"+old+"/status", ""); w.Code != 404 {
		t.Errorf("the old session: %d %s", w.Code, w.Body)
	}
	if w := rg.do("GET", "/api/session/"+working+"/status", ""); w.Code != 200 {
		t.Errorf("the working session: %d %s", w.Code, w.Body)
	}
	rg.token = rg.bind(rg.dir, "read")
	if w := rg.do("GET", "/api/retention", ""); w.Code != 403 {
		t.Errorf("a token of one project: %d %s", w.Code, w.Body)
	}
}

// A session that the policy deletes ends its streams, as any deletion does.
func TestRetentionEndsStreams(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	s.events(id, s.prompt(id, "text"))
	follow := s.get("/api/session/" + id + "/events")
	if x := call[gateway.Expiry](s.rig, "POST", "/api/retention", `{"olderThan":"1ns"}`, 200); x.Count != 1 {
		t.Fatalf("%+v", x)
	}
	if last := ending(follow.Body, 1); len(last) != 1 || last[0].name != "stream:end" || !strings.Contains(string(last[0].data), "SESSION_NOT_FOUND") {
		t.Errorf("the events end with %+v", last)
	}
}
