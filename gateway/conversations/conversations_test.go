package conversations

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/runnel-dev/runnel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// agent is a provider whose conversations are in files.
type agent struct {
	runnel.Provider

	mu    sync.Mutex
	files map[string]runnel.StoredFile // by path
	read  []string                     // paths that were summarized
	as    func(f runnel.StoredFile) (runnel.Conversation, error)
}

func (*agent) Name() string { return "filing" }

func (a *agent) StoredFiles(context.Context) iter.Seq2[runnel.StoredFile, error] {
	return func(yield func(runnel.StoredFile, error) bool) {
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, f := range a.files {
			if !yield(f, nil) {
				return
			}
		}
	}
}

func (a *agent) Summarize(_ context.Context, f runnel.StoredFile) (runnel.Conversation, error) {
	a.mu.Lock()
	a.read = append(a.read, f.Path)
	a.mu.Unlock()
	if a.as != nil {
		return a.as(f)
	}
	id := filepath.Base(f.Path)
	return runnel.Conversation{AgentSessionID: id, Dir: filepath.Dir(f.Path), Title: "title of " + id, LastMessage: "end of " + id, Size: f.Size, CreatedAt: start, UpdatedAt: f.ModTime}, nil
}

// put stores a file that was changed n seconds after start.
func (a *agent) put(path string, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.files == nil {
		a.files = make(map[string]runnel.StoredFile)
	}
	a.files[path] = runnel.StoredFile{Path: path, Size: int64(n), ModTime: start.Add(time.Duration(n) * time.Second), Inode: 1}
}

// took returns the paths that were read since the last call.
func (a *agent) took() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	read := a.read
	a.read = nil
	slices.Sort(read)
	return read
}

func open(t *testing.T, cfg Config) *Index {
	t.Helper()
	cfg.MaxWait = time.Minute
	x := New(cfg)
	t.Cleanup(x.Close)
	return x
}

func ids(t *testing.T, x *Index, q Query) (out []string) {
	t.Helper()
	if q.Limit == 0 {
		q.Limit = 1000
	}
	page, err := x.List(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range page.Conversations {
		out = append(out, c.AgentSessionID)
	}
	return out
}

func equal(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestOnlyChangedFilesAreReadAgain(t *testing.T) {
	a := new(agent)
	for i, name := range []string{"a", "b", "c"} {
		a.put("/p/"+name, i)
	}
	x := open(t, Config{Providers: []runnel.Provider{a}})
	equal(t, "list", ids(t, x, Query{}), "c", "b", "a")
	equal(t, "read", a.took(), "/p/a", "/p/b", "/p/c")
	ids(t, x, Query{})
	equal(t, "read while nothing changed", a.took())
	a.put("/p/a", 9)
	delete(a.files, "/p/b")
	equal(t, "list after a change", ids(t, x, Query{}), "a", "c")
	equal(t, "read after a change", a.took(), "/p/a")
	f := a.files["/p/c"]
	f.Title = "new name"
	a.files["/p/c"] = f
	ids(t, x, Query{})
	equal(t, "read after a new name", a.took(), "/p/c")
}

func TestStoredIndexSparesReading(t *testing.T) {
	file := filepath.Join(t.TempDir(), "index")
	a := new(agent)
	a.put("/p/a", 1)
	a.put("/p/b", 2)
	one := open(t, Config{Providers: []runnel.Provider{a}, File: file})
	before, err := one.List(t.Context(), Query{Limit: 9})
	if err != nil {
		t.Fatal(err)
	}
	one.Close()
	if st, err := os.Stat(file); err != nil || st.Mode().Perm()&0o077 != 0 {
		t.Errorf("the index: %v, %v", st, err)
	}
	a.took()
	two := open(t, Config{Providers: []runnel.Provider{a}, File: file})
	after, err := two.List(t.Context(), Query{Limit: 9})
	if err != nil || !slices.Equal(after.Conversations, before.Conversations) {
		t.Errorf("after a restart: %+v, before: %+v, %v", after, before, err)
	}
	equal(t, "read after a restart", a.took())
	left, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(left) != 1 {
		t.Errorf("files: %v, %v", left, err)
	}
}

func TestFileThatWasUnreadableForAMomentIsReadAgain(t *testing.T) {
	failure := runnel.Fail(runnel.AgentError, "the database is locked")
	a := &agent{}
	a.as = func(f runnel.StoredFile) (runnel.Conversation, error) {
		if failure != nil {
			return runnel.Conversation{}, failure
		}
		return runnel.Conversation{AgentSessionID: filepath.Base(f.Path), UpdatedAt: f.ModTime}, nil
	}
	a.put("/p/one", 1)
	x := open(t, Config{Providers: []runnel.Provider{a}})
	equal(t, "while it cannot be read", ids(t, x, Query{}))
	failure = nil
	equal(t, "when it can be read", ids(t, x, Query{}), "one")
}

func TestDamagedIndexIsBuiltAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "index")
	a := new(agent)
	a.put("/p/a", 1)
	a.put("/p/b", 2)
	x := open(t, Config{Providers: []runnel.Provider{a}, File: file})
	ids(t, x, Query{})
	x.Close()
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"empty":           {},
		"not JSON":        []byte("\x00\xff"),
		"cut off":         good[:len(good)/2],
		"without its end": good[:bytes.LastIndexByte(bytes.TrimSpace(good), '\n')+1],
		"another version": bytes.Replace(good, []byte(`"version":2`), []byte(`"version":999`), 1),
	} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		a.took()
		x := open(t, Config{Providers: []runnel.Provider{a}, File: file})
		equal(t, name+": list", ids(t, x, Query{}), "b", "a")
		equal(t, name+": read", a.took(), "/p/a", "/p/b")
		x.Close()
	}
}

func TestUnfinishedIndexOfAKilledProcessIsRemoved(t *testing.T) {
	file := filepath.Join(t.TempDir(), "index")
	killed, running := file+".1.tmp", file+".2.tmp"
	for _, name := range []string{killed, running} {
		if err := os.WriteFile(name, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	hour := time.Now().Add(-time.Hour)
	if err := os.Chtimes(killed, hour, hour); err != nil {
		t.Fatal(err)
	}
	a := new(agent)
	a.put("/p/a", 1)
	x := open(t, Config{Providers: []runnel.Provider{a}, File: file})
	ids(t, x, Query{})
	x.Close()
	left, err := filepath.Glob(file + "*")
	equal(t, "files", left, file, running)
	if err != nil {
		t.Error(err)
	}
	err = errors.Join(Remove(file), Remove(file))
	left, _ = filepath.Glob(file + "*")
	equal(t, "files after the removal", left)
	if err != nil {
		t.Error(err)
	}
}

func TestIndexThatCannotBeStoredIsStillListed(t *testing.T) {
	a := new(agent)
	a.put("/p/a", 1)
	x := open(t, Config{Providers: []runnel.Provider{a}, File: filepath.Join(t.TempDir(), "missing", "index")})
	equal(t, "list", ids(t, x, Query{}), "a")
}

func TestPagesHaveEachConversationOnce(t *testing.T) {
	a := new(agent)
	for i := range 25 {
		a.put(fmt.Sprintf("/p%d/%02d", i%2, i), i/5) // several have the same time
	}
	x := open(t, Config{Providers: []runnel.Provider{a}})
	for _, q := range []Query{{}, {ProjectDir: "/p1"}, {CLIType: "filing"}, {CLIType: "other"}} {
		want := ids(t, x, q)
		var got []string
		q.Limit = 4
		for {
			page, err := x.List(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if len(page.Conversations) > q.Limit {
				t.Errorf("%d conversations on a page", len(page.Conversations))
			}
			for _, c := range page.Conversations {
				got = append(got, c.AgentSessionID)
			}
			if q.After = page.Next; q.After == "" {
				break
			}
		}
		equal(t, "pages", got, want...)
	}
	for _, bad := range []string{"x", "!", "eA", strings.Repeat("A", 1<<16)} {
		if _, err := x.List(t.Context(), Query{After: bad, Limit: 1}); runnel.CodeOf(err) != runnel.InvalidRequest {
			t.Errorf("%.20q: %v", bad, err)
		}
	}
}

func TestSecretsReachNeitherTheListNorTheIndex(t *testing.T) {
	const secret, later = "hunter2-hunter2", "learned-afterwards"
	file := filepath.Join(t.TempDir(), "index")
	known := []string{secret}
	redact := func(s string) string {
		for _, k := range known {
			s = strings.ReplaceAll(s, k, "[redacted]")
		}
		return s
	}
	a := &agent{as: func(f runnel.StoredFile) (runnel.Conversation, error) {
		return runnel.Conversation{AgentSessionID: "id", Title: "with " + secret + later, LastMessage: secret, Dir: "/" + secret, UpdatedAt: f.ModTime}, nil
	}}
	a.put("/p/a", 1)
	f := a.files["/p/a"]
	f.Title = secret
	a.files["/p/a"] = f
	x := open(t, Config{Providers: []runnel.Provider{a}, File: file, Redact: redact})
	ids(t, x, Query{})
	known = append(known, later)
	page, err := x.List(t.Context(), Query{Limit: 1})
	if err != nil || len(page.Conversations) != 1 {
		t.Fatalf("%+v, %v", page, err)
	}
	if c := page.Conversations[0]; c.Title != "with [redacted][redacted]" || c.LastMessage != "[redacted]" || c.ProjectDir != "/[redacted]" {
		t.Errorf("%+v", c)
	}
	a.took()
	ids(t, x, Query{})
	equal(t, "read again", a.took())
	x.Close()
	if data, err := os.ReadFile(file); err != nil || bytes.Contains(data, []byte(secret)) {
		t.Errorf("the index has the secret: %q, %v", data, err)
	}
}

func TestFactsAreBounded(t *testing.T) {
	long := strings.Repeat("é", 10_000)
	hostile := []runnel.Conversation{
		{AgentSessionID: "long", Title: long, LastMessage: long},
		{AgentSessionID: "lines", Title: "a\nb\x1b[31m", LastMessage: "\x00c\r\nd"},
		{AgentSessionID: "times", CreatedAt: time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -12*3600)), UpdatedAt: time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC), Size: -1},
		{AgentSessionID: ""},
		{AgentSessionID: strings.Repeat("x", 5000)},
		{AgentSessionID: "dir", Dir: "/" + strings.Repeat("x", 5000)},
	}
	a := &agent{as: func(f runnel.StoredFile) (runnel.Conversation, error) { return hostile[f.Size], nil }}
	for i := range hostile {
		a.put(fmt.Sprintf("/p/%d", i), i)
	}
	x := open(t, Config{Providers: []runnel.Provider{a}})
	page, err := x.List(t.Context(), Query{Limit: 100})
	if err != nil || len(page.Conversations) != 3 {
		t.Fatalf("%+v, %v", page, err)
	}
	for _, c := range page.Conversations {
		if len(c.Title) > 200 || len(c.LastMessage) > 200 || strings.ContainsAny(c.Title+c.LastMessage, "\n\r\x00\x1b") || c.Size < 0 || !c.CreatedAt.IsZero() || !c.UpdatedAt.IsZero() {
			t.Errorf("%+v", c)
		}
	}
}

func TestBadFileCostsOnlyItself(t *testing.T) {
	a := new(agent)
	a.as = func(f runnel.StoredFile) (runnel.Conversation, error) {
		if f.Path == "/p/bad" {
			return runnel.Conversation{}, errors.New("cannot be read")
		}
		return runnel.Conversation{AgentSessionID: "good", UpdatedAt: f.ModTime}, nil
	}
	a.put("/p/bad", 1)
	a.put("/p/good", 0)
	x := open(t, Config{Providers: []runnel.Provider{a}})
	equal(t, "list", ids(t, x, Query{}), "good")
	a.took()
	equal(t, "second list", ids(t, x, Query{}), "good")
	equal(t, "read again", a.took())
}

func TestConversationWithSeveralFilesIsListedOnce(t *testing.T) {
	a := &agent{as: func(f runnel.StoredFile) (runnel.Conversation, error) {
		return runnel.Conversation{AgentSessionID: "one", Title: f.Path, Size: f.Size, CreatedAt: f.ModTime, UpdatedAt: f.ModTime}, nil
	}}
	a.put("/p/old", 1)
	a.put("/p/new", 5)
	x := open(t, Config{Providers: []runnel.Provider{a}})
	page, err := x.List(t.Context(), Query{Limit: 9})
	if err != nil || len(page.Conversations) != 1 {
		t.Fatalf("%+v, %v", page, err)
	}
	if c := page.Conversations[0]; c.Title != "/p/new" || c.Size != 6 || !c.CreatedAt.Equal(start.Add(time.Second)) || !c.UpdatedAt.Equal(start.Add(5*time.Second)) {
		t.Errorf("%+v", c)
	}
}

// Each text of an agent's files is bounded. Together, they could still take
// much memory.
func TestConversationsTogetherHaveABoundedSize(t *testing.T) {
	const n, folder = 20_000, 4000 // 80 MB of folders
	long := "/" + strings.Repeat("x", folder)
	for name, p := range map[string]runnel.Provider{
		"in files": &agent{as: func(f runnel.StoredFile) (runnel.Conversation, error) {
			return runnel.Conversation{AgentSessionID: filepath.Base(f.Path), Dir: long, UpdatedAt: f.ModTime}, nil
		}},
		"listed":                   &many{n: n, dir: long},
		"in files with long paths": &agent{},
	} {
		t.Run(name, func(t *testing.T) {
			if a, ok := p.(*agent); ok {
				dir := "/p/"
				if a.as == nil {
					dir = long + "/"
				}
				for i := range n {
					a.put(dir+strconv.Itoa(i), i)
				}
			}
			x := open(t, Config{Providers: []runnel.Provider{p}})
			for range 2 { // the second list reads what is new
				ids(t, x, Query{})
			}
			size, list := 0, x.sorted()
			for _, c := range list {
				size += len(c.ProjectDir) + len(c.Title) + len(c.LastMessage)
			}
			if size > 64<<20 || len(list) < 5000 {
				t.Errorf("%d conversations with %d bytes", len(list), size)
			}
		})
	}
}

// many is a provider whose agent lists n conversations in a folder.
type many struct {
	runnel.Provider
	n   int
	dir string
}

func (*many) Name() string { return "many" }

func (m *many) Discover(context.Context, string) iter.Seq2[runnel.Conversation, error] {
	return func(yield func(runnel.Conversation, error) bool) {
		for i := range m.n {
			if !yield(runnel.Conversation{AgentSessionID: strconv.Itoa(i), Dir: m.dir}, nil) {
				return
			}
		}
	}
}

// asked is a provider whose agent lists its conversations itself.
type asked struct {
	runnel.Provider
	calls  int
	answer func(ctx context.Context) error
}

func (*asked) Name() string { return "listing" }

func (a *asked) Discover(ctx context.Context, _ string) iter.Seq2[runnel.Conversation, error] {
	return func(yield func(runnel.Conversation, error) bool) {
		a.calls++
		if err := a.answer(ctx); err != nil {
			yield(runnel.Conversation{}, err)
			return
		}
		yield(runnel.Conversation{AgentSessionID: "listed", UpdatedAt: start}, nil)
	}
}

func TestSlowAgentDelaysNobodyAndIsAskedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proceed := make(chan struct{})
		slow := &asked{answer: func(context.Context) error { <-proceed; return nil }}
		a := new(agent)
		a.put("/p/a", 1)
		x := New(Config{Providers: []runnel.Provider{a, slow}})
		defer x.Close()
		begin := time.Now()
		page, err := x.List(t.Context(), Query{Limit: 9})
		if err != nil || len(page.Conversations) != 1 || !slices.Equal(page.Checking, []string{"listing"}) || time.Since(begin) != 1500*time.Millisecond {
			t.Errorf("%+v, %v after %v", page, err, time.Since(begin))
		}
		close(proceed)
		synctest.Wait()
		if page, err = x.List(t.Context(), Query{Limit: 9}); err != nil || len(page.Conversations) != 2 || len(page.Checking) != 0 {
			t.Errorf("%+v, %v", page, err)
		}
		time.Sleep(askEvery + time.Second) //nolint:forbidigo // virtual time
		slow.answer = func(context.Context) error { return errors.New("the agent does not start") }
		equal(t, "list after a failure", ids(t, x, Query{}), "a", "listed")
		ids(t, x, Query{})
		if slow.calls != 2 {
			t.Errorf("the agent was asked %d times", slow.calls)
		}
	})
}

func TestCloseStopsAnAgentThatListsForever(t *testing.T) {
	stuck := &asked{answer: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
	x := New(Config{Providers: []runnel.Provider{stuck}, MaxWait: time.Nanosecond})
	if page, err := x.List(t.Context(), Query{Limit: 1}); err != nil || len(page.Checking) != 1 {
		t.Errorf("%+v, %v", page, err)
	}
	x.Close()
	if page, err := x.List(t.Context(), Query{Limit: 1}); err != nil || len(page.Checking) != 0 {
		t.Errorf("after Close: %+v, %v", page, err)
	}
}

func TestListOfAnAgentIsStored(t *testing.T) {
	file := filepath.Join(t.TempDir(), "index")
	a := &asked{answer: func(context.Context) error { return nil }}
	for range 2 {
		x := open(t, Config{Providers: []runnel.Provider{a}, File: file})
		equal(t, "list", ids(t, x, Query{}), "listed")
		x.Close()
	}
	if a.calls != 1 {
		t.Errorf("the agent was asked %d times", a.calls)
	}
}

// sharing continues the conversations of another provider's agent.
type sharing struct{ asked }

func (*sharing) SharesWith() string { return "filing" }

func TestSharedConversationsAreListedByTheirOwner(t *testing.T) {
	a, s := new(agent), &sharing{asked{answer: func(context.Context) error { return nil }}}
	a.put("/p/a", 1)
	x := open(t, Config{Providers: []runnel.Provider{a, s}})
	if equal(t, "list", ids(t, x, Query{}), "a"); s.calls != 0 {
		t.Error("the other agent was asked")
	}
}
