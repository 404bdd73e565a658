package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/command"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/httpapi/stream"
	"github.com/runnel-dev/runnel/provider/script"
	"github.com/runnel-dev/runnel/store/memory"
)

// ask makes an agent request an approval, and returns once it waits for a
// client. Before that, the gateway may decide it by a rule.
func (rg *rig) ask() (id string, asked event.Approval) {
	rg.t.Helper()
	id = rg.create()
	rg.prompt(id, "approve")
	asked = rg.until(id, is[event.ApprovalRequested]).Body.(event.ApprovalRequested).Approval
	rg.untilPending(id)
	return id, asked
}

// An approval is never granted because the clients that could answer disappear,
// or because an answer is not one of the choices.
func TestFailClosed(t *testing.T) {
	pending := ""
	for name, tt := range map[string]struct {
		timeout time.Duration
		happens func(s *site, id string, asked event.Approval)
		want    string // the answer; "" if the approval keeps waiting
	}{
		"no client":              {0, func(*site, string, event.Approval) { <-time.After(24 * time.Hour) }, pending},
		"no client, but a limit": {time.Minute, func(*site, string, event.Approval) { <-time.After(time.Minute + time.Second) }, "timeout"},
		"disconnect": {0, func(s *site, id string, _ event.Approval) {
			p := s.subscribed(stream.FamilyUpsert, id)
			_ = p.conn.CloseNow()
			<-time.After(time.Hour)
		}, pending},
		"disconnect, with a limit": {time.Minute, func(s *site, id string, _ event.Approval) {
			p := s.subscribed(stream.FamilyUpsert, id)
			_ = p.conn.CloseNow()
			<-time.After(time.Minute + time.Second)
		}, "timeout"},
		"disconnect in the middle of yes": {0, func(s *site, id string, asked event.Approval) {
			c, err := s.ln.dial(s.t.Context(), "", "")
			if err != nil {
				s.t.Fatal(err)
			}
			body := `{"choice":"allow","argumentsDigest":"` + asked.ArgumentsDigest + `"}`
			fmt.Fprintf(c, "POST /api/session/%s/approvals/%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
				id, asked.ID, s.token, len(body), body[:len(body)-1])
			_ = c.Close()
			synctest.Wait()
		}, pending},
		"unknown option": {0, func(s *site, id string, asked event.Approval) {
			for _, choice := range []string{"yes", "ALLOW", "allow ", "allow_once\x00", "", "deny,allow", strings.Repeat("a", 1000)} {
				body, _ := json.Marshal(command.DecideRequest{Choice: choice, ArgumentsDigest: asked.ArgumentsDigest})
				if w := s.do("POST", "/api/session/"+id+"/approvals/"+asked.ID, string(body)); w.Code != 400 {
					s.t.Errorf("%q: got %d %s", choice, w.Code, w.Body)
				}
			}
		}, pending},
		"malformed": {0, func(s *site, id string, asked event.Approval) {
			p := s.join(stream.FamilyUpsert)
			for _, body := range []string{`{"choice":"allow"`, `{"choice":"deny","choice":"allow"}`, `{"Choice":"allow"}`, `{"choice":["allow"]}`, `{"choice":"allow","argumentsDigest":5}`, `"allow"`, `null`, `[]`} {
				if w := s.do("POST", "/api/session/"+id+"/approvals/"+asked.ID, body); w.Code != 400 {
					s.t.Errorf("%s: got %d %s", body, w.Code, w.Body)
				}
			}
			p.send(`{"type":"session:decide","requestId":"d","sessionId":%q,"approvalId":%q,"choice":true}`, id, asked.ID)
			if f := p.await("error", "response"); f.Type != "error" {
				s.t.Errorf("got %+v", f)
			}
			_ = p.conn.CloseNow()
		}, pending},
		"other arguments": {0, func(s *site, id string, asked event.Approval) {
			body := `{"choice":"allow","argumentsDigest":"` + strings.Repeat("0", 64) + `"}`
			if w := s.do("POST", "/api/session/"+id+"/approvals/"+asked.ID, body); w.Code != 409 {
				s.t.Errorf("got %d %s", w.Code, w.Body)
			}
		}, pending},
		"no digest": {0, func(s *site, id string, asked event.Approval) {
			for _, body := range []string{`{"choice":"allow"}`, `{"choice":"allow","argumentsDigest":""}`} {
				if w := s.do("POST", "/api/session/"+id+"/approvals/"+asked.ID, body); w.Code != 400 || !strings.Contains(w.Body.String(), "argumentsDigest: ") {
					s.t.Errorf("%s: got %d %s", body, w.Code, w.Body)
				}
			}
			p := s.join(stream.FamilyUpsert)
			p.send(`{"type":"session:decide","requestId":"d","sessionId":%q,"approvalId":%q,"choice":"allow"}`, id, asked.ID)
			if f := p.await("error", "response"); f.Type != "error" || !strings.Contains(f.Error.Message, "argumentsDigest: ") {
				s.t.Errorf("got %+v", f)
			}
			_ = p.conn.CloseNow()
		}, pending},
		"cancel": {0, func(s *site, id string, _ event.Approval) {
			call[reply.Empty](s.rig, "POST", "/api/session/"+id+"/cancel", "", 200)
			synctest.Wait()
		}, "policy"},
		"kill": {0, func(s *site, id string, _ event.Approval) {
			call[reply.Empty](s.rig, "POST", "/api/session/"+id+"/kill", "", 200)
			synctest.Wait()
		}, "policy"},
	} {
		t.Run(name, func(t *testing.T) {
			timed(t, minute)
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, func(_ *Config, g *gateway.Config) { g.ApprovalTimeout, g.StallTimeout = tt.timeout, -1 })
				id, asked := s.ask()
				tt.happens(s, id, asked)
				s.notAllowed(id, asked, tt.want)
			})
		})
	}
}

// notAllowed fails the test if an approval was granted, or was not denied in
// the way that the test wants.
func (rg *rig) notAllowed(id string, asked event.Approval, want string) {
	rg.t.Helper()
	var answers []event.ApprovalResolved
	for ev, err := range rg.log.Read(rg.t.Context(), id, 0) {
		if err != nil {
			rg.t.Fatal(err)
		}
		if r, ok := ev.Body.(event.ApprovalResolved); ok && r.ApprovalID == asked.ID {
			answers = append(answers, r)
		}
	}
	for _, a := range answers {
		i := slices.IndexFunc(asked.Choices, func(c event.Choice) bool { return c.ID == a.Choice })
		if i >= 0 && strings.HasPrefix(string(asked.Choices[i].Kind), "allow") {
			rg.t.Errorf("it was allowed: %+v", a)
		}
	}
	st, err := rg.gw.Status(rg.t.Context(), id)
	switch {
	case err != nil:
		rg.t.Error(err)
	case want == "" && (len(answers) != 0 || len(st.PendingApprovals) != 1):
		rg.t.Errorf("it does not wait any more: %+v, %+v", answers, st.PendingApprovals)
	case want != "" && (len(answers) != 1 || string(answers[0].By) != want || len(st.PendingApprovals) != 0):
		rg.t.Errorf("got %+v and %+v, want an answer by %s", answers, st.PendingApprovals, want)
	}
}

// A restarted server knows an old approval only as one that was not answered,
// because the agent that asked has ended.
func TestFailClosedOverARestart(t *testing.T) {
	log := new(runnel.Memory)
	cat := memory.New(log)
	dir := t.TempDir()
	edit := func(_ *Config, g *gateway.Config) { g.Log, g.Catalogue, g.DataDir = log, cat, dir }
	var id string
	var asked event.Approval
	t.Run("before", func(t *testing.T) {
		rg := newRig(t, edit)
		rg.log = log
		id, asked = rg.ask()
	})
	t.Run("after", func(t *testing.T) {
		rg := newRig(t, edit)
		rg.log = log
		rg.notAllowed(id, asked, "policy")
		for _, choice := range asked.Choices {
			body, _ := json.Marshal(command.DecideRequest{Choice: choice.ID, ArgumentsDigest: asked.ArgumentsDigest})
			if w := rg.do("POST", "/api/session/"+id+"/approvals/"+asked.ID, string(body)); w.Code != 409 || code(w) != "APPROVAL_GONE" {
				t.Errorf("%s afterwards: got %d %s", choice.ID, w.Code, w.Body)
			}
		}
		rg.notAllowed(id, asked, "policy")
	})
	// As after a kill: only the log's content remains.
	copied := new(runnel.Memory)
	t.Run("killed", func(t *testing.T) {
		first := newRig(t)
		id, asked = first.ask()
		var evs []event.Event
		for ev, err := range first.log.Read(t.Context(), id, 0) {
			if err != nil {
				t.Fatal(err)
			}
			evs = append(evs, ev)
		}
		rec, err := first.cat.Session(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		cat := memory.New(copied)
		if err := copied.Append(t.Context(), id, 0, evs...); err != nil {
			t.Fatal(err)
		}
		if err := cat.PutSession(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
		gw, err := gateway.Open(t.Context(), gateway.Config{Log: copied, Catalogue: cat, Providers: []runnel.Provider{script.New()}})
		if err != nil {
			t.Fatal(err)
		}
		defer gw.Close(context.Background())
		second := &rig{t: t, log: copied, gw: gw}
		second.notAllowed(id, asked, "policy")
	})
}

// An approval that was requested while no client was connected is shown to the
// next client, with the time of the request, and can be answered.
func TestOfflineRequestVisible(t *testing.T) {
	timed(t, minute)
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(_ *Config, g *gateway.Config) { g.StallTimeout = -1 })
		id, asked := s.ask()
		at := s.until(id, is[event.ApprovalRequested]).At
		<-time.After(26 * time.Hour)
		list := call[listAnswer](s.rig, "GET", "/api/session/list?projectId=*", "", 200)
		if len(list.Sessions) != 1 || list.Sessions[0].Activity != event.ActivityWaiting || len(list.Sessions[0].PendingApprovals) != 1 ||
			list.Sessions[0].PendingApprovals[0].ArgumentsDigest != asked.ArgumentsDigest {
			t.Errorf("the list says %+v", list)
		}
		if took := time.Since(at); took < 26*time.Hour {
			t.Errorf("asked %v ago", took)
		}
		p := s.join(stream.FamilyUpsert)
		p.send(`{"type":"session:subscribe","sessionId":%q}`, id)
		seen := false
		for f := p.await("session:history"); ; f = p.await("session:history") {
			for _, e := range f.Entries {
				var entry struct {
					Type    string
					Payload struct {
						Timestamp time.Time
						Status    string
						Approval  event.Approval
					}
				}
				if err := json.Unmarshal(e, &entry); err != nil {
					t.Fatal(err)
				}
				if entry.Type == "session:approval" {
					seen = true
					if !entry.Payload.Timestamp.Equal(at.Truncate(time.Millisecond)) && !entry.Payload.Timestamp.Equal(at) || entry.Payload.Status != "pending" || entry.Payload.Approval.ID != asked.ID {
						t.Errorf("got %s, asked at %v", e, at)
					}
				}
			}
			if f.Done {
				break
			}
		}
		if !seen {
			t.Error("the history does not have it")
		}
		p.send(`{"type":"session:decide","requestId":"d","sessionId":%q,"approvalId":%q,"choice":"deny","argumentsDigest":%q}`, id, asked.ID, asked.ArgumentsDigest)
		if f := p.await("response", "error"); f.Type != "response" {
			t.Errorf("got %+v", f.Error)
		}
		if r := s.until(id, is[event.ApprovalResolved]).Body.(event.ApprovalResolved); r.By != event.ByUser || r.Choice != "deny" {
			t.Errorf("answered %+v", r)
		}
		_ = p.conn.CloseNow()
	})
}
