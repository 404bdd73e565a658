//go:build linux

package hostile

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/testapi"
)

// often returns how often to do something, or how much of it: most if long
// reports true, else least.
func often(most, least int) int {
	if long() {
		return most
	}
	return least
}

// failed checks that a turn ended once, with PROCESS_CRASH, and that the client
// received what the log has.
func (w *world) failed(c *testapi.Client, turn string) {
	t := w.t
	t.Helper()
	end := c.End(turn)
	if b, ok := end.Body.(event.ResponseError); !ok || b.Error.Code != "PROCESS_CRASH" {
		t.Errorf("the turn ended with %+v", end.Body)
	}
	c.Agrees(turn, w.Log(c.Session, end.Seq))
}

func (w *world) succeeds(c *testapi.Client, p plan) {
	t := w.t
	t.Helper()
	turn := c.Send(p.prompt())
	end := c.End(turn)
	if _, ok := end.Body.(event.ResponseDone); !ok {
		t.Errorf("the turn ended with %+v", end.Body)
	}
	c.Agrees(turn, w.Log(c.Session, end.Seq))
}

// TestTurnEndsOnceWhereverTheAgentDies has the agent exit after various numbers
// of bytes of a turn.
func TestTurnEndsOnceWhereverTheAgentDies(t *testing.T) {
	w := newWorld(t, nil, "60s")
	w.start()
	c := w.Follow(w.create())
	defer c.Leave()
	const turnSize = 2900 // bytes of such a turn, without its end
	step := turnSize / often(180, 12)
	died := 0
	for at := 1; at < turnSize && !t.Failed(); at += step {
		w.failed(c, c.Send(plan{Deltas: 3, Ask: true, DieAt: at}.prompt()))
		died++
	}
	t.Logf("died at %d places", died)
	w.succeeds(c, plan{Deltas: 3, Ask: true})
}

// peak returns the peak resident memory of a process, in KiB.
func peak(pid int) (most int) {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			_, _ = fmt.Sscan(rest, &most)
		}
	}
	return most
}

// idle polls the status of a session until no turn runs, without reading
// events.
func (w *world) idle(session string) {
	w.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Minute); ; <-tick.C {
		var st struct {
			Activity string `json:"activity"`
			LastTurn string `json:"lastTurn"`
		}
		if code, ok := w.Call("GET", "/api/session/"+session+"/status", nil, &st); ok && code == http.StatusOK && st.Activity == "idle" {
			if st.LastTurn != "completed" {
				w.t.Errorf("the turn is %q", st.LastTurn)
			}
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("still %q", st.Activity)
		}
	}
}

// TestStderrFloodIsBounded and TestStdoutFloodIsBounded have an agent write far
// too much, with no client or with a slow client. The memory of the server and
// of the supervisor must stay small.
func TestStderrFloodIsBounded(t *testing.T) { flood(t, plan{Deltas: 1, Stderr: often(1024, 64)}) }

func TestStdoutFloodIsBounded(t *testing.T) { flood(t, plan{Deltas: 1, Stdout: often(1024, 144)}) }

func flood(t *testing.T, p plan) {
	for _, slow := range []bool{false, true} {
		t.Run(map[bool]string{false: "no client", true: "slow client"}[slow], func(t *testing.T) {
			if !slow && p.Stdout > 0 && !long() {
				t.Skip("a slow client needs more memory: RUNNEL_LONG=1")
			}
			w := newWorld(t, nil, "60s")
			w.flags = []string{"--stall-timeout", "30m", "--max-turn-mib", "8192", "--max-session-mib", "8192"}
			w.start()
			id := w.create()
			ctx, leave := context.WithCancel(context.Background())
			defer leave()
			if slow {
				res, err := w.Do(ctx, "GET", "/api/session/"+id+"/events", nil)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				go func() { // ends with the connection
					for buf := make([]byte, 4<<10); ; <-time.After(5 * time.Millisecond) {
						if _, err := res.Body.Read(buf); err != nil {
							return
						}
					}
				}()
			}
			began := time.Now()
			w.Send(id, p.prompt())
			pids := w.supervisors()
			w.idle(id)
			server := peak(w.cmd.Process.Pid)
			t.Logf("%d MiB in %v: server at most %d MiB, supervisor %d MiB", p.Stdout+p.Stderr, time.Since(began).Round(time.Millisecond), server>>10, peak(pids[0])>>10)
			if server > often(240, 144)<<10 { // at most the flood; the peak includes garbage
				t.Error("the server took too much")
			}
			if len(pids) != 1 || peak(pids[0]) > 24<<10 {
				t.Errorf("supervisors %v took too much", pids)
			}
		})
	}
}

// TestTurnsLeakNothing runs many turns, each with its own agent, and compares
// what the server holds before and after.
func TestTurnsLeakNothing(t *testing.T) {
	w := newWorld(t, nil, "60s")
	w.flags = []string{"--max-new-sessions-per-credential", "1000000"} // a minute
	w.start()
	s := &soak{w: w}
	once := func() {
		c := w.Follow(w.create())
		defer c.Leave()
		w.succeeds(c, plan{Deltas: 1, Ask: true})
		if code, _ := w.Call("POST", "/api/session/"+c.Session+"/kill", object{}, nil); code != http.StatusOK {
			t.Errorf("kill: %d", code)
		}
	}
	runs := often(2000, 24)
	for range runs / 4 {
		once()
	}
	http.DefaultClient.CloseIdleConnections()
	s.sample(0)
	for range runs {
		if once(); t.Failed() {
			t.FailNow()
		}
	}
	before, tries := s.samples[0], 0
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for ; tries < 100; <-tick.C { // connections take a while to end
		http.DefaultClient.CloseIdleConnections()
		s.sample(0)
		if last := s.samples[len(s.samples)-1]; last.fds <= before.fds+1 && last.goroutines <= before.goroutines+3 {
			break
		}
		tries++
	}
	after := s.samples[len(s.samples)-1]
	t.Logf("after %d agents: %+v, before %+v: %.2f KiB an agent", runs, after, before, (after.rss-before.rss)/float64(runs))
	if tries == 100 {
		t.Error("not all is given back")
	}
	if after.databaseFDs > maxDatabaseFDs {
		t.Error("more connections of SQLite than the pools may hold")
	}
	if n := zombies(w.cmd.Process.Pid); n > 0 {
		t.Errorf("%d zombies", n)
	}
	w.empty(time.Second)
}

// TestServerRecoversFromExhaustedDescriptors lowers the server's limit of
// descriptors. Creating a session must fail with a clear error, and the running
// agent must go on. With the old limit, everything must work again.
func TestServerRecoversFromExhaustedDescriptors(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root sees how many descriptors a server has that hides itself")
	}
	w := newWorld(t, stranger, "60s")
	w.start()
	c := w.Follow(w.create())
	defer c.Leave()
	w.succeeds(c, plan{Deltas: 1})
	pid := w.cmd.Process.Pid
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	full := w.limit(pid, uint64(len(fds)+3))
	var made struct {
		Error struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"error"`
	}
	code, ok := w.Call("POST", "/api/session/create", object{"cliType": "claude", "projectDir": w.project}, &made)
	t.Logf("%d %+v", code, made.Error)
	if !ok || code != http.StatusServiceUnavailable || made.Error.Type != "OVERLOADED" || !strings.Contains(made.Error.Message, "no processes, memory or file descriptors left") {
		t.Error("that was not said")
	}
	turn := c.Send(plan{Deltas: 1}.prompt())
	if _, ok := c.End(turn).Body.(event.ResponseDone); !ok {
		t.Error("the older session's turn failed")
	}
	w.limit(pid, full)
	other := w.Follow(w.create())
	defer other.Leave()
	w.succeeds(other, plan{Deltas: 1})
}

// limit sets the limit of descriptors of a process of the world's user, and
// returns the limit before.
func (w *world) limit(pid int, n uint64) (before uint64) {
	w.t.Helper()
	cmd := exec.Command(w.agent(), "play-limit", fmt.Sprint(pid), fmt.Sprint(n)) // a user may limit its own processes
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: w.user}
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("limit: %v %s", err, out)
	}
	if _, err := fmt.Sscan(string(out), &before); err != nil {
		w.t.Fatal(err)
	}
	return before
}

// limiter is the role that sets the limit of a process.
func limiter(args []string) {
	var pid int
	var limit, old unix.Rlimit
	_, err := fmt.Sscan(strings.Join(args, " "), &pid, &limit.Cur)
	if err == nil {
		err = unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &old)
	}
	if limit.Max = old.Max; err == nil {
		err = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &limit, nil)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(old.Cur)
}

// TestSimultaneousPromptsStartOneTurn sends 64 prompts at once to a session
// whose agent is not running. One prompt must be accepted, and one agent must
// start. A second server must not start with the same data directory.
func TestSimultaneousPromptsStartOneTurn(t *testing.T) {
	w := newWorld(t, nil, "60s")
	w.start()
	c := w.Watch(w.create())
	defer c.Leave()
	w.succeeds(c, plan{Deltas: 1})
	agents := func() (pids []int) {
		for _, p := range w.processes() {
			if strings.HasPrefix(p.line, w.agent()+" --") {
				pids = append(pids, p.pid)
			}
		}
		return pids
	}
	for range often(20, 3) {
		w.stop()
		w.start() // no agent runs now
		codes := make([]int, 64)
		var all sync.WaitGroup
		for i := range codes {
			all.Go(func() {
				codes[i], _ = w.Call("POST", "/api/session/"+c.Session+"/send", object{"content": plan{Ask: true}.prompt()}, nil)
			})
		}
		all.Wait()
		taken := 0
		for _, code := range codes {
			if code == http.StatusAccepted {
				taken++
			} else if code != http.StatusConflict {
				t.Errorf("answered %d", code)
			}
		}
		asked := c.Until("question", func(ev event.Event) bool { _, ok := ev.Body.(event.ApprovalRequested); return ok })
		if n := len(agents()); taken != 1 || n != 1 {
			t.Errorf("%d taken, %d agents", taken, n)
		}
		c.Decide(asked.Body.(event.ApprovalRequested).Approval)
		c.End(asked.Turn)
	}
	second := w.command("serve", "--listen", testapi.FreeAddr(t), "--data", w.data)
	if out, err := second.CombinedOutput(); err == nil {
		t.Errorf("a second server: %s", out)
	}
}

// TestFiftyAgentsAtOnce runs fifty agents at once, and measures the memory of
// their supervisors.
func TestFiftyAgentsAtOnce(t *testing.T) {
	w := newWorld(t, nil, "60s")
	w.start()
	clients := make([]*testapi.Client, 50)
	var turns []string
	for i := range clients {
		clients[i] = w.Follow(w.create())
		defer clients[i].Leave()
		turns = append(turns, clients[i].Send(plan{Deltas: 3, Pace: time.Millisecond, Ask: true}.prompt()))
	}
	for i, c := range clients {
		if _, ok := c.End(turns[i]).Body.(event.ResponseDone); !ok {
			t.Errorf("turn %d failed", i)
		}
	}
	pids := w.supervisors()
	if len(pids) != len(clients) {
		t.Errorf("%d supervisors", len(pids))
	}
	var resident, share []int
	weigh := func() {
		resident, share = nil, nil
		for _, pid := range pids {
			r, s := rss(pid)
			resident, share = append(resident, r), append(share, s)
		}
		slices.Sort(resident)
		slices.Sort(share)
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	const most = 6 << 10 // KiB of the median supervisor
	for range 25 {       // supervisors release memory while they are idle
		if weigh(); resident[len(resident)-1] <= most/2 {
			break
		}
		<-tick.C
	}
	n := len(resident)
	server, _ := rss(w.cmd.Process.Pid)
	t.Logf("KiB a supervisor: RSS %d to %d, median %d; PSS %d to %d, median %d; the server %d", resident[0], resident[n-1], resident[n/2], share[0], share[n-1], share[n/2], server)
	if resident[n/2] > most {
		t.Errorf("a supervisor has %d KiB", resident[n/2])
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	w.empty(2 * time.Second)
}
