package main

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/store"
	"github.com/runnel-dev/runnel/store/sqlite"
)

// listCounter counts the bytes of options in the lists of a store.
type listCounter struct {
	*sqlite.Store
	bytes int
}

func (l *listCounter) Sessions(ctx context.Context, f store.SessionFilter) ([]store.Session, error) {
	list, err := l.Store.Sessions(ctx, f)
	for _, rec := range list {
		l.bytes += len(rec.Options)
	}
	return list, err
}

// Without a server, too, the list leaves out what it does not show.
func TestSessionListReadsNoLongOptions(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	st, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	options, err := json.Marshal(map[string]any{"systemPrompt": strings.Repeat("x", 1<<20), "config": map[string]string{"pace": "fast"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := st.PutSession(t.Context(), store.Session{ID: "one", CLIType: "script", State: event.StateOpen, Options: options}); err != nil {
		t.Fatal(err)
	}
	l := &listCounter{Store: st}
	rows, err := localSessions{st: l}.list(t.Context(), gateway.Filter{})
	if err != nil || len(rows) != 1 || rows[0].Given["pace"] != "fast" {
		t.Fatalf("got %+v, %v", rows, err)
	}
	if l.bytes > 1<<10 {
		t.Errorf("read %d bytes of options", l.bytes)
	}
}
