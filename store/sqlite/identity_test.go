package sqlite

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLogThatMayLackShownEventsGetsAnotherID opens a store again after its
// process ended in different ways. A position is valid only in the log with the
// id under which it was read. The id therefore changes if readers may have seen
// events that the log no longer has.
func TestLogThatMayLackShownEventsGetsAnotherID(t *testing.T) {
	const before, after = "first boot", "second boot"
	for name, tt := range map[string]struct {
		boot   string                              // at the second start
		end    func(t *testing.T, s *Store) string // ends the first process; returns the directory to open
		spoil  func(t *testing.T, dir string)      // damages the files between the processes
		change bool
	}{
		"killed":                              {before, killed, nil, false},
		"stopped":                             {before, stopped, nil, false},
		"stopped, and the system restarted":   {after, stopped, nil, false},
		"power loss":                          {after, killed, nil, true},
		"killed, and the journal was damaged": {before, killed, damageJournal, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := ownDir(t)
			s := openAt(t, dir, before)
			id := s.LogID()
			addDeltas(t, s, "s", 0, 5)
			dir = tt.end(t, s)
			if tt.spoil != nil {
				tt.spoil(t, dir)
			}
			s = openAt(t, dir, tt.boot)
			now := s.LogID()
			if (now != id) != tt.change || now == "" {
				t.Errorf("the id is %q, it was %q", now, id)
			}
			addDeltas(t, s, "s", int64(count(t, s, "s")), 2)
			want := count(t, s, "s")
			again := openAt(t, killed(t, s), tt.boot)
			if got := count(t, again, "s"); got != want {
				t.Errorf("the log has %d events after a kill, want %d", got, want)
			}
			if again.LogID() != now {
				t.Errorf("the id is %q after a kill, it was %q", again.LogID(), now)
			}
		})
	}
}

func openAt(t *testing.T, dir, boot string) *Store {
	t.Helper()
	s, err := open(t.Context(), Config{Dir: dir, boot: boot}, small)
	if err != nil {
		t.Fatal(err)
	}
	s.keeper.stop() // events stay in the journal
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func killed(t *testing.T, s *Store) (dir string) { return abandon(t, filepath.Dir(s.writer.path)) }

func stopped(t *testing.T, s *Store) (dir string) {
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(s.writer.path)
}

// damageJournal changes the first record of a journal with several.
func damageJournal(t *testing.T, dir string) {
	data := readFile(t, journalPath(dir))
	data[recordHeaderBytes] ^= 1
	if err := os.WriteFile(journalPath(dir), data, 0o600); err != nil {
		t.Fatal(err)
	}
}
