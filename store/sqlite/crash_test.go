package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/runnel-dev/runnel/event"
)

// childEnv is the name of an environment variable. If its value is a key of
// children, the test binary runs that function instead of the tests.
const childEnv = "RUNNEL_SQLITE_TEST_CHILD"

var children = map[string]func(dir string) error{"writer": crashWriter, "limited": limitedWriter, "indexer": crashIndexer}

func TestMain(m *testing.M) {
	if run := children[os.Getenv(childEnv)]; run != nil {
		if err := run(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// child returns a command that runs one of the functions in children, as a
// process of its own. role is the key of the function, and dir is its argument.
func child(t *testing.T, role, dir string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, dir)
	cmd.Env = append(os.Environ(), childEnv+"="+role)
	cmd.Stderr = os.Stderr
	return cmd
}

const crashSessions = 4

// crashWriter appends to several sessions concurrently until it is killed. It
// prints each position after Append has returned.
func crashWriter(dir string) error {
	s, err := Open(context.Background(), Config{Dir: dir})
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	failed := make(chan error, crashSessions)
	for w := range crashSessions {
		session := fmt.Sprint("s", w)
		wg.Go(func() {
			st, err := s.State(context.Background(), session)
			for head := st.Head; err == nil; {
				evs := crashEvents(session, head, 1+rand.IntN(5))
				if err = s.Append(context.Background(), session, head, evs...); err == nil {
					head += int64(len(evs))
					_, err = fmt.Printf("%d %d\n", w, head)
				}
			}
			failed <- err
		})
	}
	wg.Wait()
	return <-failed
}

// crashEvents returns n events whose content depends only on their session and
// position.
func crashEvents(session string, head int64, n int) []event.Event {
	evs := make([]event.Event, n)
	for i := range evs {
		seq := head + int64(i) + 1
		evs[i] = event.Event{Session: session, Seq: seq, Turn: fmt.Sprint("t", seq/50),
			Body: event.ItemDelta{ItemID: "i", DeltaContent: fmt.Sprint(session, " says ", seq)}}
		switch seq % 50 {
		case 20:
			evs[i].Body = event.ItemDone{ItemID: "i", FinalItem: event.Message{Content: fmt.Sprint(seq), Origin: event.OriginAgent}}
		case 49:
			evs[i].Body = event.ResponseDone{Status: event.StatusCompleted}
		}
	}
	return evs
}

// TestKillWhileAppendingLosesNothingAcknowledged kills a writer at random
// moments, also while it opens the store. Afterwards the store has every
// acknowledged event and no gaps.
func TestKillWhileAppendingLosesNothingAcknowledged(t *testing.T) {
	rounds := 20
	switch {
	case long:
		rounds = 1000
	case raced, testing.Short():
		rounds = 10
	}
	var dir string
	total := int64(0)
	for round := range rounds {
		if round%20 == 0 { // a new directory, because each check reads all events in it
			dir = ownDir(t)
		}
		acked := runAndKill(t, dir, rand.IntN(150))
		total += verifyCrashed(t, dir, round, acked)
		if t.Failed() {
			return
		}
	}
	if total < int64(rounds) {
		t.Errorf("only %d events after %d rounds: the writer hardly ran", total, rounds)
	}
}

// runAndKill starts a writer, waits until n appends were acknowledged, and
// kills the writer a random time later. It returns the last acknowledged
// position of each session.
func runAndKill(t *testing.T, dir string, n int) (acked [crashSessions]int64) {
	t.Helper()
	cmd := child(t, "writer", dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	note := func() {
		var w int
		var head int64
		if k, _ := fmt.Sscanf(lines.Text()+"\n", "%d %d\n", &w, &head); k == 2 {
			acked[w] = max(acked[w], head)
		}
	}
	for range n {
		if !lines.Scan() {
			break
		}
		note()
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // lines that it printed before the kill
		note()
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the writer ended by itself")
	} else if _, ok := errors.AsType[*exec.ExitError](err); !ok && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return acked
}

func verifyCrashed(t *testing.T, dir string, round int, acked [crashSessions]int64) (total int64) {
	t.Helper()
	s, err := Open(t.Context(), Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var verdict string
	if err := s.reader.db.QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		t.Errorf("round %d: integrity_check: %s, %v", round, verdict, err)
	}
	if err := s.reader.db.QueryRow("SELECT count(*) FROM pragma_foreign_key_check").Scan(&total); err != nil || total != 0 {
		t.Errorf("round %d: foreign_key_check: %d, %v", round, total, err)
	}
	for w, want := range acked {
		session := fmt.Sprint("s", w)
		last := int64(0)
		for ev, err := range s.Read(t.Context(), session, 0) {
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			if exp := crashEvents(session, last, 1)[0]; !reflect.DeepEqual(ev, exp) {
				t.Fatalf("round %d: event %d is %+v, want %+v", round, last+1, ev, exp)
			}
			last = ev.Seq
		}
		st, err := s.State(t.Context(), session)
		if last < want || err != nil || st.Head != last {
			t.Errorf("round %d: %s ends at %d, state says %d, %v; %d was acknowledged", round, session, last, st.Head, err, want)
		}
		if open := last%50 != 49 && last > 0; (len(st.Open) == 1) != open {
			t.Errorf("round %d: %s ends at %d with open turns %v", round, session, last, st.Open)
		}
		total += last
	}
	return total
}
