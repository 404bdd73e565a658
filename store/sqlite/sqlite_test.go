package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/store"
	"github.com/runnel-dev/runnel/store/storetest"
)

// small has readers meet the seam between memory and the database all the time.
var small = tailLimits{events: 5, bytes: 4000, allBytes: 8000}

func openTest(t *testing.T, dir string, limits tailLimits) *Store {
	t.Helper()
	s, err := open(t.Context(), Config{Dir: dir}, limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func openNew(t *testing.T) runnel.Log {
	s, err := Open(t.Context(), Config{Dir: filepath.Join(t.TempDir(), "data")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func openSmall(t *testing.T) runnel.Log { return openTest(t, t.TempDir(), small) }

func TestLog(t *testing.T)                     { storetest.RunLog(t, openNew) }
func TestLog_SmallTails(t *testing.T)          { storetest.RunLog(t, openSmall) }
func TestG05_SubscribeRace(t *testing.T)       { storetest.RunSubscribeRace(t, openNew) }
func TestG05_SubscribeRace_Small(t *testing.T) { storetest.RunSubscribeRace(t, openSmall) }

func TestCatalogue(t *testing.T) {
	storetest.RunCatalogue(t, func(t *testing.T) (runnel.Log, store.Catalogue) {
		s := openTest(t, t.TempDir(), small)
		return s, s
	})
}

func TestDurable(t *testing.T) {
	storetest.RunDurable(t, func(t *testing.T, dir string) storetest.Durable { return openTest(t, dir, small) })
}

func TestD17_SecondServerRefused(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir, small)
	wants(t, refused(t, dir), "another runnel server", fmt.Sprintf("(process %d)", os.Getpid()), dir)
	if err := s.Append(t.Context(), "s", 0, delta("s", 1)); err != nil {
		t.Errorf("the first server after the second was refused: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	openTest(t, dir, small)
}

// refused opens a store where that must fail, and returns the message.
func refused(t *testing.T, dir string) string {
	t.Helper()
	s, err := Open(t.Context(), Config{Dir: dir})
	if err == nil {
		s.Close()
		t.Fatalf("Open(%q) succeeded", dir)
	}
	if runnel.CodeOf(err) != runnel.StoreUnavailable {
		t.Errorf("Open(%q): %v, want %s", dir, err, runnel.StoreUnavailable)
	}
	message := runnel.Safe(err).Message
	if strings.Contains(message, "\n") || !strings.Contains(message, ";") {
		t.Errorf("Open(%q): %q is not one sentence with what to do", dir, message)
	}
	return message
}

func wants(t *testing.T, message string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(message, p) {
			t.Errorf("message %q does not say %q", message, p)
		}
	}
}

func count(t *testing.T, s *Store, session string) int {
	t.Helper()
	n := 0
	for _, err := range s.Read(t.Context(), session, 0) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}
