package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/changes"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/testload"
	"github.com/runnel-dev/runnel/provider/script"
)

// worktree creates a session in its own worktree.
func (rg *rig) worktree() (id string, w gateway.SessionWorktree) {
	rg.t.Helper()
	made := call[createAnswer](rg, "POST", "/api/session/create", `{"cliType":"script","projectDir":"`+rg.dir+`","options":{"worktree":true}}`, 201)
	if made.Worktree == nil {
		rg.t.Fatalf("no worktree: %+v", made)
	}
	return made.SessionID, *made.Worktree
}

// exists reports whether a file or folder exists.
func exists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Lstat(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

// seen returns what stands for the state of the session's worktree.
func (rg *rig) seen(id string) string {
	rg.t.Helper()
	return call[changes.WorktreeStatus](rg, "GET", "/api/session/"+id+"/worktree", "", 200).Seen
}

// asSeen returns a body that names the state of the session's worktree, and has
// further members.
func (rg *rig) asSeen(id, members string) string {
	rg.t.Helper()
	if members != "" {
		members = "," + members
	}
	return `{"seen":"` + rg.seen(id) + `"` + members + `}`
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWorktreeOfSession(t *testing.T) {
	testload.TakesLong(t)
	rg := gitRig(t)
	all := rg.token
	bound, other, reader := rg.bind(rg.dir, "read", "send", "approve"), rg.bind(t.TempDir(), "read", "send", "approve"), rg.mint(auth.Read, auth.Send)

	rg.token = bound
	id, w := rg.worktree()
	at := "/api/session/" + id
	if !strings.HasPrefix(w.Branch, "runnel/"+id[:8]) || w.Dir != w.Root || w.From != "main" || filepath.Dir(w.Root) != rg.data+"-worktrees" {
		t.Errorf("got %+v", w)
	}
	st := call[gateway.Status](rg, "GET", at+"/status", "", 200)
	if st.ProjectDir != rg.dir || st.Worktree == nil || *st.Worktree != w {
		t.Errorf("status %+v", st)
	}
	if got := call[listAnswer](rg, "GET", "/api/session/list?projectDir="+rg.dir, "", 200).Sessions; len(got) != 1 || got[0].Worktree == nil {
		t.Errorf("list %+v", got)
	}

	put(t, filepath.Join(w.Root, "a.txt"), "one\n2\n")
	put(t, filepath.Join(w.Root, "new.txt"), "new\n")
	if git := call[changes.Status](rg, "GET", at+"/git", "", 200); git.Branch != w.Branch || git.Root != w.Root || len(git.Files) != 2 {
		t.Errorf("git status %+v", git)
	}
	if list := rg.do("GET", at+"/files?q=new", ""); !strings.Contains(list.Body.String(), "new.txt") {
		t.Errorf("files %d %s", list.Code, list.Body)
	}

	rg.token = reader
	state := call[changes.WorktreeStatus](rg, "GET", at+"/worktree", "", 200)
	if state.State != changes.WorktreeReady || state.Uncommitted != 2 || state.Target != "main" || state.Ahead != 0 {
		t.Errorf("state %+v", state)
	}
	for _, what := range []string{"/merge", "/remove"} {
		rg.wantError("POST", at+"/worktree"+what, `{}`, 403, runnel.Forbidden)
	}
	rg.token = other
	for _, target := range []string{"GET " + at + "/worktree", "POST " + at + "/worktree/merge", "POST " + at + "/worktree/remove"} {
		method, path, _ := strings.Cut(target, " ")
		body := ""
		if method == "POST" {
			body = `{}`
		}
		rg.wantError(method, path, body, 404, runnel.SessionNotFound)
	}

	rg.token = bound
	rg.wantError("POST", at+"/worktree/merge", `{}`, 400, runnel.InvalidRequest)
	rg.wantError("POST", at+"/worktree/merge", rg.asSeen(id, ""), 409, runnel.GitFailed)
	rg.wantError("POST", at+"/worktree/merge", `{"mesage":"x"}`, 400, runnel.InvalidRequest)
	m := call[changes.Merged](rg, "POST", at+"/worktree/merge", rg.asSeen(id, `"message":"Add 2"`), 200)
	if m.Commit != rg.git("rev-parse", "HEAD") || !m.FastForward || m.Branch != "main" || rg.git("log", "-1", "--format=%an %s") != "Ada Add 2" {
		t.Errorf("merged %+v", m)
	}
	rg.token = all
	put(t, filepath.Join(w.Root, "a.txt"), "unsaved\n")
	rg.wantError("POST", at+"/worktree/remove", `{}`, 409, runnel.GitFailed)
	rg.wantError("POST", at+"/worktree/remove", `{"discard":true}`, 400, runnel.InvalidRequest)
	if out := call[changes.Removed](rg, "POST", at+"/worktree/remove", rg.asSeen(id, `"discard":true`), 200); len(out.Lost) != 1 || exists(t, w.Root) {
		t.Errorf("removed %+v", out)
	}
	if got := rg.git("branch", "--list", "runnel/*"); got != "" {
		t.Errorf("branch %s is left", got)
	}
	if st := call[gateway.Status](rg, "GET", at+"/status", "", 200); st.Worktree == nil || !st.Worktree.Removed {
		t.Errorf("status after the removal %+v", st.Worktree)
	}
	if w := rg.do("POST", at+"/send", `{"content":"text"}`); w.Code == 202 || !strings.Contains(w.Body.String(), "was removed") {
		t.Errorf("a prompt after the removal: %d %s", w.Code, w.Body)
	}
	if got := call[changes.WorktreeStatus](rg, "GET", at+"/worktree", "", 200); got.State != changes.WorktreeMissing {
		t.Errorf("state after the removal %+v", got)
	}
}

func TestWorktreeIsOnlyForNewSessions(t *testing.T) {
	rg := gitRig(t)
	id := rg.create()
	at := "/api/session/" + id
	rg.wantError("POST", at+"/send", `{"content":"text","opts":{"worktree":true}}`, 400, runnel.UnsupportedCapability)
	rg.wantError("POST", at+"/options", `{"worktree":true}`, 400, runnel.UnsupportedCapability)
	rg.wantError("GET", at+"/worktree", "", 409, runnel.GitFailed)
	rg.wantError("POST", at+"/worktree/merge", `{"seen":"x"}`, 409, runnel.GitFailed)
	rg.wantError("POST", at+"/worktree/remove", `{}`, 409, runnel.GitFailed)
	rg.wantError("POST", "/api/session/create", `{"cliType":"script","projectDir":"`+rg.dir+`","options":{"worktree":"yes"}}`, 400, runnel.InvalidRequest)
	with, w := rg.worktree()
	rg.events(with, rg.prompt(with, "text"))
	rg.wantError("POST", "/api/session/"+with+"/fork", `{}`, 400, runnel.UnsupportedCapability)
	_ = w
}

// A session that cannot get its worktree is not created.
func TestSessionWithoutRepositoryIsNotCreated(t *testing.T) {
	rg := newRig(t)
	rg.wantError("POST", "/api/session/create", `{"cliType":"script","projectDir":"`+rg.dir+`","options":{"worktree":true}}`, 409, runnel.GitFailed)
	if got := call[listAnswer](rg, "GET", "/api/session/list?projectId=*&all=true", "", 200).Sessions; len(got) > 0 {
		t.Errorf("got %+v", got)
	}
	if exists(t, rg.data+"-worktrees") {
		t.Error("the folder for worktrees exists")
	}
}

// While a turn runs, its worktree is neither merged nor removed.
func TestWorktreeIsBusyDuringTurn(t *testing.T) {
	rg := gitRig(t)
	id, _ := rg.worktree()
	rg.prompt(id, "approve")
	rg.wantError("POST", "/api/session/"+id+"/worktree/merge", rg.asSeen(id, ""), 409, runnel.TurnInProgress)
	rg.wantError("POST", "/api/session/"+id+"/worktree/remove", rg.asSeen(id, `"discard":true`), 409, runnel.TurnInProgress)
}

// A worktree that has changed since the person saw it is neither merged nor
// discarded, and its agent stays.
func TestWorktreeIsMergedAndDiscardedOnlyAsSeen(t *testing.T) {
	testload.TakesLong(t)
	rg := gitRig(t)
	id, w := rg.worktree()
	at := "/api/session/" + id
	put(t, filepath.Join(w.Root, "a.txt"), "one\n2\n")
	merge, discard := rg.asSeen(id, `"message":"m"`), rg.asSeen(id, `"discard":true`)
	remove := rg.asSeen(id, "")
	put(t, filepath.Join(w.Root, "a.txt"), "one\n3\n")
	for path, body := range map[string]string{"/merge": merge, "/remove": discard, "/remove?": remove} {
		got := rg.do("POST", at+"/worktree"+path, body)
		if got.Code != 409 || !strings.Contains(got.Body.String(), "CHANGES_OUTDATED") || !strings.Contains(got.Body.String(), "has changed since you looked at it") {
			t.Errorf("%s: %d %s", path, got.Code, got.Body)
		}
	}
	if st := call[gateway.Status](rg, "GET", at+"/status", "", 200); !exists(t, w.Root) || st.Worktree.Removed || st.State != "open" {
		t.Errorf("status %+v", st)
	}
	call[changes.Removed](rg, "POST", at+"/worktree/remove", rg.asSeen(id, `"discard":true`), 200)
}

// lingering is a scripted agent that still works in its directory while it
// stops.
type lingering struct{ script.Provider }

func (p *lingering) Open(ctx context.Context, o runnel.Options) (runnel.Conn, error) {
	c, err := p.Provider.Open(ctx, o)
	return &lingeringConn{c, o.Dir}, err
}

type lingeringConn struct {
	runnel.Conn
	dir string
}

func (c *lingeringConn) Close() error {
	time.Sleep(time.Second) //nolint:forbidigo // a removal that does not wait is complete by then
	err := os.WriteFile(filepath.Join(c.dir, "last.txt"), nil, 0o600)
	return errors.Join(err, os.WriteFile(filepath.Join(filepath.Dir(c.dir), "stopped"), nil, 0o600), c.Conn.Close())
}

// A worktree is removed only when its agent has stopped, so that what the agent
// writes last counts as work.
func TestRemovalOfWorktreeAwaitsAgent(t *testing.T) {
	testload.TakesLong(t)
	rg := gitRig(t, func(_ *Config, c *gateway.Config) { c.Providers = []runnel.Provider{&lingering{}} })
	id, w := rg.worktree()
	rg.events(id, rg.prompt(id, "text"))
	rg.wantError("POST", "/api/session/"+id+"/worktree/remove", `{}`, 409, runnel.GitFailed)
	if !exists(t, filepath.Join(filepath.Dir(w.Root), "stopped")) || !exists(t, filepath.Join(w.Root, "last.txt")) {
		t.Error("the worktree was removed while its agent stopped")
	}
}

// The deletion of a session removes a worktree without work, and leaves any
// other.
func TestDeletionOfSessionLosesNoWork(t *testing.T) {
	testload.TakesLong(t)
	for _, file := range []string{"", "new.txt", ".env"} {
		work := file != ""
		rg := gitRig(t)
		put(t, filepath.Join(rg.dir, ".git", "info", "exclude"), ".env\n")
		id, w := rg.worktree()
		if work {
			put(t, filepath.Join(w.Root, file), "new\n")
		}
		at := "/api/session/" + id
		for _, method := range []string{"GET", "DELETE"} {
			path := at
			if method == "GET" {
				path += "/deletion"
			}
			d := call[gateway.Deletion](rg, method, path, "", 200)
			if d.Worktree == nil || d.Worktree.Stays != work || d.Worktree.Root != w.Root || (d.Worktree.Why != "") != work {
				t.Errorf("work %t: %s: %+v", work, method, d.Worktree)
			}
		}
		if exists(t, w.Root) != work || (rg.git("branch", "--list", "runnel/*") != "") != work {
			t.Errorf("work %t: the worktree exists: %t", work, exists(t, w.Root))
		}
	}
}

// A worktree in which another session works is not removed.
func TestWorktreeOfAnotherSessionStays(t *testing.T) {
	rg := gitRig(t)
	id, w := rg.worktree()
	at := "/api/session/" + id
	other := call[createAnswer](rg, "POST", "/api/session/create", `{"cliType":"script","projectDir":"`+w.Root+`"}`, 201).SessionID
	rg.wantError("POST", at+"/worktree/remove", rg.asSeen(id, `"discard":true`), 409, runnel.GitFailed)
	if d := call[gateway.Deletion](rg, "GET", at+"/deletion", "", 200); d.Worktree == nil || !d.Worktree.Stays {
		t.Errorf("deletion: %+v", d.Worktree)
	}
	if err := rg.gw.Kill(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	call[changes.Removed](rg, "POST", at+"/worktree/remove", `{}`, 200)
}

// The server has a data directory in the project by now, so the worktree cannot
// be examined. That does not prevent the deletion of the session.
func TestDeletionWithoutUsableProjectLeavesWorktree(t *testing.T) {
	rg := gitRig(t)
	id, w := rg.worktree()
	dir, log, cat := rg.dir, rg.log, rg.cat
	if err := rg.gw.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	rg = newRig(t, func(_ *Config, g *gateway.Config) {
		g.DataDir, g.Log, g.Catalogue, g.Logger = filepath.Join(dir, "data"), log, cat, slog.New(slog.NewTextHandler(&said, nil))
	})
	rg.log, rg.cat = log, cat
	x, err := gateway.RetentionOf(rg.gw).Apply(t.Context(), gateway.RetentionPolicy{Age: 1})
	if err != nil || x.Count != 1 || x.Sessions[0].SessionID != id || !exists(t, w.Root) {
		t.Errorf("got %+v: %v", x, err)
	}
	if err := rg.gw.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"worktree=" + w.Root, "branch=" + w.Branch, "stays=true", "contains runnel's own data"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("%q is not in the log:\n%s", want, said.String())
		}
	}
}

// A restarted server finds the worktree of a session, and removes the worktree
// of a session whose creation was interrupted.
func TestWorktreeAfterRestart(t *testing.T) {
	rg := gitRig(t)
	id, w := rg.worktree()
	put(t, filepath.Join(w.Root, "new.txt"), "new\n")
	unfinished, left := rg.worktree()
	for _, one := range []string{id, unfinished} {
		if err := rg.gw.Kill(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
	rec, err := rg.cat.Session(t.Context(), unfinished)
	if err != nil {
		t.Fatal(err)
	}
	rec.State = "loading"
	if err := rg.cat.PutSession(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	// git was still writing the files.
	if err := os.Remove(filepath.Join(rg.dir, ".git", "worktrees", filepath.Base(left.Root), "index")); err != nil {
		t.Fatal(err)
	}
	dir, data, log, cat := rg.dir, rg.data, rg.log, rg.cat
	if err := rg.gw.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	rg = newRig(t, func(_ *Config, g *gateway.Config) { g.DataDir, g.Log, g.Catalogue = data, log, cat })
	rg.dir, rg.log, rg.cat = dir, log, cat
	if exists(t, left.Root) {
		t.Error("the worktree of the unfinished session is left")
	}
	at := "/api/session/" + id
	call[createAnswer](rg, "POST", at+"/load", `{}`, 200)
	rg.events(id, rg.prompt(id, "text"))
	if state := call[changes.WorktreeStatus](rg, "GET", at+"/worktree", "", 200); state.Uncommitted != 1 {
		t.Errorf("got %+v", state)
	}
	if err := os.RemoveAll(w.Root); err != nil {
		t.Fatal(err)
	}
	if state := call[changes.WorktreeStatus](rg, "GET", at+"/worktree", "", 200); state.State != changes.WorktreeMissing || state.Problem == "" {
		t.Errorf("after a removal by hand: %+v", state)
	}
	if got := call[changes.Removed](rg, "POST", at+"/worktree/remove", `{}`, 200); len(got.Lost) > 0 {
		t.Errorf("got %+v", got)
	}
}

// The worktree of a trusted project is trusted: a commit runs its hooks. In any
// other project no hook runs.
func TestHooksOfWorktree(t *testing.T) {
	testload.TakesLong(t)
	mark := filepath.Join(t.TempDir(), "mark")
	for _, trusted := range []bool{false, true} {
		rg := gitRig(t)
		if trusted {
			dir := rg.dir
			rg = newRig(t, func(_ *Config, g *gateway.Config) { g.TrustedDirs = []string{dir} })
			rg.dir = dir
		}
		put(t, filepath.Join(rg.dir, ".git", "hooks", "pre-commit"), "#!/bin/sh\ntouch "+mark+"\n")
		if err := os.Chmod(filepath.Join(rg.dir, ".git", "hooks", "pre-commit"), 0o700); err != nil {
			t.Fatal(err)
		}
		id, w := rg.worktree()
		put(t, filepath.Join(w.Root, "new.txt"), "new\n")
		m := call[changes.Merged](rg, "POST", "/api/session/"+id+"/worktree/merge", rg.asSeen(id, `"message":"m"`), 200)
		if m.Committed == "" || exists(t, mark) != trusted {
			t.Errorf("trusted %t: %+v, the hook ran: %t", trusted, m, exists(t, mark))
		}
	}
}

func TestWorktreeAnswerIsBounded(t *testing.T) {
	rg := gitRig(t)
	id, w := rg.worktree()
	for i := range 300 {
		put(t, filepath.Join(w.Root, strings.Repeat("x", 200)+string(rune('a'+i%26))+string(rune('a'+i/26))), "")
	}
	state := rg.do("GET", "/api/session/"+id+"/worktree", "")
	var got changes.WorktreeStatus
	if err := json.Unmarshal(state.Body.Bytes(), &got); err != nil || len(got.Files) != 200 || got.Uncommitted != 300 {
		t.Errorf("%d files of %d: %v", len(got.Files), got.Uncommitted, err)
	}
	failed := rg.do("POST", "/api/session/"+id+"/worktree/merge", rg.asSeen(id, ""))
	if failed.Code != 409 || failed.Body.Len() > 100<<10 {
		t.Errorf("%d with %d bytes", failed.Code, failed.Body.Len())
	}
}

// Another user may have created the folder for worktrees, if the data directory
// is in a folder that everybody can write to.
func TestNoWorktreeInFolderThatOthersCanChange(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no modes of files")
	}
	rg := gitRig(t)
	all := rg.data + "-worktrees"
	if err := os.Mkdir(all, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(all, 0o777); err != nil {
		t.Fatal(err)
	}
	rg.wantError("POST", "/api/session/create", `{"cliType":"script","projectDir":"`+rg.dir+`","options":{"worktree":true}}`, 409, runnel.GitFailed)
	if entries, err := os.ReadDir(all); err != nil || len(entries) > 0 {
		t.Errorf("left in the folder: %v %v", entries, err)
	}
	if err := os.Chmod(all, 0o700); err != nil {
		t.Fatal(err)
	}
	rg.worktree()
}
