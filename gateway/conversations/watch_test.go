package conversations

import (
	"context"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
)

// A placer is a provider whose conversations are files on the disk: below dir,
// the pattern */*.log, with titles in dir/titles.
type placer struct {
	runnel.Provider
	dir string

	mu    sync.Mutex
	read  []string // names of the files that were summarized
	walks int
}

func (*placer) Name() string { return "placing" }

func (p *placer) StoredPlaces() []runnel.StoredPlace {
	return []runnel.StoredPlace{{Dir: p.dir, Pattern: "*/*.log"}, {Dir: p.dir, Pattern: "titles", Shared: true}}
}

func (p *placer) StoredFile(path string) (f runnel.StoredFile, ok bool) {
	st, err := os.Stat(path)
	if err != nil {
		return f, false
	}
	titles, _ := os.ReadFile(filepath.Join(p.dir, "titles"))
	return runnel.StoredFile{Path: path, Size: st.Size(), ModTime: st.ModTime(), Title: string(titles)}, true
}

func (p *placer) StoredFiles(context.Context) iter.Seq2[runnel.StoredFile, error] {
	p.mu.Lock()
	p.walks++
	p.mu.Unlock()
	return func(yield func(runnel.StoredFile, error) bool) {
		files, _ := filepath.Glob(filepath.Join(p.dir, "*", "*.log"))
		for _, path := range files {
			if f, ok := p.StoredFile(path); ok && !yield(f, nil) {
				return
			}
		}
	}
}

func (p *placer) Summarize(_ context.Context, f runnel.StoredFile) (runnel.Conversation, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := strings.TrimSuffix(filepath.Base(f.Path), ".log")
	p.read = append(p.read, name)
	data, err := os.ReadFile(f.Path)
	if err != nil {
		return runnel.Conversation{}, err
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return runnel.Conversation{AgentSessionID: name, Dir: filepath.Dir(f.Path), Title: f.Title, LastMessage: lines[len(lines)-1], UpdatedAt: f.ModTime}, nil
}

// write appends a line to the file of a conversation.
func (p *placer) write(t *testing.T, name, line string) {
	t.Helper()
	path := filepath.Join(p.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(line + "\n"); err != nil {
		t.Fatal(err)
	}
}

// watched returns an index that watches p, once it has the conversations that
// exist.
func watched(t *testing.T, p *placer) *Index {
	t.Helper()
	x := open(t, Config{Providers: []runnel.Provider{p}})
	places, of := watchedPlaces(x.sources)
	if x.listen(places, of); x.watcher == nil {
		t.Skip("the system has no events")
	}
	x.trust(of, make(map[string]bool))
	x.catchUp()
	x.work.Go(func() { x.serve(of) })
	if !x.IsWatched(func(string) bool { return true }) {
		t.Fatal("not all files are watched")
	}
	return x
}

// until waits, without looking for changed files, until the index has a
// conversation with this last message.
func until(t *testing.T, x *Index, key Key, last string) Conversation {
	t.Helper()
	timeout := time.After(30 * time.Second)
	for {
		_, _, now := x.Changes(-1)
		if c := x.Known(key)[key]; c.LastMessage == last {
			return c
		}
		select {
		case <-x.Grown(now):
		case <-timeout:
			t.Fatalf("%v: %+v, want the last message %q", key, x.Known(key), last)
		}
	}
}

func TestEventsAddAndChangeConversations(t *testing.T) {
	p := &placer{dir: filepath.Join(t.TempDir(), "agent", "projects")}
	x := watched(t, p)
	a, b := Key{"placing", "a"}, Key{"placing", "b"}
	p.write(t, "p/a.log", "one")
	until(t, x, a, "one")
	p.write(t, "p/a.log", "two")
	until(t, x, a, "two")
	p.write(t, "new/b.log", "one")
	until(t, x, b, "one")
	_, _, before := x.Changes(-1)
	if err := os.Remove(filepath.Join(p.dir, "p", "a.log")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-x.Grown(before):
	case <-time.After(30 * time.Second):
		t.Fatal("a removed file changes nothing")
	}
	if got := x.Known(a); len(got) != 0 {
		t.Errorf("of a removed file: %+v", got)
	}
	list, all, _ := x.Changes(before)
	if all || len(list) != 1 || list[0] != (Changed{a, filepath.Join(p.dir, "p")}) {
		t.Errorf("changes: %+v, %v", list, all)
	}
}

func TestEventsNeedNoComparisonOfAllFiles(t *testing.T) {
	p := &placer{dir: t.TempDir()}
	p.write(t, "p/old.log", "one")
	x := watched(t, p)
	until(t, x, Key{"placing", "old"}, "one")
	if _, err := x.Stored(t.Context(), func(string) bool { return true }); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	walks := p.walks
	p.mu.Unlock()
	for _, line := range []string{"1", "2", "3"} {
		p.write(t, "p/a.log", line)
		got := ids(t, x, Query{})
		if !slices.Equal(got, []string{"a", "old"}) {
			t.Fatalf("right after a write: %q", got)
		}
		if c := x.Known(Key{"placing", "a"})[Key{"placing", "a"}]; c.LastMessage != line {
			t.Fatalf("right after a write: %+v, want %q", c, line)
		}
	}
	if _, err := x.Stored(t.Context(), func(string) bool { return true }); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.walks != walks {
		t.Errorf("all files were compared %d times", p.walks-walks)
	}
	slices.Sort(p.read)
	if !slices.Equal(p.read, []string{"a", "a", "a", "old"}) {
		t.Errorf("read %q, want each state of a file once", p.read)
	}
}

func TestChangeOfASharedFileComparesAll(t *testing.T) {
	p := &placer{dir: t.TempDir()}
	p.write(t, "p/a.log", "one")
	x := watched(t, p)
	key := Key{"placing", "a"}
	until(t, x, key, "one")
	_, _, before := x.Changes(-1)
	p.write(t, "titles", "A title")
	select {
	case <-x.Grown(before):
	case <-time.After(30 * time.Second):
		t.Fatal("the titles have changed nothing")
	}
	if c := x.Known(key)[key]; c.Title != "A title" {
		t.Errorf("%+v", c)
	}
}

func TestOldChangesAreForgotten(t *testing.T) {
	x := New(Config{})
	for range 3 * maxChanges {
		x.changes.add(Conversation{CLIType: "c", AgentSessionID: "a"})
	}
	if _, all, now := x.Changes(0); !all || now != 3*maxChanges {
		t.Errorf("all %v, now %d", all, now)
	}
	if list, all, _ := x.Changes(3*maxChanges - 2); all || len(list) != 2 {
		t.Errorf("%d changes, all %v", len(list), all)
	}
	if n := len(x.changes.newest); n > 2*maxChanges {
		t.Errorf("%d changes are kept", n)
	}
	select {
	case <-x.Grown(3*maxChanges - 1):
	default:
		t.Error("the newest change is not reported")
	}
}

func TestManyChangedFilesAreBounded(t *testing.T) {
	s := &source{}
	for i := range maxPending + 1 {
		s.note(strings.Repeat("x", i))
	}
	if len(s.pending) > maxPending || !s.again {
		t.Errorf("%d files, all %v", len(s.pending), s.again)
	}
}
