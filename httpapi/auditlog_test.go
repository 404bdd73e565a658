package httpapi

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/audit"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/browser"
	"github.com/runnel-dev/runnel/httpapi/command"
)

// auditLog opens an audit log for a test.
func auditLog(t *testing.T) *audit.Log {
	t.Helper()
	log, err := audit.Open(audit.Config{Place: audit.Place{Dir: filepath.Join(t.TempDir(), "audit"), Head: filepath.Join(t.TempDir(), "head"), Secret: "secret"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	return log
}

// audited returns the entries of a kind.
func audited(t *testing.T, log *audit.Log, kind audit.Action) (out []audit.Record) {
	t.Helper()
	all, err := log.Read(audit.Query{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if e.Kind == kind {
			out = append(out, e)
		}
	}
	return out
}

// Whatever route deletes a session, the audit log has it first, and without an
// entry the session stays.
func TestEveryDeletionIsAudited(t *testing.T) {
	for name, del := range map[string]struct{ method, path, body string }{
		"session":   {"DELETE", "/api/session/", ""},
		"harness":   {"DELETE", "/api/harness/session/", ""},
		"retention": {"POST", "/api/retention", `{"olderThan":"1ns"}`},
	} {
		t.Run(name, func(t *testing.T) {
			log := auditLog(t)
			rg := newRig(t, func(c *Config, _ *gateway.Config) { c.Audit = log })
			rg.token = rg.mint(auth.Read, auth.Send, auth.Admin)
			target := func(id string) string {
				if del.method == "POST" {
					return del.path
				}
				return del.path + id
			}
			id := rg.create()
			rg.events(id, rg.prompt(id, "text"))
			if w := rg.do(del.method, target(id), del.body); w.Code != 200 {
				t.Fatalf("got %d %s", w.Code, w.Body)
			}
			if got := audited(t, log, audit.SessionDeleted); len(got) != 1 || got[0].Session != id || got[0].Credential == "" {
				t.Errorf("the log has the deletions %+v, want one of %s", got, id)
			}
			id = rg.create()
			rg.events(id, rg.prompt(id, "text"))
			if err := log.Close(); err != nil {
				t.Fatal(err)
			}
			if w := rg.do(del.method, target(id), del.body); w.Code != 503 {
				t.Errorf("without a log: got %d %s", w.Code, w.Body)
			}
			if w := rg.do("GET", "/api/session/"+id+"/status", ""); w.Code != 200 {
				t.Errorf("the session was deleted without an entry: %d %s", w.Code, w.Body)
			}
		})
	}
}

// What a route refuses did not happen, so the audit log has no entry of it.
func TestRefusedDeletionsAndForksAreNotAudited(t *testing.T) {
	log := auditLog(t)
	rg := newRig(t, func(c *Config, _ *gateway.Config) { c.Audit = log })
	id := rg.create()
	if w := rg.do("POST", "/api/session/"+id+"/options", `{"permissionMode":"acceptEdits"}`); w.Code != 200 {
		t.Fatalf("got %d %s", w.Code, w.Body)
	}
	created := len(audited(t, log, audit.SessionCreated))
	turn := rg.hanging(id)
	for _, refused := range []struct{ method, path, body string }{
		{"DELETE", "/api/harness/session/" + id, ""},
		{"POST", "/api/session/" + id + "/fork", `{"turnId":"` + turn + `"}`},
		{"POST", "/api/session/" + id + "/fork", `{"turnId":"other"}`},
	} {
		if w := rg.do(refused.method, refused.path, refused.body); w.Code != 409 && w.Code != 400 {
			t.Errorf("%s %s %s: got %d %s", refused.method, refused.path, refused.body, w.Code, w.Body)
		}
	}
	if got := audited(t, log, audit.SessionDeleted); len(got) != 0 {
		t.Errorf("the log has the deletions %+v", got)
	}
	if got := audited(t, log, audit.SessionCreated)[created:]; len(got) != 0 {
		t.Errorf("the log has the new sessions %+v", got)
	}
}

// A fork has the settings of its session, so its agent may act without asking,
// too.
func TestForkThatMayActWithoutAskingIsAudited(t *testing.T) {
	log := auditLog(t)
	rg := newRig(t, func(c *Config, _ *gateway.Config) { c.Audit = log })
	asking, accepting := rg.create(), rg.create()
	if w := rg.do("POST", "/api/session/"+accepting+"/options", `{"permissionMode":"acceptEdits"}`); w.Code != 200 {
		t.Fatalf("got %d %s", w.Code, w.Body)
	}
	before := len(audited(t, log, audit.SessionCreated))
	for i, id := range []string{asking, accepting} {
		turn := rg.prompt(id, "text")
		rg.events(id, turn)
		rg.token = rg.mint(auth.Read, auth.Send)
		if w := rg.do("POST", "/api/session/"+id+"/fork", `{"turnId":"`+turn+`"}`); w.Code != 201 {
			t.Fatalf("got %d %s", w.Code, w.Body)
		}
		got := audited(t, log, audit.SessionCreated)[before:]
		if len(got) != i || i > 0 && (!strings.Contains(got[0].What, "acceptEdits") || !strings.Contains(got[0].What, id) || got[0].Credential == "") {
			t.Errorf("after fork %d the log has %+v", i, got)
		}
	}
}

func TestRuleThatADecisionStoresIsAudited(t *testing.T) {
	log := auditLog(t)
	rg := newRig(t, func(c *Config, _ *gateway.Config) { c.Audit = log })
	id := rg.create()
	a := rg.asked(id, "git status")
	path := "/api/session/" + id + "/approvals/" + url.PathEscape(a.ID)
	body := fmt.Sprintf(`{"choice":"allow","argumentsDigest":%q,"remember":{"kind":"execute","pattern":"git status"}}`, a.ArgumentsDigest)
	call[command.DecideAnswer](rg, "POST", path, body, 200)
	if got := audited(t, log, audit.RuleAdded); len(got) != 1 || !strings.Contains(got[0].What, "allow execute git status") || got[0].Session != id || got[0].Credential == "" {
		t.Errorf("the log has the rules %+v", got)
	}
	rg.until(id, func(ev event.Event) bool { return event.Ends(ev.Body) })
	a = rg.asked(id, "git diff")
	path = "/api/session/" + id + "/approvals/" + url.PathEscape(a.ID)
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	body = fmt.Sprintf(`{"choice":"allow","argumentsDigest":%q,"remember":{"kind":"execute","pattern":"git diff"}}`, a.ArgumentsDigest)
	if w := rg.do("POST", path, body); w.Code != 503 {
		t.Errorf("without a log: got %d %s", w.Code, w.Body)
	}
	if w := rg.do("GET", path, ""); w.Code != 200 {
		t.Errorf("it was decided without an entry: %d %s", w.Code, w.Body)
	}
}

func TestEndOfAllLoginsIsAudited(t *testing.T) {
	log := auditLog(t)
	rg := newRig(t, func(c *Config, _ *gateway.Config) { c.Audit = log })
	call[codeAnswer](rg, "POST", "/api/login/code", `{"newOrigin":true}`, 201)
	if got := audited(t, log, audit.Revoked); len(got) != 1 || got[0].Credential == "" {
		t.Errorf("the log has %+v", got)
	}
	log = auditLog(t)
	rg = newRig(t, func(c *Config, _ *gateway.Config) { c.Audit = log })
	half := rg.login()
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if w := rg.do("POST", "/api/login/code", `{"newOrigin":true}`); w.Code != 503 {
		t.Errorf("without a log: got %d %s", w.Code, w.Body)
	}
	if w := rg.do("GET", "/api/me", "", anonymous, host("own.localhost:7777"), header("Cookie", browser.CookieName+"="+half.Cookie),
		header(browser.KeyHeader, half.Key), header("Sec-Fetch-Site", "same-origin")); w.Code != 200 {
		t.Errorf("the login ended without an entry: %d %s", w.Code, w.Body)
	}
}
