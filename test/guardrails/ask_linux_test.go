package guardrails

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/internal/testapi"
)

const reachRole = "play-reacher"

// reach asks the proxy of the environment for connections to all addresses at
// the same time, and writes the answers to the report. It tries again while the
// proxy gives no answer.
func reach(addresses []string) int {
	var mu sync.Mutex
	var all sync.WaitGroup
	answers := map[string]string{}
	proxy, err := url.Parse(os.Getenv("HTTPS_PROXY"))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	for _, at := range addresses {
		all.Go(func() {
			var got string
			for range 600 {
				c, err := net.Dial("tcp", proxy.Host)
				if err == nil {
					got, err = answeredWithin(c, at, 4*time.Minute)
				}
				if err == nil || strings.HasPrefix(err.Error(), "4") || strings.HasPrefix(err.Error(), "5") {
					if err != nil {
						got = err.Error()
					}
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
			mu.Lock()
			defer mu.Unlock()
			answers[at] = got
		})
	}
	all.Wait()
	out, err := json.Marshal(answers)
	if err == nil {
		err = os.WriteFile(reportFile, out, 0o600)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// asked creates a session whose sandbox asks.
func (w *world) asked() string {
	w.t.Helper()
	id, code, message := w.create(map[string]any{"sandbox": "project", "egress": map[string]any{"mode": "ask", "allow": []string{"localhost:" + port(w.model.URL())}}})
	if code != http.StatusCreated {
		w.t.Fatalf("create: %d %s", code, message)
	}
	return id
}

// reaching begins a turn whose tool reaches for the addresses.
func (w *world) reaching(c *testapi.Client, addresses ...string) (turn string) {
	tools := realagents.ToolsetOf(w.agent.Name)
	_ = os.Remove(filepath.Join(w.home.Project, reportFile))
	command := "./attacker " + reachRole + " " + strings.Join(addresses, " ")
	return c.Send(fakemodel.Scenario{Steps: []fakemodel.Step{{Blocks: []fakemodel.Block{tools.Shell(command)}}, {Text: "done"}}}.Prompt("Go."))
}

// questions returns the questions about hosts up to n, by what they are about. It
// answers the agent's own questions.
func questions(c *testapi.Client, n int) map[string]event.Approval {
	asked := map[string]event.Approval{}
	c.Until(fmt.Sprintf("%d questions about hosts", n), func(ev event.Event) bool {
		b, ok := ev.Body.(event.ApprovalRequested)
		switch {
		case !ok:
		case b.Approval.ToolName == event.ToolConnect:
			asked[strings.TrimPrefix(b.Approval.Title, "Reach ")] = b.Approval
		default:
			c.Decide(b.Approval)
		}
		return len(asked) == n
	})
	return asked
}

// answer decides an approval. It stores the first suggested rule if remember is
// set.
func (w *world) answer(session string, a event.Approval, choice, reason string, remember bool) {
	w.t.Helper()
	path := "/api/session/" + session + "/approvals/" + url.PathEscape(a.ID)
	body := map[string]any{"choice": choice, "argumentsDigest": a.ArgumentsDigest, "reason": reason}
	if remember {
		var open struct{ SuggestedRules []map[string]any }
		if code, _ := w.Call("GET", path, nil, &open); code != http.StatusOK || len(open.SuggestedRules) != 1 {
			w.t.Fatalf("%s: %d, suggested %+v", a.Title, code, open.SuggestedRules)
		}
		body["remember"] = open.SuggestedRules[0]
	}
	var fault struct{ Error struct{ Message string } }
	if code, _ := w.Call("POST", path, body, &fault); code != http.StatusOK {
		w.t.Fatalf("%s: %d %s", a.Title, code, fault.Error.Message)
	}
}

// attempts returns what the record of the session's egress has about an address.
func (w *world) attempts(session, at string) (out []runnel.EgressAttempt) {
	w.t.Helper()
	var record struct{ Attempts []runnel.EgressAttempt }
	if code, _ := w.Call("GET", "/api/session/"+session+"/egress", nil, &record); code != http.StatusOK {
		w.t.Fatalf("egress: %d", code)
	}
	for _, a := range record.Attempts {
		if net.JoinHostPort(a.Host, fmt.Sprint(a.Port)) == at {
			out = append(out, a)
		}
	}
	return out
}

// TestSandboxAsksAboutHosts answers the questions about hosts that a tool in a
// sandbox reaches for. The names do not exist: what is allowed ends with 502, as
// the proxy cannot find the host, and what is refused with 403.
func TestSandboxAsksAboutHosts(t *testing.T) {
	each(t, func(t *testing.T, agent realagents.Binary) {
		w := newWorld(t, agent)
		w.place(targets{})
		session := w.asked()
		c := w.Watch(session)
		defer c.Leave()
		self, _ := os.Hostname()
		if _, err := net.LookupHost(self); err != nil {
			self = "" // the machine does not know its own name
		}
		addresses := []string{"once.invalid:443", "session.invalid:443", "denied.invalid:443", "always.invalid:8443"}
		if self != "" {
			addresses = append(addresses, self+":443")
		}
		silent := []string{"10.0.0.1:443", "169.254.169.254:80", "localhost:22", w.Addr, "a..b:443"}
		turn := w.reaching(c, slices.Concat(addresses, silent)...)
		asked := questions(c, len(addresses))
		w.answer(session, asked["once.invalid:443"], "allow_once", "", false)
		w.answer(session, asked["session.invalid:443"], "allow_session", "", false)
		w.answer(session, asked["denied.invalid:443"], "deny", "not this one", false)
		w.answer(session, asked["always.invalid:8443"], "allow_once", "", true)
		if self != "" {
			w.answer(session, asked[strings.ToLower(self)+":443"], "allow_once", "", false)
		}
		if end := c.End(turn); !isDone(end) {
			t.Errorf("the turn ended with %+v", end.Body)
		}
		report := w.report(c.Events)
		for at, want := range map[string]string{
			"once.invalid:443": "502", "session.invalid:443": "502", "always.invalid:8443": "502", "denied.invalid:443": "403 Forbidden: NETWORK_POLICY_VIOLATION: Runnel blocks denied.invalid:443: denied: not this one",
			"10.0.0.1:443": "403", "169.254.169.254:80": "403", "localhost:22": "403", w.Addr: "403", "a..b:443": "403",
		} {
			if !strings.HasPrefix(report[at], want) {
				t.Errorf("%s: answered %q, want %q", at, report[at], want)
			}
		}
		if self != "" && (!strings.HasPrefix(report[self+":443"], "403") || !strings.Contains(report[self+":443"], "only egress.allow can")) {
			t.Errorf("the machine itself: %q", report[self+":443"])
		}
		if n := count(c.Events, event.ToolConnect); n != len(addresses) {
			t.Errorf("%d questions, want %d", n, len(addresses))
		}
		for at, want := range map[string]string{"once.invalid:443": "allowed once", "session.invalid:443": "allowed for the session", "always.invalid:8443": "rule 1", "denied.invalid:443": ""} {
			if got := w.attempts(session, at); len(got) != 1 || got[0].By != want {
				t.Errorf("%s is recorded as %+v, want %q", at, got, want)
			}
		}

		turn = w.reaching(c, "once.invalid:443", "session.invalid:443", "always.invalid:8443")
		asked = questions(c, 1)
		again := asked["once.invalid:443"]
		if again.ID == "" {
			t.Fatalf("asked again about %v", asked)
		}
		if code, _ := w.Call("POST", "/api/session/"+session+"/cancel", map[string]any{}, nil); code >= 300 {
			t.Fatalf("cancel: %d", code)
		}
		c.End(turn)
		if got := w.attempts(session, "once.invalid:443"); len(got) != 2 || got[1].By != "" || got[1].Why == "" {
			t.Errorf("the open question of a cancelled turn is recorded as %+v", got)
		}
		if got := resolved(c.Events, again.ID); len(got) != 1 || got[0].Choice != event.ChoiceWithdrawn {
			t.Errorf("the open question of a cancelled turn was resolved as %+v", got)
		}
		for _, text := range []string{"Reach once.invalid:443", "Reach denied.invalid:443", "allow_session"} {
			if out := w.prog.Command(t, "audit"); !strings.Contains(out, text) {
				t.Errorf("the audit log lacks %q:\n%s", text, out)
			}
		}
		if out := w.prog.Command(t, "rules", "list"); !strings.Contains(out, "always.invalid:8443") {
			t.Errorf("rules:\n%s", out)
		}
	}, "codex")
}

// count returns the number of questions about a tool.
func count(events []event.Event, tool string) (n int) {
	for _, ev := range events {
		if b, ok := ev.Body.(event.ApprovalRequested); ok && b.Approval.ToolName == tool {
			n++
		}
	}
	return n
}

// resolved returns the resolutions of an approval.
func resolved(events []event.Event, id string) (out []event.ApprovalResolved) {
	for _, ev := range events {
		if b, ok := ev.Body.(event.ApprovalResolved); ok && b.ApprovalID == id {
			out = append(out, b)
		}
	}
	return out
}

// TestQuestionAboutHostEndsWithTheServer kills the server while a question is
// open. The next server withdraws it, and asks again when the program tries
// again.
func TestQuestionAboutHostEndsWithTheServer(t *testing.T) {
	each(t, func(t *testing.T, agent realagents.Binary) {
		w := newWorld(t, agent)
		w.place(targets{})
		session := w.asked()
		c := w.Watch(session)
		turn := w.reaching(c, "once.invalid:443")
		first := questions(c, 1)["once.invalid:443"]
		w.prog.Kill()
		c.Leave()
		w.start()
		c = w.Watch(session)
		defer c.Leave()
		var second event.Approval
		c.Until("the second question", func(ev event.Event) bool {
			b, ok := ev.Body.(event.ApprovalRequested)
			if ok && b.Approval.ToolName == event.ToolConnect && b.Approval.ID != first.ID {
				second = b.Approval
			}
			return second.ID != ""
		})
		w.answer(session, second, "allow_once", "", false)
		if end := c.End(turn); !isDone(end) {
			t.Errorf("the turn ended with %+v", end.Body)
		}
		if got := resolved(c.Events, first.ID); len(got) != 1 || got[0].Choice != event.ChoiceWithdrawn {
			t.Errorf("the first question was resolved as %+v", got)
		}
		if got := resolved(c.Events, second.ID); len(got) != 1 || got[0].Choice != "allow_once" {
			t.Errorf("the second question was resolved as %+v", got)
		}
		if got := w.report(c.Events)["once.invalid:443"]; !strings.HasPrefix(got, "502") {
			t.Errorf("answered %q", got)
		}
	}, "claude-code")
}
