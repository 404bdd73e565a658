package agentconn_test

import (
	"os"
	"sync"
	"testing"

	"github.com/runnel-dev/runnel/internal/agentconn"
)

// Agents of one kind that start at the same time share their settings. None of
// them finds the file missing.
func TestSettingsForManyAgentsAtOnceAreKept(t *testing.T) {
	for range 200 {
		t.Setenv("XDG_CACHE_HOME", t.TempDir())
		t.Setenv("HOME", t.TempDir())
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 3 {
					path, err := agentconn.KeepSettings("test", []byte("settings"))
					if err != nil {
						t.Error(err)
						return
					}
					if got, err := os.ReadFile(path); err != nil || string(got) != "settings" {
						t.Errorf("%q, %v", got, err)
						return
					}
				}
			})
		}
		all.Wait()
	}
}

func TestSettingsThatAnotherProgramChangedAreWrittenAgain(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	path, err := agentconn.KeepSettings("test", []byte("settings"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("others"), 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := agentconn.KeepSettings("test", []byte("settings"))
	if got, _ := os.ReadFile(again); err != nil || string(got) != "settings" {
		t.Errorf("%q, %v", got, err)
	}
}
