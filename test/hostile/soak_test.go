//go:build linux

package hostile

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/procinfo"
	"github.com/runnel-dev/runnel/internal/testapi"
)

// soakTime returns how long the soak test runs: RUNNEL_SOAK, or an hour with
// RUNNEL_LONG, or eight seconds.
func soakTime(t *testing.T) time.Duration {
	t.Helper()
	if s := os.Getenv("RUNNEL_SOAK"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if long() {
		return time.Hour
	}
	return 8 * time.Second
}

// sample is what a server holds at one time. The descriptors of SQLite are
// counted apart: a pool opens its next connection when all others happen to be
// in use, and keeps it.
type sample struct {
	at                                       time.Duration
	fds, databaseFDs, goroutines, rss, turns float64
}

// maxDatabaseFDs is how many descriptors all pools of connections hold at most:
// each connection has one of the database and one of its write-ahead log.
const maxDatabaseFDs = 24

// soak runs one turn a second, alternately in a few sessions. It replaces each
// session after sessionTurns turns.
type soak struct {
	w       *world
	rnd     *rand.Rand
	clients []*testapi.Client
	turns   int
	lost    int // turns that a kill closed
	samples []sample
}

const (
	soakSessions = 4
	sessionTurns = 40
	leastSamples = 3 // after the last kill of the server
)

// TestSoak runs a turn each second. After each sixtieth of the time it kills
// the server, the supervisors or the agents. In the second half it does not
// kill the server, and what the server holds must not grow.
func TestSoak(t *testing.T) {
	total := soakTime(t)
	each := min(max(total/60, time.Second), time.Minute)
	w := newWorld(t, nil, "60s")
	w.start()
	seed := uint64(time.Now().UnixNano())
	t.Logf("%v, a kill each %v, seed %d", total, each, seed)
	s := &soak{w: w, rnd: rand.New(rand.NewPCG(seed, 1)), clients: make([]*testapi.Client, soakSessions)}
	began, killed, kills := time.Now(), time.Now(), 0
	beat := time.NewTicker(min(time.Second, total/16))
	defer beat.Stop()
	for ; (time.Since(began) < total || len(s.since(total/2)) < leastSamples) && !t.Failed(); <-beat.C { // a busy machine needs longer
		var act func()
		if time.Since(killed) >= each {
			killed = time.Now()
			victims := []func(){s.killAgents, s.killSupervisors}
			if time.Since(began) < total/2 {
				victims = append(victims, s.killServer)
			}
			act = victims[kills%len(victims)]
			kills++
		}
		s.turn(act)
		if act == nil {
			s.sample(time.Since(began))
		}
	}
	t.Logf("%d turns, %d kills, %d turns closed by one", s.turns, kills, s.lost)
	s.growth(total / 2)
	for _, c := range s.clients {
		if c != nil {
			c.Leave()
		}
	}
	if n := zombies(w.cmd.Process.Pid); n > 0 {
		t.Errorf("%d zombies", n)
	}
	w.stop()
	w.empty(2 * time.Second)
}

// turn runs one turn, calls act in the middle of it unless act is nil, and
// checks all events of the turn.
func (s *soak) turn(act func()) {
	t := s.w.t
	t.Helper()
	i := s.turns % soakSessions
	if s.turns/soakSessions%sessionTurns == 0 {
		s.renew(i)
	}
	s.turns++
	c := s.clients[i]
	turn := c.Send(plan{Deltas: 10, Pace: 15 * time.Millisecond, Ask: true}.prompt())
	if act != nil {
		<-time.After(time.Duration(s.rnd.Int64N(int64(200 * time.Millisecond))))
		act()
	}
	end := c.End(turn)
	if b, ok := end.Body.(event.ResponseError); ok {
		s.lost++
		if act == nil || b.Error.Code != "PROCESS_CRASH" && b.Error.Code != "SESSION_CREATE_FAILED" {
			t.Errorf("turn %d ended with %+v", s.turns, b)
		}
	}
	c.Agrees(turn, s.w.Log(c.Session, end.Seq))
}

// renew replaces session number i with a new session.
func (s *soak) renew(i int) {
	if old := s.clients[i]; old != nil {
		old.Leave()
		if code, _ := s.w.Call("POST", "/api/session/"+old.Session+"/kill", object{}, nil); code != http.StatusOK {
			s.w.t.Errorf("kill: %d", code)
		}
	}
	s.clients[i] = s.w.Follow(s.w.create())
}

func (s *soak) killServer() {
	s.w.kill()
	s.w.start()
}

func (s *soak) killSupervisors() {
	for _, pid := range s.w.supervisors() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

func (s *soak) killAgents() {
	for _, p := range s.w.processes() {
		if strings.HasPrefix(p.line, s.w.agent()+" --") {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
}

// sample measures the server between two turns.
func (s *soak) sample(at time.Duration) {
	pid := s.w.cmd.Process.Pid
	fds, databaseFDs := descriptors(pid)
	resident, _ := rss(pid)
	s.samples = append(s.samples, sample{at, fds, databaseFDs, s.goroutines(), float64(resident), float64(s.turns)})
}

// descriptors counts the open descriptors of a process: those of SQLite, and
// all others. Only root can list them, because the server hides itself.
func descriptors(pid int) (others, database float64) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	fds, _ := os.ReadDir(dir)
	for _, fd := range fds {
		target, _ := os.Readlink(filepath.Join(dir, fd.Name()))
		if ext, _, _ := strings.Cut(filepath.Ext(target), "-"); ext == ".db" {
			database++
		} else {
			others++
		}
	}
	return others, database
}

func (s *soak) goroutines() (n float64) {
	res, err := s.w.Do(context.Background(), "GET", "/metrics", nil)
	if err != nil {
		s.w.t.Error(err)
		return 0
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.w.t.Error(err)
	}
	_, rest, ok := bytes.Cut(body, []byte("\ngo_goroutines "))
	if _, err := fmt.Sscan(string(rest), &n); !ok || err != nil {
		s.w.t.Errorf("metrics: %d %.200s", res.StatusCode, body)
	}
	return n
}

// since returns the samples that were taken after a time of the test.
func (s *soak) since(at time.Duration) []sample {
	i := slices.IndexFunc(s.samples, func(p sample) bool { return p.at > at })
	if i < 0 {
		return nil
	}
	return s.samples[i:]
}

// growth fits a line through the samples after a time, and fails the test if
// what the server holds grows too much.
func (s *soak) growth(after time.Duration) {
	t := s.w.t
	t.Helper()
	last := s.since(after)
	for _, q := range []struct {
		name string
		of   func(sample) float64
		most float64 // allowed growth during the time of the samples
	}{
		{"fds", func(p sample) float64 { return p.fds }, 6},
		{"fds of SQLite", func(p sample) float64 { return p.databaseFDs }, 6},
		{"goroutines", func(p sample) float64 { return p.goroutines }, 12},
		{"RSS in KiB", func(p sample) float64 { return p.rss }, 12 << 10},
	} {
		slope, mean := line(last, q.of)
		span := (last[len(last)-1].at - last[0].at).Seconds()
		t.Logf("%s: %.0f on the mean of %d samples, %+.2f a minute, %+.4f a turn", q.name, mean, len(last), slope*60, slope*span/max(1, last[len(last)-1].turns-last[0].turns))
		if grown := slope * span; grown > q.most {
			t.Errorf("%s grew by %.1f", q.name, grown)
		}
	}
}

// line fits a line through the samples. It returns how much y grows per second,
// and the mean of y.
func line(samples []sample, y func(sample) float64) (slope, mean float64) {
	var sx, sy, sxx, sxy float64
	n := float64(len(samples))
	for _, p := range samples {
		x := p.at.Seconds()
		sx, sy, sxx, sxy = sx+x, sy+y(p), sxx+x*x, sxy+x*y(p)
	}
	return (n*sxy - sx*sy) / (n*sxx - sx*sx), sy / n
}

// zombies counts the dead children of a process that it has not waited for.
func zombies(parent int) (n int) {
	pids, _ := procinfo.Pids()
	for _, pid := range pids {
		if st, err := procinfo.ReadStat(pid); err == nil && st.Dead && st.Parent == parent {
			n++
		}
	}
	return n
}
