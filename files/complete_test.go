package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newProject returns a project with these files. A name that ends with "/" is
// an empty directory.
func newProject(t testing.TB, names ...string) Project {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := New(Config{}).Project(dir)
	p.service.bounds.first, p.service.bounds.later = time.Hour, time.Hour
	for _, name := range names {
		p.write(t, name, name)
	}
	return p
}

func (p Project) write(t testing.TB, name, content string) {
	t.Helper()
	at := filepath.Join(p.dir, filepath.FromSlash(name))
	err := os.MkdirAll(filepath.Dir(at), 0o700)
	if strings.HasSuffix(name, "/") {
		err = errors.Join(err, os.MkdirAll(at, 0o700))
	} else {
		err = errors.Join(err, os.WriteFile(at, []byte(content), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// completed returns the paths that match a query, folders with a "/".
func (p Project) completed(t testing.TB, query string) (paths []string) {
	t.Helper()
	got, err := p.Complete(t.Context(), query, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range got.Files {
		if m.Kind == KindFolder {
			m.Path += "/"
		}
		paths = append(paths, m.Path)
	}
	return paths
}

func TestCompleteRanksTheNameBeforeTheFolder(t *testing.T) {
	p := newProject(t, "src/app/session.go", "src/session/app.go", "docs/sessions.md", "src/app/other.go", "README.md", "s/e/s/s/i/o/n.txt", "src/Session.tsx")
	for query, want := range map[string][]string{
		"session.go": {"src/app/session.go", "src/session/app.go"},
		"sess":       {"src/session/", "src/Session.tsx", "docs/sessions.md", "src/app/session.go", "src/session/app.go"},
		"Sess":       {"src/Session.tsx"},
		"app go":     {"src/session/app.go", "src/app/other.go", "src/app/session.go"},
		"readme":     {"README.md"},
		"nothing":    nil,
		"":           {"README.md", "docs/", "s/", "src/", "docs/sessions.md"},
	} {
		got := p.completed(t, query)
		if query == "sess" { // the last one is the only match that is scattered over folders
			got = slices.DeleteFunc(got, func(p string) bool { return strings.HasPrefix(p, "s/e") })
		}
		if query == "" {
			got = got[:5]
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", query, got, want)
		}
	}
	got, err := p.Complete(t.Context(), "rdme", 1)
	if err != nil || len(got.Files) != 1 || !slices.Equal(got.Files[0].Positions, []int{0, 3, 4, 5}) {
		t.Errorf("positions: got %+v, %v", got, err)
	}
}

func TestCompleteLeavesOutIgnoredHiddenAndSecretFiles(t *testing.T) {
	p := newProject(t, "a.go", "build/a.o", "build/keep.txt", "a.log", "sub/a.log", "sub/b.txt", ".github/ci.yml", ".hidden", ".env", ".env.local", ".env.example", "conf/prod.env",
		"server.pem", "id_rsa", "id_rsa.pub", ".ssh/config", ".git/config", "node_modules/x/index.js", "sub/.gitignore", "deep/node_modules/y.js")
	p.write(t, ".gitignore", "*.log\n!sub/a.log\nbuild/*\n!build/keep.txt\n")
	p.write(t, "sub/.gitignore", "b.txt\n")
	want := []string{"a.go", "build/", "conf/", "deep/", "id_rsa.pub", "sub/", "build/keep.txt", "sub/a.log"}
	if got := p.completed(t, ""); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	want = []string{".env.example", ".github/", ".github/ci.yml", ".gitignore", ".hidden", "sub/.gitignore"}
	got := p.completed(t, ".")
	got = slices.DeleteFunc(got, func(path string) bool { return !hidden(path) })
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("hidden ones: got %q, want %q", got, want)
	}
}

func TestSecretJudgesByName(t *testing.T) {
	for _, p := range []string{".env", "a/.env", ".ENV", ".env.production", "prod.env", "key.pem", "a.KEY", "id_ed25519", ".git/HEAD", "a/.git", ".ssh/known_hosts", ".aws/config", ".npmrc", ".docker/config.json", ".kube/config", "secrets.yaml", "x/credentials", ".env. ",
		".env~", ".env.bak", ".env-prod", ".env_local", "#.env#", "key.pem~", "key.pem.bak", "key.pem.~1~", "id_rsa.bak", "id_rsa.old", ".id_rsa.swp", ".netrc.save", // copies
		".\u017f\u017fh/config", ".g\u200cit/config", ".a\u200dws/x", "a.\u212aey", ".docker/con\ufb01g.json", ".env\u200b"} { // as macOS reads them
		if !Secret(p) {
			t.Errorf("%s counts as harmless", p)
		}
	}
	for _, p := range []string{"", "a.go", ".env.example", "environment.ts", "id_rsa.pub", "keys.go", "secret.go", ".github/workflows/ci.yml", ".gitignore", "docker/config.json", "credentials.go", "a.go~", "a.go.bak", "~", "#", "##", ".~", "\u017fecret.go"} {
		if Secret(p) {
			t.Errorf("%s counts as secret", p)
		}
	}
}

func TestCompleteFindsNewFilesAndForgetsDeletedOnes(t *testing.T) {
	p := newProject(t, "old.txt")
	if got := p.completed(t, ""); !slices.Equal(got, []string{"old.txt"}) {
		t.Fatalf("got %q", got)
	}
	p.write(t, "new.txt", "")
	if err := os.Remove(filepath.Join(p.dir, "old.txt")); err != nil {
		t.Fatal(err)
	}
	if got := p.completed(t, ""); !slices.Equal(got, []string{"old.txt"}) {
		t.Errorf("the index was not used: %q", got)
	}
	p.service.index(p.dir).at = time.Now().Add(-fresh)
	if got := p.completed(t, ""); !slices.Equal(got, []string{"new.txt"}) {
		t.Errorf("the index was not renewed: %q", got)
	}
}

func TestCompleteOfLargeTreeIsPartial(t *testing.T) {
	p := newProject(t)
	for i := range 50 {
		p.write(t, fmt.Sprintf("dir%d/file", i), "")
	}
	p.service.bounds.entries = 60
	got, err := p.Complete(t.Context(), "", 100)
	if err != nil || !got.Partial || len(got.Files) != 60 {
		t.Errorf("got %d files, partial %v, %v", len(got.Files), got.Partial, err)
	}
	q := newProject(t, "a", "ignored/b", ".gitignore")
	q.write(t, ".gitignore", "ignored\n")
	q.service.bounds.examined = 2
	if got, err := q.Complete(t.Context(), "", 100); err != nil || !got.Partial {
		t.Errorf("got %+v, %v", got, err)
	}
	long := newProject(t, strings.Repeat("a", 200), strings.Repeat("b", 200), "c")
	long.service.bounds.bytes = 300
	if got, err := long.Complete(t.Context(), "", 100); err != nil || !got.Partial || len(got.Files) != 2 {
		t.Errorf("long paths: got %d files, partial %v, %v", len(got.Files), got.Partial, err)
	}
}

// A search that takes long answers with what it has found, and continues with
// the next request.
func TestCompleteContinuesAnInterruptedSearch(t *testing.T) {
	p := newProject(t, "a/b/c.txt")
	p.service.bounds.first = -1
	if got, err := p.Complete(t.Context(), "", 100); err != nil || !got.Partial || len(got.Files) != 0 {
		t.Fatalf("got %+v, %v", got, err)
	}
	x := p.service.index(p.dir)
	root, err := p.open()
	if err != nil {
		t.Fatal(err)
	}
	x.search.enter(root) // as far as a request came
	root.Close()
	x.search.examine(x.search.rest[0])
	x.search.rest = nil
	if got, err := p.Complete(t.Context(), "", 100); err != nil || !got.Partial || len(got.Files) != 1 {
		t.Fatalf("got %+v, %v", got, err)
	}
	p.service.bounds.first = time.Hour
	if got, err := p.Complete(t.Context(), "c.txt", 100); err != nil || got.Partial || len(got.Files) != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestCompleteEndsWithItsRequest(t *testing.T) {
	p := newProject(t, "a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Complete(ctx, "", 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	for range maxWalks {
		p.service.walks <- struct{}{}
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := p.Complete(ctx, "", 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while others walk: got %v", err)
	}
	if _, err := p.Complete(t.Context(), strings.Repeat("x", maxQuery+1), 1); !errors.Is(err, ErrBadQuery) {
		t.Errorf("a long query: got %v", err)
	}
}

func TestIndexesAreBounded(t *testing.T) {
	p := newProject(t, "a")
	for i := range maxIndexes + 3 {
		p.service.index(fmt.Sprint(i))
	}
	if n := len(p.service.kept); n != maxIndexes {
		t.Errorf("%d indexes are kept", n)
	}
	if p.service.kept["0"] != nil || p.service.kept[fmt.Sprint(maxIndexes+2)] == nil {
		t.Error("a newer index was dropped")
	}
	for _, x := range p.service.kept {
		x.used = time.Now().Add(-2 * unused)
	}
	p.service.index("new")
	if n := len(p.service.kept); n != 1 {
		t.Errorf("%d indexes are kept after a long time", n)
	}
}

func TestManyRequestsCompleteAtOnce(t *testing.T) {
	p := newProject(t)
	for i := range 300 {
		p.write(t, fmt.Sprintf("d%d/file%d.go", i%20, i), "")
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 20 {
				if i == 0 {
					p.service.mu.Lock()
					delete(p.service.kept, p.dir)
					p.service.mu.Unlock()
				}
				if got, err := p.Complete(t.Context(), fmt.Sprintf("file%d.go", j), 5); err != nil || len(got.Files) == 0 {
					t.Errorf("got %+v, %v", got, err)
				}
			}
		})
	}
	all.Wait()
}
