package sqlite

import (
	"path/filepath"
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
