//go:build linux

package hostile

import (
	"bytes"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/internal/testapi"
)

// holders returns the files below the data directory that contain text.
func (w *world) holders(text string) (names []string) {
	w.t.Helper()
	err := filepath.WalkDir(w.data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return nil
		}
		if bytes.Contains(content, []byte(text)) {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return names
}

// TestDeletedTranscriptLeavesNoBytes reads the files of the data directory
// while the server runs, as a thief would. Soon after a session was deleted, no
// file may contain text of the session.
func TestDeletedTranscriptLeavesNoBytes(t *testing.T) {
	w := newWorld(t, nil, "60s")
	w.start()
	const mark = "e3b98a4da31a127d"
	other := w.Follow(w.create())
	defer other.Leave()
	c := w.Follow(w.create())
	defer c.Leave()
	for range 20 { // alternating with another session, as on a real server
		c.End(c.Send(strings.Repeat(mark, 100) + plan{Deltas: 3}.prompt()))
		other.End(other.Send(plan{Deltas: 3}.prompt()))
	}
	if w.holders(mark) == nil {
		t.Fatal("the test finds nothing where there is something")
	}
	if code, ok := w.Call("DELETE", "/api/harness/session/"+c.Session, nil, nil); !ok || code >= http.StatusBadRequest {
		t.Fatalf("delete: %d", code)
	}
	late := time.After(testapi.Timeout)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for left := w.holders(mark); left != nil; left = w.holders(mark) {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("deleted, it is still in %v", left)
		}
	}
	other.End(other.Send(plan{Deltas: 1}.prompt()))
}
