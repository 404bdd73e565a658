//go:build unix

package conformance

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/internal/testprogram"
)

// A crash is a server that was killed during four turns, and a second server
// that started later with the same data, after the agents had stopped.
type crash struct {
	server                   // the second server
	seen   map[string]frames // events of each session that clients had read before the kill
	agent  int               // process id of the agent of the session held
	gone   bool              // the agent stopped before the second server started

	held    string // session whose agent had begun to answer
	asked   string // session with an open approval
	queued  string // session with a queued prompt
	waiting string // turnId of the queued prompt
	paused  string // session with a held queue
	fast    string // session whose answer was streaming
}

// kill starts the first server, kills it, starts the second server and fills c.
func (c *crash) kill(t *testing.T) {
	t.Helper()
	*c = crash{seen: make(map[string]frames)}
	var s server
	program, behaviour, _ := holdingAgent(t)
	s.configure(t, fmt.Sprintf("agents:\n  mine: {protocol: acp, command: [%s]}\n", program))
	s.Args = append(s.Args, "--reattach-window", "100ms")
	s.start(t)

	c.held = s.sessionOf(t, "mine")
	s.send(t, c.held, "hello")
	c.seen[c.held] = s.events(t, c.held, func(f frame) bool { return f.event == "item_delta" })
	c.agent = agentOf(t, c.seen[c.held])

	c.asked = s.session(t, nil)
	s.send(t, c.asked, script(object{"tool": command}))
	c.seen[c.asked] = s.events(t, c.asked, func(f frame) bool { return f.event == "approval_requested" })

	c.queued = s.session(t, nil)
	s.send(t, c.queued, "hang")
	c.waiting = s.post(t, "/api/session/"+c.queued+"/send", object{"content": script(object{"text": "at last"}), "queue": true}).ok(t, http.StatusAccepted)["turnId"].(string)

	c.paused, _ = waiting(t, &s, script(object{"text": "on request"}))
	s.post(t, "/api/session/"+c.paused+"/cancel", object{}).ok(t, http.StatusOK)

	c.fast = s.session(t, nil)
	s.send(t, c.fast, script(object{"text": "word ", "repeat": 100000, "rate": 1000}))
	deltas := 0
	c.seen[c.fast] = s.events(t, c.fast, func(f frame) bool {
		if f.event == "item_delta" {
			deltas++
		}
		return deltas == 20
	})
	s.Kill()

	for deadline := time.Now().Add(waitTimeout); !c.gone && time.Now().Before(deadline); {
		c.gone = syscall.Kill(c.agent, 0) == syscall.ESRCH
	}
	write(t, filepath.Dir(behaviour), filepath.Base(behaviour), "answers")
	c.server = *s.another(s.Data)
	c.start(t)
}

// agentOf returns the process id of a session's fake agent, which is part of
// the id of its conversation.
func agentOf(t *testing.T, seen frames) (pid int) {
	t.Helper()
	for _, f := range seen {
		if id, ok := f.payload()["agentSessionId"].(string); ok {
			if _, err := fmt.Sscanf(id, "new-%d-", &pid); err != nil {
				t.Fatalf("%s: %v", id, err)
			}
			return pid
		}
	}
	t.Fatalf("no agentSessionId in %s", seen.names())
	return 0
}

func (c *crash) keepsWhatWasRead(t *testing.T) {
	for session, seen := range c.seen {
		after := c.events(t, session, func(f frame) bool { return f.seq() == seen[len(seen)-1].seq() })
		equalFrames(t, after[1:], seen[1:])
	}
}

// rest returns the events that the second server added to the running turn of a
// session.
func (c *crash) rest(t *testing.T, session string) frames {
	t.Helper()
	seen := c.seen[session]
	return from(c.events(t, session, frame.ends), seen[len(seen)-1].seq())
}

func (c *crash) closesItems(t *testing.T) {
	rest := c.rest(t, c.held)
	equal(t, "events", rest.names(), "item_cancelled response_error")
	equal(t, "reason", rest[0].payload()["reason"], "process_death")
	equal(t, "code", at(rest[1].payload(), "error", "code"), "PROCESS_CRASH")
}

func (c *crash) closesApprovals(t *testing.T) {
	rest := c.rest(t, c.asked)
	equal(t, "choice", rest.find("approval_resolved").payload()["choice"], "withdrawn")
	equal(t, "code", at(rest[len(rest)-1].payload(), "error", "code"), "PROCESS_CRASH")
	seen := c.seen[c.asked]
	id := at(seen[len(seen)-1].payload(), "approval", "id")
	c.post(t, fmt.Sprintf("/api/session/%s/approvals/%s", c.asked, id), object{"choice": "deny"}).fails(t, http.StatusConflict, "APPROVAL_GONE")
}

func (c *crash) leavesNoProcess(t *testing.T) {
	if !c.gone {
		t.Errorf("the agent, process %d, still runs", c.agent)
	}
}

func (c *crash) resumes(t *testing.T) {
	turn := c.turn(t, c.held, c.send(t, c.held, "again"))
	equal(t, "status", turn[len(turn)-1].payload()["status"], "completed")
	status := c.get(t, "/api/session/"+c.held+"/status").ok(t, http.StatusOK)
	if id := fmt.Sprint(status["agentSessionId"]); !strings.HasPrefix(id, fmt.Sprintf("new-%d-", c.agent)) {
		t.Errorf("the agent's conversation is %s, want that of process %d", id, c.agent)
	}
}

func (c *crash) keepsQueue(t *testing.T) {
	turn := c.turn(t, c.queued, c.waiting)
	equal(t, "status", turn[len(turn)-1].payload()["status"], "completed")
}

func (c *crash) keepsHeldQueue(t *testing.T) {
	path := "/api/session/" + c.paused + "/queue"
	queue := c.get(t, path).ok(t, http.StatusOK)
	equal(t, "queue", inQueue(queue), "held: "+script(object{"text": "on request"}))
	status := c.get(t, "/api/session/"+c.paused+"/status").ok(t, http.StatusOK)
	equal(t, "turnId", status["turnId"], nil)
	c.post(t, path, object{"held": false}).ok(t, http.StatusOK)
	c.turn(t, c.paused, queue["prompts"].([]any)[0].(object)["turnId"].(string))
}

// goesOn returns a check that calls end to stop a server during a turn. The
// agent continues only after another server has taken the turn over.
func goesOn(end func(*testprogram.Server)) func(*testing.T) {
	return func(t *testing.T) {
		if runtime.GOOS != "linux" {
			t.Skip("agents outlive their server on Linux only")
		}
		var s server
		program, _, release := holdingAgent(t)
		s.configure(t, fmt.Sprintf("agents:\n  mine: {protocol: acp, command: [%s]}\n", program))
		s.start(t)
		session := s.sessionOf(t, "mine")
		turn := s.send(t, session, "hello")
		seen := s.events(t, session, func(f frame) bool { return f.event == "item_delta" })
		end(&s.Server)
		next := s.another(s.Data)
		next.start(t)
		status := next.get(t, "/api/session/"+session+"/status").ok(t, http.StatusOK)
		equal(t, "turn of the next server", []any{status["turnId"], status["activity"]}, []any{turn, "working"})
		release()
		after := next.events(t, session, frame.ends)
		equalFrames(t, after[1:len(seen)], seen[1:])
		last := after[len(after)-1]
		equal(t, "end", []any{last.data["turnId"], last.payload()["status"]}, []any{turn, "completed"})
		if names := after.names(); strings.Count(names, "response_start") != 1 {
			t.Errorf("got %s", names)
		}
	}
}

// removesPartOfUpload kills a server while an upload arrives. The next server
// removes what has arrived.
func removesPartOfUpload(t *testing.T) {
	var s server
	s.start(t)
	c := s.with("Content-Type", "application/octet-stream")
	whole := c.post(t, "/api/uploads?name=a.txt", "whole").ok(t, http.StatusCreated)["path"]
	body, rest := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.API+"/api/uploads?name=b.txt", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = c.header.Clone()
	var sent sync.WaitGroup
	defer func() {
		_ = rest.Close() // the request waits for the rest of its body
		sent.Wait()
	}()
	sent.Go(func() {
		if res, err := c.http.Do(req); err == nil {
			_ = res.Body.Close()
		}
	})
	if _, err := io.WriteString(rest, "half"); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(waitTimeout); !slices.Contains(uploaded(t, s.Data), "half"); {
		if time.Now().After(deadline) {
			t.Fatal("the server does not write the upload as it arrives")
		}
	}
	s.Kill()
	next := s.another(s.Data)
	next.start(t)
	equal(t, "uploads", uploaded(t, s.Data), []string{"whole"})
	if data, err := os.ReadFile(whole.(string)); err != nil || string(data) != "whole" {
		t.Errorf("the complete upload is %q, %v", data, err)
	}
}

// uploaded returns the contents of the files in the upload folder.
func uploaded(t *testing.T, data string) (contents []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(data, "uploads", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		contents = append(contents, string(content))
	}
	return contents
}
