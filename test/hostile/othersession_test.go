//go:build linux

package hostile

import (
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
)

// The times at which a tool tries to act as the user.
const (
	whileOthersAsk = "others ask"     // another session's agent waits for an answer
	withoutServer  = "no server"      // the server was killed
	afterTakeover  = "after takeover" // another server has taken over the tool's agent
	detachedThen   = "detach"         // no attack: starts a detached process for the last attack
	detachedItself = "after takeover, detached"
)

// reach is the role of an agent's tool. It attacks as the spy does, at each of
// the times in its arguments.
func reach(args []string) {
	dir := args[0]
	for _, when := range args[1:] {
		if when == detachedThen {
			detach("play-reach", dir, detachedItself)
			continue
		}
		var o orders
		if !awaitJSON(filepath.Join(dir, "orders-"+when), &o) {
			return
		}
		r := report{Tried: map[string]string{}, Pid: os.Getpid(), Parent: os.Getppid()}
		if when == withoutServer {
			r.commands(o)
		} else {
			r.attack(o)
		}
		writeResult(filepath.Join(dir, "report-"+when), r)
	}
	<-time.After(testapi.Timeout)
}

// awaitJSON waits for a file and decodes it into v. It returns false if the
// file does not appear.
func awaitJSON(path string, v any) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(testapi.Timeout); time.Now().Before(deadline); <-tick.C {
		if b, err := os.ReadFile(path); err == nil && json.Unmarshal(b, v) == nil {
			return true
		}
	}
	return false
}

// TestAgentOfAnotherSessionIsRefusedToo has a tool of one session attack while
// another session has a pending approval, while no server runs, and after a new
// server has taken over both agents. At last a detached process attacks.
func TestAgentOfAnotherSessionIsRefusedToo(t *testing.T) {
	users(t, func(t *testing.T, user *syscall.Credential) {
		w := newWorld(t, user, "300s")
		w.start()
		asks := w.Watch(w.create())
		defer asks.Leave()
		turn := asks.Send(plan{Deltas: 1, Ask: true}.prompt())
		asked := asks.Until("question", func(ev event.Event) bool { _, ok := ev.Body.(event.ApprovalRequested); return ok })
		a := asked.Body.(event.ApprovalRequested).Approval
		other := w.Follow(w.create())
		defer other.Leave()
		other.End(other.Send(plan{Deltas: 1, Tool: []string{w.agent(), "play-reach", w.project, whileOthersAsk, withoutServer, detachedThen, afterTakeover}}.prompt()))
		hidden := user != nil || os.Getuid() != 0
		attack := func(when string, o orders) {
			w.give("orders-"+when, o)
			r := w.report(when)
			t.Logf("%s: %d files and processes; pid %d under %d", when, r.Looked, r.Pid, r.Parent)
			if when != withoutServer {
				w.judge(when, r, hidden)
				return
			}
			for what, answer := range r.Tried {
				if !strings.Contains(answer, "started by an agent") && !strings.HasPrefix(what, "runnel login") {
					t.Errorf("%s: %s: %s", when, what, answer)
				}
			}
		}
		o := w.orders(asks.Session, other.Session, a)
		attack(whileOthersAsk, o)
		w.kill()
		attack(withoutServer, o)
		if kept := w.runnel("token", "list", "--data", w.data) + w.runnel("rules", "list", "--data", w.data); strings.Contains(kept, "evil") || strings.Contains(kept, "rm *") {
			t.Errorf("an agent made what counts at the next start:\n%s", kept)
		}
		w.start()
		if !w.says("agent taken over", 2) {
			t.Fatal("the agents were not taken over")
		}
		o = w.orders(asks.Session, other.Session, a)
		attack(afterTakeover, o)
		attack(detachedItself, o)

		code, _ := w.Call("POST", "/api/session/"+asks.Session+"/approvals/"+a.ID, object{"choice": "allow_once", "argumentsDigest": a.ArgumentsDigest}, nil)
		if code != http.StatusOK {
			t.Errorf("who may answer was told %d", code)
		}
		asks.End(turn)
		w.killSessions()
		w.empty(5 * time.Second)
	})
}
