package proc

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// groupFiles makes a directory with the files of a cgroup.
func groupFiles(t *testing.T, files map[string]string) *fence {
	t.Helper()
	path := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(path, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	return &fence{path, dir}
}

func TestLimitWritesTheFilesOfACgroup(t *testing.T) {
	f := groupFiles(t, map[string]string{"memory.swap.max": ""})
	if err := f.limit(Limits{MemoryMiB: 3, Processes: 7, CPUs: 0.001}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"memory.max": "3145728", "memory.swap.max": "0", "pids.max": "7", "cpu.max": "1000 100000"} {
		if got, err := os.ReadFile(filepath.Join(f.path, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
	f = groupFiles(t, nil)
	if err := f.limit(Limits{CPUs: 1.5}); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(f.path); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v; want only cpu.max", entries, err)
	}
}

// Only kills at the fence's own limit count, not those of a machine without
// memory.
func TestNoteCountsWhatTheLimitsDid(t *testing.T) {
	for _, c := range []struct {
		memory, pids string
		want         ExitStatus
	}{
		{"low 0\nhigh 0\nmax 12\noom 2\noom_kill 2\noom_group_kill 0\n", "max 5\n", ExitStatus{MemoryKills: 2, RefusedForks: 5}},
		{"low 0\nhigh 0\nmax 0\noom 0\noom_kill 1\noom_group_kill 0\n", "max 0\n", ExitStatus{}},
		{"", "", ExitStatus{}},
	} {
		var st ExitStatus
		groupFiles(t, map[string]string{"memory.events": c.memory, "pids.events": c.pids}).note(&st)
		if st != c.want {
			t.Errorf("%q: %+v, want %+v", c.memory, st, c.want)
		}
	}
	var st ExitStatus
	groupFiles(t, nil).note(&st) // a fence without controllers
	(*fence)(nil).note(&st)
	if st != (ExitStatus{}) {
		t.Errorf("%+v", st)
	}
}

// A child with limits never starts without them.
func TestChildWithoutItsLimitsDoesNotStart(t *testing.T) {
	if CheckLimits(Limits{MemoryMiB: 100, Processes: 100, CPUs: 1}) == nil {
		t.Skip("this machine enforces limits")
	}
	c := command("deaf")
	c.Limits = Limits{MemoryMiB: 100}
	p, err := Start(t.Context(), c)
	if err == nil {
		_ = p.Stop(t.Context(), Now)
	}
	start, ok := errors.AsType[*StartError](err)
	if !ok || start.Reason != Unlimited {
		t.Errorf("%v", err)
	}
}
