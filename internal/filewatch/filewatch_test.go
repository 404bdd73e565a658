package filewatch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A reports has the changes that a Watcher has reported.
type reports struct {
	*Watcher
	t *testing.T

	mu      sync.Mutex
	changes []Change
	more    chan struct{}
}

// watch starts to watch places until the test ends.
func watch(t *testing.T, most int, places ...Place) *reports {
	t.Helper()
	h := &reports{t: t, more: make(chan struct{}, 1)}
	w, err := New(places, most, func(c Change) {
		h.mu.Lock()
		h.changes = append(h.changes, c)
		h.mu.Unlock()
		select {
		case h.more <- struct{}{}:
		default:
		}
	})
	if err != nil {
		t.Skip(err) // the system has no events
	}
	h.Watcher = w
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	<-w.Ready()
	return h
}

// gets waits until a change was reported.
func (h *reports) gets(want Change) {
	h.t.Helper()
	timeout := time.After(30 * time.Second)
	for {
		h.mu.Lock()
		found := slices.Contains(h.changes, want)
		h.mu.Unlock()
		if found {
			return
		}
		select {
		case <-h.more:
		case <-timeout:
			h.t.Fatalf("no change %+v: %+v", want, h.changes)
		}
	}
}

// has reports whether a change was reported.
func (h *reports) has(c Change) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Contains(h.changes, c)
}

func write(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString("line\n")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestChangesOfMatchingFilesAreReported(t *testing.T) {
	dir := t.TempDir()
	old := write(t, filepath.Join(dir, "a", "x", "1.log"))
	h := watch(t, 100, Place{dir, "*/x/*.log"})
	write(t, old)
	h.gets(Change{0, old})
	for _, other := range []string{"a/x/1.txt", "a/y/1.log", "b/1.log", "1.log"} {
		write(t, filepath.Join(dir, filepath.FromSlash(other)))
	}
	added := write(t, filepath.Join(dir, "new", "x", "2.log"))
	h.gets(Change{0, added})
	write(t, added)
	if err := os.Remove(added); err != nil {
		t.Fatal(err)
	}
	moved := filepath.Join(dir, "a", "x", "3.log")
	if err := os.Rename(old, moved); err != nil {
		t.Fatal(err)
	}
	h.gets(Change{0, moved})
	for _, c := range h.changes {
		if filepath.Ext(c.Path) != ".log" || filepath.Base(filepath.Dir(c.Path)) != "x" {
			t.Errorf("reported %+v", c)
		}
	}
}

func TestFolderThatAppearsLaterIsWatched(t *testing.T) {
	home := t.TempDir()
	dir := filepath.Join(home, ".agent", "state", "projects")
	h := watch(t, 100, Place{dir, "*/*.log"}, Place{filepath.Join(home, ".agent"), "index"})
	first := write(t, filepath.Join(dir, "p", "1.log"))
	h.gets(Change{0, first})
	index := write(t, filepath.Join(home, ".agent", "index"))
	h.gets(Change{1, index})
	if err := os.RemoveAll(filepath.Join(home, ".agent")); err != nil {
		t.Fatal(err)
	}
	h.gets(Change{0, ""})
	second := write(t, filepath.Join(dir, "q", "2.log"))
	h.gets(Change{0, second})
}

func TestFolderThatIsMovedAwayIsReported(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "p", "deep", "1.log"))
	h := watch(t, 100, Place{dir, "*/*/*.log"})
	if err := os.Rename(filepath.Join(dir, "p"), filepath.Join(t.TempDir(), "p")); err != nil {
		t.Fatal(err)
	}
	h.gets(Change{0, ""})
	again := write(t, filepath.Join(dir, "p", "deep", "1.log"))
	h.gets(Change{0, again})
}

func TestNewestDirectoriesAreWatchedIfThereAreTooMany(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for i := range 10 {
		file := write(t, filepath.Join(dir, fmt.Sprint("d", i), "1.log"))
		at := time.Now().Add(time.Duration(i-20) * time.Hour)
		if err := os.Chtimes(filepath.Dir(file), at, at); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	h := watch(t, 4, Place{dir, "*/*.log"})
	if st := h.States()[0]; st.Watched != 4 || st.Left != 7 || st.IsWhole() {
		t.Errorf("%+v, want dir and 3 of 10 directories", st)
	}
	write(t, files[9])
	h.gets(Change{0, files[9]})
	added := write(t, filepath.Join(dir, "new", "1.log"))
	h.gets(Change{0, added})
	write(t, added)
	write(t, files[0])
	write(t, files[8])
	h.gets(Change{0, files[8]})
	if h.has(Change{0, files[0]}) || h.has(Change{0, files[7]}) {
		t.Errorf("directories beyond the bound are watched: %+v", h.changes)
	}
	if st := h.States()[0]; st.Watched != 4 || st.Left != 8 {
		t.Errorf("%+v, want the same number of directories", st)
	}
}

func TestFilesOfADirectoryCountWhereTheSystemWatchesEach(t *testing.T) {
	dir := t.TempDir()
	for i := range 20 {
		write(t, filepath.Join(dir, "d", fmt.Sprint(i, ".log")))
	}
	w, err := New([]Place{{dir, "*/*.log"}}, 10, func(Change) {})
	if err != nil {
		t.Skip(err)
	}
	w.perFile = true
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx)
	}()
	<-w.Ready()
	if st := w.States()[0]; st.IsWhole() || st.Watched != 2 {
		t.Errorf("%+v, want only dir with its one entry", st)
	}
	cancel()
	<-ended
}

func TestSyncWaitsForAllEarlierChanges(t *testing.T) {
	dir := t.TempDir()
	h := watch(t, 100, Place{dir, "*.log"})
	if !h.Sync(t.Context()) {
		t.Skip("the system does not order events")
	}
	for i := range 200 {
		path := write(t, filepath.Join(dir, fmt.Sprint(i, ".log")))
		if !h.Sync(t.Context()) || !h.has(Change{0, path}) {
			t.Fatalf("%d: the change was not reported", i)
		}
	}
}

func TestSyncEndsWithRun(t *testing.T) {
	w, err := New([]Place{{t.TempDir(), "*"}}, 10, func(Change) {})
	if err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.Run(ctx)
	if w.Sync(t.Context()) {
		t.Error("all changes are reported although Run has ended")
	}
}

func TestLinksBelowAPlaceAreNotFollowed(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	if err := os.Symlink(other, filepath.Join(dir, "link")); err != nil {
		t.Skip(err)
	}
	h := watch(t, 100, Place{dir, "*/*.log"})
	write(t, filepath.Join(other, "1.log"))
	own := write(t, filepath.Join(dir, "p", "1.log"))
	h.gets(Change{0, own})
	if len(h.changes) == 0 || h.has(Change{0, filepath.Join(dir, "link", "1.log")}) {
		t.Errorf("%+v", h.changes)
	}
}
