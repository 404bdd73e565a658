package audit_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/audit"
	"github.com/runnel-dev/runnel/event"
)

func place(t *testing.T) audit.Place {
	t.Helper()
	home := t.TempDir()
	return audit.Place{Dir: filepath.Join(home, "data", "audit"), Head: filepath.Join(home, "config", "audit.head"), Secret: "secret of the key file"}
}

func open(t *testing.T, cfg audit.Config) *audit.Log {
	t.Helper()
	l, err := audit.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func appendAll(t *testing.T, l *audit.Log, whats ...string) {
	t.Helper()
	for _, what := range whats {
		if err := l.Append(audit.Record{Kind: audit.Login, What: what}); err != nil {
			t.Fatal(err)
		}
	}
}

// written makes a log with entries a, b, c … and closes it.
func written(t *testing.T, p audit.Place, entries int) {
	t.Helper()
	l := open(t, audit.Config{Place: p})
	for i := range entries {
		appendAll(t, l, string(rune('a'+i)))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func problems(t *testing.T, p audit.Place) []string {
	t.Helper()
	report, err := audit.Verify(p)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, p := range report.Problems {
		out = append(out, p.String())
	}
	return out
}

func onlyFile(t *testing.T, p audit.Place) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(p.Dir, "*.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	return files[0]
}

// edit changes the lines of a file, each with its line break.
func edit(t *testing.T, path string, change func(lines [][]byte) [][]byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.Collect(bytes.Lines(data))
	if err := os.WriteFile(path, bytes.Join(change(lines), nil), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestEntriesAreReadAsTheyWereAppended(t *testing.T) {
	p, at := place(t), time.Date(2026, 11, 22, 1, 2, 3, 4, time.FixedZone("", 3600))
	clean := func(s string) string { return strings.ReplaceAll(s, "hunter2", "[secret]") }
	l := open(t, audit.Config{Place: p, Clean: clean, Clock: func() time.Time { return at }})
	if err := errors.Join(
		l.Append(audit.Record{Kind: audit.TokenCreated, Who: "laptop", What: "ci: hunter2\nread", Why: strings.Repeat("x", 1000)}),
		l.Append(audit.Record{Kind: audit.Decision, Choice: "allow", Rule: 3, At: at.Add(time.Hour)}),
	); err != nil {
		t.Fatal(err)
	}
	got, err := l.Read(audit.Query{After: 0, Limit: 10})
	if err != nil || len(got) != 2 {
		t.Fatal(got, err)
	}
	if len(got[0].Why) > 310 {
		t.Errorf("a text of %d bytes", len(got[0].Why))
	}
	got[0].Why = ""
	want := []audit.Record{
		{N: 1, At: at.UTC(), Kind: audit.TokenCreated, Who: "laptop", What: "ci: [secret] read"},
		{N: 2, At: at.Add(time.Hour).UTC(), Kind: audit.Decision, Choice: "allow", Rule: 3},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got, err := l.Read(audit.Query{After: 1, Limit: 10}); err != nil || len(got) != 1 || got[0].N != 2 {
		t.Errorf("after the first entry: %v, %v", got, err)
	}
	if got, err := l.Read(audit.Query{After: 0, Limit: 1}); err != nil || len(got) != 1 || got[0].N != 1 {
		t.Errorf("one entry: %v, %v", got, err)
	}
}

func TestEveryChangeIsFound(t *testing.T) {
	const entries = 5
	for name, change := range map[string]func(lines [][]byte) [][]byte{
		"removed line":   func(ls [][]byte) [][]byte { return slices.Delete(ls, 2, 3) },
		"first line":     func(ls [][]byte) [][]byte { return ls[1:] },
		"cut tail":       func(ls [][]byte) [][]byte { return ls[:4] },
		"cut in a line":  func(ls [][]byte) [][]byte { ls[4] = ls[4][:20]; return ls },
		"all of it":      func([][]byte) [][]byte { return nil },
		"swapped":        func(ls [][]byte) [][]byte { ls[1], ls[2] = ls[2], ls[1]; return ls },
		"repeated":       func(ls [][]byte) [][]byte { return slices.Insert(ls, 2, ls[1]) },
		"appended":       func(ls [][]byte) [][]byte { return append(ls, ls[4]) },
		"rubbish":        func(ls [][]byte) [][]byte { return append(ls, []byte("rubbish\n")) },
		"very long line": func(ls [][]byte) [][]byte { return append(ls, append(bytes.Repeat([]byte("x"), 1<<20), '\n')) },
		"another number": func(ls [][]byte) [][]byte {
			ls[4] = bytes.Replace(ls[4], []byte(`"n":5`), []byte(`"n":6`), 1)
			return ls
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := place(t)
			written(t, p, entries)
			if found := problems(t, p); found != nil {
				t.Fatalf("an unchanged log has problems: %q", found)
			}
			edit(t, onlyFile(t, p), change)
			found := problems(t, p)
			if len(found) == 0 {
				t.Fatal("the change was not found")
			}
			// A log that goes on does not hide the change.
			l := open(t, audit.Config{Place: p})
			appendAll(t, l, "more")
			if len(problems(t, p)) == 0 {
				t.Errorf("the change is hidden by a further entry; it was %q", found)
			}
		})
	}
}

func TestEveryChangedByteIsFound(t *testing.T) {
	p := place(t)
	written(t, p, 3)
	path := onlyFile(t, p)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		changed := bytes.Clone(data)
		changed[i] ^= 1
		if err := os.WriteFile(path, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		if found := problems(t, p); len(found) == 0 {
			t.Fatalf("byte %d was changed from %q to %q, and nothing was found", i, data[i], changed[i])
		}
	}
}

func TestWhoLacksTheKeyForgesNothing(t *testing.T) {
	p := place(t)
	written(t, p, 3)
	forger := p
	forger.Secret = "a guess"
	if found := problems(t, forger); len(found) == 0 {
		t.Error("another key fits")
	}
	forger.Head = filepath.Join(t.TempDir(), "head")
	l := open(t, audit.Config{Place: forger})
	appendAll(t, l, "forged")
	if found := problems(t, p); len(found) == 0 {
		t.Error("an entry with a code of another key was not found")
	}
}

func TestMissingEntriesAreRecordedWhenTheLogIsOpened(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, p audit.Place){
		"cut tail": func(t *testing.T, p audit.Place) {
			edit(t, onlyFile(t, p), func(ls [][]byte) [][]byte { return ls[:2] })
		},
		"whole file": func(t *testing.T, p audit.Place) { remove(t, onlyFile(t, p)) },
		"changed end": func(t *testing.T, p audit.Place) {
			edit(t, onlyFile(t, p), func(ls [][]byte) [][]byte { ls[2] = bytes.Replace(ls[2], []byte(`"c"`), []byte(`"x"`), 1); return ls })
		},
		"head": func(t *testing.T, p audit.Place) { remove(t, p.Head) },
	} {
		t.Run(name, func(t *testing.T) {
			p := place(t)
			written(t, p, 3)
			change(t, p)
			l := open(t, audit.Config{Place: p})
			got, err := l.Read(audit.Query{After: 3, Limit: 10})
			if err != nil || len(got) != 1 || got[0].N != 4 || got[0].Kind != audit.Damaged {
				t.Errorf("after opening: %+v, %v", got, err)
			}
		})
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// A crash can leave a part of a line, or a line without its head. Neither is
// damage.
func TestCrashWhileAppendingIsNoDamage(t *testing.T) {
	p := place(t)
	written(t, p, 3)
	data, err := os.ReadFile(onlyFile(t, p))
	if err != nil {
		t.Fatal(err)
	}
	head, err := os.ReadFile(p.Head)
	if err != nil {
		t.Fatal(err)
	}
	l := open(t, audit.Config{Place: p})
	appendAll(t, l, "d")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(onlyFile(t, p))
	if err != nil {
		t.Fatal(err)
	}
	for n := len(data); n <= len(whole); n++ {
		if err := errors.Join(os.WriteFile(onlyFile(t, p), whole[:n], 0o600), os.WriteFile(p.Head, head, 0o600)); err != nil {
			t.Fatal(err)
		}
		if found := problems(t, p); found != nil {
			t.Fatalf("with %d of %d bytes of a line: %q", n-len(data), len(whole)-len(data), found)
		}
		l := open(t, audit.Config{Place: p})
		appendAll(t, l, "more")
		if found := problems(t, p); found != nil {
			t.Fatalf("after %d of %d bytes of a line and a further entry: %q", n-len(data), len(whole)-len(data), found)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTornHeadLeavesTheOneBefore(t *testing.T) {
	p := place(t)
	written(t, p, 4)
	head, err := os.ReadFile(p.Head)
	if err != nil {
		t.Fatal(err)
	}
	clear(head[:len(head)/2]) // the head of the fourth entry
	if err := os.WriteFile(p.Head, head, 0o600); err != nil {
		t.Fatal(err)
	}
	if found := problems(t, p); found != nil {
		t.Error(found)
	}
	edit(t, onlyFile(t, p), func(ls [][]byte) [][]byte { return ls[:2] })
	if found := problems(t, p); len(found) == 0 {
		t.Error("the head before does not cover its entries")
	}
}

func TestLogIsRotatedAndItsOldestFilesAreRemoved(t *testing.T) {
	p := place(t)
	l := open(t, audit.Config{Place: p, FileBytes: 1000, Files: 3})
	for i := range 40 {
		appendAll(t, l, fmt.Sprint(i))
	}
	files, err := filepath.Glob(filepath.Join(p.Dir, "*.jsonl"))
	if err != nil || len(files) > 3 {
		t.Errorf("%d files, %v", len(files), err)
	}
	report, err := audit.Verify(p)
	if err != nil || report.Problems != nil {
		t.Errorf("%+v, %v", report, err)
	}
	all, err := l.Read(audit.Query{After: 0, Limit: 1000})
	if err != nil || uint64(len(all)) != report.Entries || all[0].N != report.First || all[0].N == 1 || all[len(all)-1].N != l.Last() {
		t.Errorf("read %d entries from %d to %d, %v; the report says %+v", len(all), all[0].N, all[len(all)-1].N, err, report)
	}
	if !slices.ContainsFunc(all, func(e audit.Record) bool { return e.Kind == audit.Dropped && e.Count > 0 }) {
		t.Error("no entry reports that files were removed")
	}
	// The removal of a file is damage if the log did not do it.
	remove(t, files[0])
	if len(problems(t, p)) == 0 {
		t.Error("a missing file was not found")
	}
}

// A crash can leave a new file without an entry.
func TestEmptyLastFileIsNoDamage(t *testing.T) {
	p := place(t)
	written(t, p, 3)
	if err := os.WriteFile(filepath.Join(p.Dir, "audit-0000000000000004.jsonl"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l := open(t, audit.Config{Place: p})
	appendAll(t, l, "d")
	if found := problems(t, p); found != nil {
		t.Error(found)
	}
	if got, err := l.Read(audit.Query{After: 0, Limit: 10}); err != nil || len(got) != 4 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestParallelAppendsFormOneChain(t *testing.T) {
	p := place(t)
	l := open(t, audit.Config{Place: p, FileBytes: 2000, Files: 100})
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			for range 10 {
				if err := l.Append(audit.Record{Kind: audit.Login}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	if err := l.Wait(t.Context(), 79); err != nil {
		t.Error(err)
	}
	work.Wait()
	if report, err := audit.Verify(p); err != nil || report.Problems != nil || report.Entries != 80 {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestClosedLogAppendsNothingAndEndsWaiting(t *testing.T) {
	l := open(t, audit.Config{Place: place(t)})
	done := make(chan error)
	go func() { done <- l.Wait(t.Context(), 0) }()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, audit.ErrClosed) {
		t.Error(err)
	}
	if err := l.Append(audit.Record{Kind: audit.Login}); !errors.Is(err, audit.ErrClosed) {
		t.Error(err)
	}
}

func TestFolderThatOthersCanWriteIsRefused(t *testing.T) {
	p := place(t)
	if err := os.MkdirAll(p.Dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(p.Dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if l, err := audit.Open(audit.Config{Place: p}); err == nil {
		_ = l.Close()
		t.Error("the log was opened")
	}
}

func TestDecisionNamesTheToolOnce(t *testing.T) {
	for _, c := range []struct{ tool, title, want string }{
		{"Bash", "Bash: hostile", "Bash: hostile"},
		{"Edit", "Edit pricing.go", "Edit pricing.go"},
		{"Edit", "Edit", "Edit"},
		{"Edit", "Editor settings", "Edit: Editor settings"},
		{"Bash", "run the tests", "Bash: run the tests"},
		{"Bash", "", "Bash"},
		{"", "run the tests", "run the tests"},
	} {
		d := runnel.Decided{Approval: event.Approval{ToolName: c.tool, Title: c.title}}
		if got := audit.Decided("s", d).What; got != c.want {
			t.Errorf("%q, %q: got %q, want %q", c.tool, c.title, got, c.want)
		}
	}
}
