//go:build linux

package hostile

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// list is the role of an agent's tool. It reports what its descriptors lead to.
func list(args []string) {
	var found []string
	names, _ := filepath.Glob("/proc/self/fd/*")
	for _, name := range names {
		if to, err := os.Readlink(name); err == nil {
			found = append(found, to)
		}
	}
	writeResult(filepath.Join(args[0], "listed"), found)
}

// TestAgentsInheritNoDescriptorsOfTheServer starts the server like a script that
// holds a lock and a directory open. In a sandbox, the directory would be a way
// out.
func TestAgentsInheritNoDescriptorsOfTheServer(t *testing.T) {
	w := newWorld(t, nil, "60s")
	other := filepath.Join(w.dir, "other")
	lock := filepath.Join(other, "lock")
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.under = []string{"/bin/sh", "-c", `exec 8<"$1" 9>"$2"; shift 2; exec "$@"`, "sh", other, lock}
	w.start()
	c := w.Watch(w.create())
	defer c.Leave()
	c.Send(plan{Deltas: 1, Tool: []string{w.agent(), "play-list", w.project}}.prompt())
	var listed []string
	w.file("listed", &listed)
	if len(listed) == 0 || slices.Contains(listed, other) || slices.Contains(listed, lock) {
		t.Errorf("the descriptors of an agent's tool lead to %q", listed)
	}
	w.killSessions()
}
