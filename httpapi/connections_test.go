package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/audit"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/command"
)

// netted is a scripted agent whose programs reach for hosts.
type netted struct {
	*able
	mu    sync.Mutex
	reach func(ctx context.Context, host string, port int) runnel.EgressAnswer // of the last agent
}

type nettedConn struct {
	runnel.Conn
	p *netted
}

func (p *netted) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	c, err := p.able.Open(ctx, opt)
	return nettedConn{c, p}, err
}

func (c nettedConn) OnEgress(f func(ctx context.Context, host string, port int) runnel.EgressAnswer) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.p.reach = f
}

func (p *netted) connect(t *testing.T, host string) <-chan runnel.EgressAnswer {
	p.mu.Lock()
	f := p.reach
	p.mu.Unlock()
	answer := make(chan runnel.EgressAnswer, 1)
	go func() { answer <- f(t.Context(), host, 443) }()
	return answer
}

func withNetted(t *testing.T, profiles map[string]string, edit ...func(*Config, *gateway.Config)) (*rig, *netted) {
	var p *netted
	rg, _ := withAble(t, profiles, append([]func(*Config, *gateway.Config){func(_ *Config, g *gateway.Config) {
		p = &netted{able: g.Providers[0].(*able)}
		g.Providers = []runnel.Provider{p}
	}}, edit...)...)
	return rg, p
}

const hangs = `{"steps":[{"text":"begun"},{"hang":true}]}`

// hanging starts a turn that shows something and does not end.
func (rg *rig) hanging(id string) (turn string) {
	rg.t.Helper()
	turn = rg.prompt(id, hangs)
	rg.until(id, func(ev event.Event) bool { return ev.Turn == turn && is[event.ItemDelta](ev) })
	return turn
}

// reaching returns the open question about a host.
func (rg *rig) reaching(id, host string) event.Approval {
	rg.t.Helper()
	return rg.until(id, func(ev event.Event) bool {
		b, ok := ev.Body.(event.ApprovalRequested)
		return ok && b.Approval.Title == "Reach "+host+":443"
	}).Body.(event.ApprovalRequested).Approval
}

func TestAnswerAboutAHostBecomesARule(t *testing.T) {
	var mu sync.Mutex
	var audited []audit.Record
	rg, p := withNetted(t, nil, func(_ *Config, g *gateway.Config) {
		g.Audit = func(r audit.Record) { mu.Lock(); defer mu.Unlock(); audited = append(audited, r) }
	})
	id := rg.create()
	turn := rg.hanging(id)
	answer := p.connect(t, "api.example.com")
	a := rg.reaching(id, "api.example.com")
	st := call[gateway.Status](rg, "GET", "/api/session/"+id+"/status", "", 200)
	if len(st.PendingApprovals) != 1 || st.PendingApprovals[0].ID != a.ID || st.Activity != event.ActivityWaiting {
		t.Errorf("status %+v", st)
	}
	path := "/api/session/" + id + "/approvals/" + url.PathEscape(a.ID)
	open := call[command.ApprovalAnswer](rg, "GET", path, "", 200)
	if len(open.SuggestedRules) != 1 || open.SuggestedRules[0].Kind != "connect" || open.SuggestedRules[0].Pattern != "api.example.com:443" || open.SuggestedRules[0].ProjectDir == "" || open.SuggestedRules[0].CLIType != "script" {
		t.Fatalf("suggested %+v", open.SuggestedRules)
	}
	remember, _ := json.Marshal(open.SuggestedRules[0])
	body := fmt.Sprintf(`{"choice":"allow_once","argumentsDigest":%q,"remember":%s}`, a.ArgumentsDigest, remember)
	all := rg.token
	rg.token = rg.mint(auth.Read, auth.Send)
	if w := rg.do("POST", path, body); w.Code != 403 {
		t.Errorf("answered without the scope approve: %d %s", w.Code, w.Body)
	}
	rg.token = all
	wrong := strings.Replace(body, "api.example.com:443", "other.example.com:443", 1)
	if msg := rg.wantError("POST", path, wrong, 400, runnel.InvalidRequest); !strings.Contains(msg, "would not decide") {
		t.Error(msg)
	}
	if made := call[command.DecideAnswer](rg, "POST", path, body, 200); made.Rule == nil || made.Rule.ID != 1 || made.Rule.Kind != "connect" {
		t.Fatalf("made %+v", made.Rule)
	}
	rg.wantError("POST", path, body, 409, runnel.ApprovalGone)
	want := runnel.EgressAnswer{By: "rule 1"}
	if got := <-answer; got != want {
		t.Errorf("answered %+v", got)
	}
	for range 3 {
		if got := <-p.connect(t, "api.example.com"); got != want {
			t.Errorf("answered %+v", got)
		}
	}
	list := call[rulesAnswer](rg, "GET", "/api/rules", "", 200).Rules
	if len(list) != 1 || list[0].Uses != 1 {
		t.Errorf("listed %+v", list)
	}
	rg.do("DELETE", "/api/rules/1", "")
	answer = p.connect(t, "api.example.com") // a removed rule decides nothing
	again := rg.until(id, func(ev event.Event) bool {
		b, ok := ev.Body.(event.ApprovalRequested)
		return ok && b.Approval.ToolName == event.ToolConnect && b.Approval.ID != a.ID
	}).Body.(event.ApprovalRequested).Approval
	call[command.DecideAnswer](rg, "POST", "/api/session/"+id+"/approvals/"+url.PathEscape(again.ID), `{"choice":"deny","reason":"no"}`, 200)
	if got := <-answer; got.Why != "denied: no" {
		t.Errorf("answered %+v", got)
	}
	call[struct{}](rg, "POST", "/api/session/"+id+"/cancel", `{}`, 200)
	rg.events(id, turn)
	mu.Lock()
	defer mu.Unlock()
	var got []string
	for _, r := range audited {
		if r.Kind == audit.Decision {
			got = append(got, fmt.Sprint(r.What, " ", r.Choice, " ", r.By, " ", r.Rule))
		}
	}
	if s := strings.Join(got, "|"); s != "connect: Reach api.example.com:443 allow_once user 1|connect: Reach api.example.com:443 allow_once policy 1|connect: Reach api.example.com:443 deny user 0" {
		t.Errorf("audited %s", s)
	}
}

// A stored rule that denies, and a profile that forbids the tool connect, refuse
// a host without a question.
func TestHostsAreDeniedWithoutAQuestion(t *testing.T) {
	rg, p := withNetted(t, map[string]string{"closed": "---\ndisallowed_tools: [connect]\n---\n"})
	rg.addRule(`{"effect":"deny","kind":"connect","pattern":"*.evil.example"}`, 201)
	id := rg.create()
	turn := rg.hanging(id)
	if got := <-p.connect(t, "a.evil.example"); !strings.HasPrefix(got.Why, "denied by rule 1, made") {
		t.Errorf("answered %+v", got)
	}
	call[struct{}](rg, "POST", "/api/session/"+id+"/cancel", `{}`, 200)
	evs := rg.events(id, turn)
	id = rg.createWith(`{"persona":"closed"}`)
	turn = rg.hanging(id)
	if got := <-p.connect(t, "good.example"); !strings.Contains(got.Why, `the profile "closed" does not allow connect`) {
		t.Errorf("answered %+v", got)
	}
	call[struct{}](rg, "POST", "/api/session/"+id+"/cancel", `{}`, 200)
	for _, ev := range append(evs, rg.events(id, turn)...) {
		if is[event.ApprovalRequested](ev) {
			t.Errorf("asked %+v", ev.Body)
		}
	}
}
