//go:build linux

package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/testapi"
	"github.com/runnel-dev/runnel/internal/testload"
)

// users calls f with nil, which stands for the user who runs the test. If that
// user is root, it also calls f with an ordinary user, because the system gives
// root more rights.
func users(t *testing.T, f func(t *testing.T, user *syscall.Credential)) {
	if os.Getuid() != 0 {
		f(t, nil)
		return
	}
	t.Run("root", func(t *testing.T) { f(t, nil) })
	t.Run("stranger", func(t *testing.T) { f(t, stranger) })
}

// TestAgentCannotAnswerItsOwnQuestion has a program under an agent try
// everything to decide the agent's approval, or to find a credential for that.
// The program runs as the agent's tool and as a detached process.
func TestAgentCannotAnswerItsOwnQuestion(t *testing.T) {
	users(t, func(t *testing.T, user *syscall.Credential) {
		w := newWorld(t, user, "60s")
		w.start()
		other := w.Follow(w.create())
		defer other.Leave()
		other.End(other.Send(plan{Deltas: 1}.prompt())) // its agent keeps running

		c := w.Watch(w.create())
		defer c.Leave()
		turn := c.Send(plan{Deltas: 1, Ask: true, Tool: []string{w.agent(), "play-spy", w.project, spyDirect}}.prompt())
		asked := c.Until("question", func(ev event.Event) bool { _, ok := ev.Body.(event.ApprovalRequested); return ok })
		a := asked.Body.(event.ApprovalRequested).Approval
		o := w.orders(c.Session, other.Session, a)
		w.give("orders", o)

		for _, way := range []string{spyDirect, spyDetached} {
			r := w.report(way)
			t.Logf("%s: %d files and processes; pid %d under %d", way, r.Looked, r.Pid, r.Parent)
			w.judge(way, r, user != nil || os.Getuid() != 0)
		}
		if !w.says("refused a process that an agent may have started", 20) {
			t.Error("the operator was told less than 20 times")
		}

		code, _ := w.Call("POST", "/api/session/"+c.Session+"/approvals/"+a.ID, object{"choice": "allow_once", "argumentsDigest": a.ArgumentsDigest}, nil)
		if code != http.StatusOK {
			t.Errorf("who may answer was told %d", code)
		}
		end := c.End(turn)
		resolved := 0
		for _, ev := range c.Events {
			if b, ok := ev.Body.(event.ApprovalResolved); ok {
				resolved++
				t.Logf("resolved: %+v", b)
			}
		}
		if _, ok := end.Body.(event.ResponseDone); !ok || resolved != 1 {
			t.Errorf("%d answers, and the end %+v", resolved, end.Body)
		}
		w.killSessions()
		w.empty(5 * time.Second)
	})
}

// orders returns the orders for the spy: credentials as if it had found them,
// and, disguised, secrets that it must not find.
func (w *world) orders(own, other string, approval event.Approval) orders {
	w.t.Helper()
	stolen, _ := w.browse(w.link())
	_, secret := w.browse(w.link())
	o := orders{
		Binary: program, Data: w.data, Addr: w.Addr, Server: w.cmd.Process.Pid, Own: own, Other: other, Project: w.project, Approval: approval.ID, Digest: approval.ArgumentsDigest,
		Token: w.runnel("token", "create", "stolen", "--scope", "read,send,approve,admin", "--data", w.data),
	}
	o.Page, o.Code = w.pageAndCode()
	o.Cookie, o.Key, _ = strings.Cut(stolen, " ")
	cookie, key, _ := strings.Cut(secret, " ")
	for _, needle := range []string{w.Token, cookie, key, w.link()} {
		o.Needles = append(o.Needles, disguise([]byte(needle)))
	}
	return o
}

// link returns the code of a new login link.
func (w *world) link() string {
	w.t.Helper()
	_, code := w.pageAndCode()
	return code
}

// pageAndCode returns the two parts of a new login link: the page's origin and
// the code.
func (w *world) pageAndCode(flags ...string) (origin, code string) {
	w.t.Helper()
	origin, code, ok := strings.Cut(w.runnel(append([]string{"login", "--data", w.data}, flags...)...), "/#c=")
	if !ok {
		w.t.Fatal("no link")
	}
	return origin, code
}

// asPage sets the headers of a request as if the page sent it. The request may
// go to any address.
func asPage(req *http.Request, origin string) {
	req.Header.Set("Origin", origin)
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	_, req.Host, _ = strings.Cut(origin, "://")
}

// browse logs a browser in and returns its cookie and key with a space in
// between. Both results are the same text.
func (w *world) browse(code string) (string, string) {
	w.t.Helper()
	body, err := json.Marshal(object{"code": code})
	if err != nil {
		w.t.Fatal(err)
	}
	req, err := http.NewRequest("POST", "http://"+w.Addr+"/api/login", bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	origin, _ := w.pageAndCode()
	asPage(req, origin)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	var answer struct {
		Key string `json:"key"`
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil || len(res.Cookies()) != 1 || answer.Key == "" {
		w.t.Fatalf("login: %s %v", res.Status, err)
	}
	both := res.Cookies()[0].Value + " " + answer.Key
	return both, both
}

// give writes v as JSON into a file of the project, atomically.
func (w *world) give(name string, v any) {
	w.t.Helper()
	w.putJSON(w.project, name, v)
}

// forge writes v as JSON into a file of the data directory, as an agent can.
func (w *world) forge(name string, v any) {
	w.t.Helper()
	w.putJSON(w.data, name, v)
}

func (w *world) putJSON(dir, name string, v any) {
	w.t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		w.t.Fatal(err)
	}
	half := filepath.Join(dir, name+".half")
	if err := os.WriteFile(half, b, 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.own(half)
	if err := os.Rename(half, filepath.Join(dir, name)); err != nil {
		w.t.Fatal(err)
	}
}

// report waits for the report of a spy.
func (w *world) report(way string) (r report) {
	w.t.Helper()
	w.file("report-"+way, &r)
	return r
}

// file waits for a file in the project and decodes it into v.
func (w *world) file(name string, v any) {
	w.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(testapi.Timeout); ; <-tick.C {
		b, err := os.ReadFile(filepath.Join(w.project, name))
		if err == nil && json.Unmarshal(b, v) == nil {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("no %s: %v", name, err)
		}
	}
}

// judge checks the report of a spy. hidden is false for root, from whom nothing
// that exists can be hidden.
func (w *world) judge(way string, r report, hidden bool) {
	t := w.t
	t.Helper()
	for _, where := range r.Found {
		t.Errorf("%s: a secret: %s", way, where)
	}
	if hidden && len(r.Opened) > 0 {
		t.Errorf("%s: opened %v", way, r.Opened)
	}
	if !hidden && len(r.Opened) == 0 {
		t.Errorf("%s: nothing was opened where everything can be: the spy does not look", way)
	}
	if len(r.Tried) < 50 || r.Looked < 20 {
		t.Errorf("%s: only %d attempts and %d looks", way, len(r.Tried), r.Looked)
	}
	for what, answer := range r.Tried {
		if !refused(what, answer) {
			t.Errorf("%s: %s: %s", way, what, answer)
		}
	}
}

// refused reports whether the server rejected an attempt as it should.
func refused(what, answer string) bool {
	status, _, _ := strings.Cut(answer, " ")
	door, act, _ := strings.Cut(what, ": ")
	switch {
	case what == "hit and run":
		return true // it reads no response; the log shows its effect
	case strings.HasPrefix(what, "supervisor "):
		return strings.Contains(answer, "a process that an agent started")
	case strings.HasPrefix(what, "runnel "):
		return strings.Contains(answer, "exit status") && !strings.Contains(answer, "rnl_") && !strings.Contains(answer, "#c=")
	case door == "tcp, nothing" && act != "use link":
		return status == "401" || status == "429"
	}
	return status == "403"
}

func (w *world) killSessions() {
	w.t.Helper()
	for _, id := range w.sessions {
		ctx, cancel := context.WithTimeout(context.Background(), testapi.Timeout)
		res, err := w.Do(ctx, "POST", "/api/session/"+id+"/kill", strings.NewReader("{}"))
		if err != nil {
			w.t.Errorf("kill %s: %v", id, err)
		} else if res.Body.Close(); res.StatusCode != http.StatusOK {
			w.t.Errorf("kill %s: %d", id, res.StatusCode)
		}
		cancel()
	}
}

// openZoo starts a turn whose tool is the zoo, and returns once the zoo runs.
func (w *world) openZoo(p plan) (c *testapi.Client, turn string) {
	w.t.Helper()
	c = w.Watch(w.create())
	p.Ask, p.Tool = true, []string{w.agent(), "play-zoo", w.project}
	turn = c.Send(p.prompt())
	c.Until("question", func(ev event.Event) bool { _, ok := ev.Body.(event.ApprovalRequested); return ok })
	var n int
	w.file("zoo-open", &n)
	if err := os.Remove(filepath.Join(w.project, "zoo-open")); err != nil {
		w.t.Error(err)
	}
	got, began := len(w.processes()), time.Now()
	for got < len(species) && time.Since(began) < testload.Room(5*time.Second) { // a species that replaces itself all the time may be missed
		got = len(w.processes())
	}
	if got < len(species) {
		w.t.Errorf("the zoo has only %d", got)
	}
	return c, turn
}

// TestStopEndsTheWholeProcessTree ends agents whose tools are hard to kill, in
// all ways in which an agent can end. No process may remain.
func TestStopEndsTheWholeProcessTree(t *testing.T) {
	users(t, func(t *testing.T, user *syscall.Credential) {
		short := testload.Room(time.Second) // long enough for the test to see the supervisor
		for name, end := range map[string]func(w *world, c *testapi.Client){
			"killed": func(w *world, _ *testapi.Client) { w.killSessions() },
			"cancelled": func(w *world, c *testapi.Client) {
				if code, _ := w.Call("POST", "/api/session/"+c.Session+"/cancel", object{}, nil); code != http.StatusOK {
					w.t.Errorf("cancel: %d", code)
				}
			},
			"agent killed": func(w *world, c *testapi.Client) {
				for _, p := range w.processes() {
					if strings.HasPrefix(p.line, w.agent()+" --") {
						_ = syscall.Kill(p.pid, syscall.SIGKILL)
					}
				}
			},
			"supervisor killed": func(w *world, _ *testapi.Client) {
				for _, pid := range w.supervisors() {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			},
			"server killed, no window": func(w *world, _ *testapi.Client) { w.kill() },
			"server killed, with a window": func(w *world, _ *testapi.Client) {
				w.kill()
				if len(w.supervisors()) == 0 {
					w.t.Error("the supervisor did not wait")
				}
				<-time.After(short)
			},
			"server asked to end": func(w *world, _ *testapi.Client) { w.stop() },
		} {
			t.Run(name, func(t *testing.T) {
				if user == nil && os.Getuid() == 0 && !strings.HasSuffix(name, "killed") && !long() {
					t.Skip("as for a stranger: RUNNEL_LONG=1")
				}
				window := "60s"
				switch {
				case strings.Contains(name, "no window"):
					window = "-1s"
				case strings.Contains(name, "with a window"):
					window = short.String()
				}
				w := newWorld(t, user, window)
				w.start()
				c, _ := w.openZoo(plan{Stubborn: true})
				defer c.Leave()
				n := len(w.processes())
				end(w, c)
				t.Logf("%d processes were gone after %v", n, w.empty(5*time.Second))
			})
		}
	})
}
