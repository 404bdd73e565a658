package httpapi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/testload"
)

func TestRetentionIsPreviewedAndApplied(t *testing.T) {
	rg := newRig(t, func(_ *Config, c *gateway.Config) { c.Retention.Age = time.Hour })
	old := rg.create()
	rg.events(old, rg.prompt(old, "text"))
	if x := call[gateway.Expiry](rg, "GET", "/api/retention", "", 200); x.OlderThan != "1h0m0s" || x.Count != 0 || x.Sessions == nil {
		t.Errorf("by the setting: %+v", x)
	}
	x := call[gateway.Expiry](rg, "GET", "/api/retention?olderThan=1ns", "", 200)
	if x.Count != 1 || x.Sessions[0].SessionID != old || x.Sessions[0].Reason != "age" || x.Sessions[0].ProjectDir != rg.dir || x.FreedBytes == 0 {
		t.Errorf("preview: %+v", x)
	}
	rg.answers(theDocument(t), "GET", "/api/retention", "/api/retention?olderThan=1ns&maxMib=5", "")
	working := rg.create()
	rg.prompt(working, "hang")
	for target, body := range map[string]string{
		"/api/retention?olderThan=soon": "", "/api/retention?olderThan=-1h": "", "/api/retention?maxMib=-1": "",
		"/api/retention": `{}`, "/api/retention?": `{"olderThan":"0s"}`,
	} {
		method := "GET"
		if body != "" {
			method = "POST"
		}
		if w := rg.do(method, target, body); w.Code != 400 {
			t.Errorf("%s %s %s: %d %s", method, target, body, w.Code, w.Body)
		}
	}
	if x := call[gateway.Expiry](rg, "POST", "/api/retention", `{"olderThan":"1ns"}`, 200); x.Count != 1 || x.Sessions[0].SessionID != old {
		t.Errorf("applied: %+v", x)
	}
	if w := rg.do("GET", "/api/session/"+old+"/status", ""); w.Code != 404 {
		t.Errorf("the old session: %d %s", w.Code, w.Body)
	}
	if w := rg.do("GET", "/api/session/"+working+"/status", ""); w.Code != 200 {
		t.Errorf("the working session: %d %s", w.Code, w.Body)
	}
	rg.token = rg.bind(rg.dir, "read")
	if w := rg.do("GET", "/api/retention", ""); w.Code != 403 {
		t.Errorf("a token of one project: %d %s", w.Code, w.Body)
	}
}

// A session that the policy deletes ends its streams, as any deletion does.
func TestRetentionEndsStreams(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	s.events(id, s.prompt(id, "text"))
	follow := s.get("/api/session/" + id + "/events")
	if x := call[gateway.Expiry](s.rig, "POST", "/api/retention", `{"olderThan":"1ns"}`, 200); x.Count != 1 {
		t.Fatalf("%+v", x)
	}
	if last := ending(follow.Body, 1); len(last) != 1 || last[0].name != "stream:end" || !strings.Contains(string(last[0].data), "SESSION_NOT_FOUND") {
		t.Errorf("the events end with %+v", last)
	}
}

// The preview names the worktrees of the sessions and what becomes of them. A
// worktree that has only ignored files goes, because nobody would ever remove it;
// one with work stays.
func TestRetentionNamesAndRemovesWorktrees(t *testing.T) {
	testload.TakesLong(t)
	rg := gitRig(t)
	put(t, filepath.Join(rg.dir, ".git", "info", "exclude"), "node_modules\n.env\n")
	clean, cleanTree := rg.worktree()
	ignored, ignoredTree := rg.worktree()
	work, workTree := rg.worktree()
	plain := rg.create()
	if err := os.Mkdir(filepath.Join(ignoredTree.Root, "node_modules"), 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(ignoredTree.Root, "node_modules", "left-pad.js"), "")
	put(t, filepath.Join(ignoredTree.Root, ".env"), "A=1\n")
	put(t, filepath.Join(workTree.Root, "new.txt"), "new\n")
	put(t, filepath.Join(workTree.Root, "a.txt"), "changed\n")

	want := map[string]gateway.DeletedWorktree{
		clean:   {Root: cleanTree.Root, Branch: cleanTree.Branch},
		ignored: {Root: ignoredTree.Root, Branch: ignoredTree.Branch, Ignored: []string{".env", "node_modules/"}},
		work:    {Root: workTree.Root, Branch: workTree.Branch, Stays: true, Uncommitted: 2},
	}
	check := func(when string, x gateway.Expiry) {
		t.Helper()
		if x.Count != 4 {
			t.Fatalf("%s: %+v", when, x)
		}
		for _, s := range x.Sessions {
			w := s.Worktree
			if s.SessionID == plain {
				if w != nil {
					t.Errorf("%s: %+v", when, w)
				}
				continue
			}
			if w == nil {
				t.Errorf("%s: %s has no worktree", when, s.SessionID)
				continue
			}
			got := *w
			if got.Stays && !strings.Contains(got.Why, "new.txt") || !got.Stays && got.Why != "" {
				t.Errorf("%s: it stays because %q", when, got.Why)
			}
			got.Why = ""
			if d := cmp.Diff(want[s.SessionID], got); d != "" {
				t.Errorf("%s: %s", when, d)
			}
		}
	}
	check("preview", call[gateway.Expiry](rg, "GET", "/api/retention?olderThan=1ns", "", 200))
	for _, w := range []gateway.SessionWorktree{cleanTree, ignoredTree, workTree} {
		if !exists(t, w.Root) {
			t.Errorf("the preview removed %s", w.Root)
		}
	}
	rg.answers(theDocument(t), "GET", "/api/retention", "/api/retention?olderThan=1ns", "")
	check("applied", call[gateway.Expiry](rg, "POST", "/api/retention", `{"olderThan":"1ns"}`, 200))
	if exists(t, cleanTree.Root) || exists(t, ignoredTree.Root) || !exists(t, filepath.Join(workTree.Root, "new.txt")) {
		t.Error("the wrong worktrees are left")
	}
	if got := rg.git("branch", "--list", "--format=%(refname:short)", "runnel/*"); got != workTree.Branch {
		t.Errorf("the branches %q are left", got)
	}
}

// A preview examines a bounded number of worktrees, and names the others. The
// sessions are copies of one, because making 51 worktrees takes a minute. Its
// repository was deleted, because examining 50 worktrees takes half a minute.
func TestRetentionPreviewExaminesFiftyWorktrees(t *testing.T) {
	rg := gitRig(t)
	id, _ := rg.worktree()
	if err := rg.gw.Kill(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	rec, err := rg.cat.Session(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		rec.ID = uuid.NewString()
		if err := rg.cat.PutSession(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(filepath.Join(rg.dir, ".git")); err != nil {
		t.Fatal(err)
	}
	x := call[gateway.Expiry](rg, "GET", "/api/retention?olderThan=1ns", "", 200)
	for i, s := range x.Sessions {
		// The reason why the worktree stays shows that it was examined.
		if s.Worktree == nil || s.Worktree.Root == "" || s.Worktree.Unexamined != (i == 50) || (s.Worktree.Why == "") != (i == 50) {
			t.Errorf("%d: %+v", i, s.Worktree)
		}
	}
	if x.Count != 51 {
		t.Errorf("%d sessions", x.Count)
	}
}
