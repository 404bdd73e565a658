package httpapi

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/changes"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/provider/script"
)

// played returns a prompt that plays steps.
func playing(steps ...script.Step) string {
	b, _ := json.Marshal(script.Script{Steps: steps})
	return string(b)
}

// edits returns a call that makes changes.
func edits(list ...event.Change) script.Step {
	return script.Step{Tool: &script.Tool{Name: "Edit", Kind: event.KindEdit, Changes: list}}
}

// shown returns the diffs of an answer, each on one line.
func shown(files []fileDiff) string {
	var out []string
	for _, f := range files {
		s := fmt.Sprintf("%s %s +%d -%d", f.Kind, filepath.Base(f.Path), f.Added, f.Removed)
		if f.Place != "" {
			s += " " + string(f.Place)
		}
		for _, h := range f.Hunks {
			s += fmt.Sprintf(" @%d %s", h.OldStart, strings.Join(h.Lines, "|"))
		}
		if len(f.Steps) > 0 {
			s += fmt.Sprintf(" in %d steps", len(f.Steps))
		}
		if f.Problem != "" {
			s += " " + f.Problem
		}
		out = append(out, s)
	}
	return strings.Join(out, "\n")
}

func TestChangesOfTurnAndSession(t *testing.T) {
	rg := newRig(t)
	id := rg.create()
	text := func(s string) *string { return &s }
	write := func(path, from, to string) event.Change {
		return event.Change{Path: filepath.Join(rg.dir, path), Kind: event.ChangeUpdate, OldText: text(from), NewText: text(to), Hunks: []event.Hunk{}}
	}
	failed := edits(write("never", "a\n", "b\n"))
	failed.Tool.IsError = true
	first := rg.prompt(id, playing(edits(write("a.go", "1\n2\n", "1\nx\n")), failed,
		edits(write("a.go", "1\nx\n", "0\n1\nx\n"), event.Change{Path: "new", Kind: event.ChangeCreate, NewText: text("n\n"), Hunks: []event.Hunk{}})))
	rg.events(id, first)
	second := rg.prompt(id, playing(edits(write("a.go", "0\n1\nx\n", "0\n1\n2\n"), event.Change{Path: "new", Kind: event.ChangeDelete, Hunks: []event.Hunk{}})))
	rg.events(id, second)

	get := func(query string) string {
		t.Helper()
		return shown(call[changesAnswer](rg, "GET", "/api/session/"+id+"/changes"+query, "", 200).Files)
	}
	for query, want := range map[string]string{
		"":                "update a.go +1 -0 @1 +0| 1| 2",
		"?context=0":      "update a.go +1 -0 @0 +0",
		"?turn=" + first:  "update a.go +2 -1 @1 +0| 1|-2|+x\ncreate new +1 -0 @0 +n",
		"?turn=" + second: "update a.go +1 -1 @1  0| 1|-x|+2\ndelete new +0 -0 in 1 steps",
		"?turn=" + first + "&path=" + url.QueryEscape(filepath.Join(rg.dir, "new")): "create new +1 -0 @0 +n",
		"?path=none": "",
	} {
		if got := get(query); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", query, got, want)
		}
	}
	rg.wantError("GET", "/api/session/"+id+"/changes?turn="+nobody, "", 400, runnel.InvalidRequest)
	rg.wantError("GET", "/api/session/"+id+"/changes?context=x", "", 400, runnel.InvalidRequest)
}

// A long diff is left out of the list, and shortened if it is asked for alone.
func TestLongDiffsAreBounded(t *testing.T) {
	rg := newRig(t)
	id := rg.create()
	long := strings.Repeat(strings.Repeat("x", 90)+"\n", 1200)
	steps := make([]script.Step, 0, 30)
	for i := range cap(steps) {
		steps = append(steps, edits(event.Change{Path: fmt.Sprint("f", i), Kind: event.ChangeCreate, NewText: &long, Hunks: []event.Hunk{}}))
	}
	for part := 0; part < len(steps); part += 5 {
		rg.events(id, rg.prompt(id, playing(steps[part:part+5]...)))
	}
	w := rg.do("GET", "/api/session/"+id+"/changes", "")
	var all changesAnswer
	if err := json.Unmarshal(w.Body.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	last := all.Files[len(all.Files)-1]
	if len(all.Files) != 30 || !last.Omitted || len(last.Hunks) > 0 || last.Added != 1200 || w.Body.Len() > 2*maxDiffs {
		t.Errorf("%d files in %d bytes; the last: omitted %t, +%d", len(all.Files), w.Body.Len(), last.Omitted, last.Added)
	}
	one := call[changesAnswer](rg, "GET", "/api/session/"+id+"/changes?path="+url.QueryEscape(last.Path), "", 200).Files
	if len(one) != 1 || one[0].Omitted || len(one[0].Hunks) != 1 {
		t.Errorf("alone: %d files", len(one))
	}
}

func TestIntendedChangesHaveTheirPlace(t *testing.T) {
	rg := newRig(t, func(c *Config, _ *gateway.Config) {
		c.Redact = func(s string) string { return strings.ReplaceAll(s, "hunter2", "[redacted]") }
	})
	dir, err := filepath.EvalSymlinks(rg.dir)
	if err != nil {
		t.Fatal(err)
	}
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("a.go", "one\npassword = hunter2\ntwo\nthree\nfour\nfive\n")
	put("twice", "x\nx\n")
	put("binary", "x\x00")
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("a secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Skip(err)
	}
	if err := os.Link(outside, filepath.Join(dir, "hard")); err != nil {
		t.Skip(err)
	}
	edit := func(path, old, repl string) event.Change {
		return event.Change{Path: path, Kind: event.ChangeUpdate, Edits: []event.Edit{{Old: old, New: repl}},
			Hunks: []event.Hunk{{OldLines: 1, NewLines: 1, Lines: []string{"-" + old, "+" + repl}}}}
	}
	whole := "one\n"
	step := edits(edit("a.go", "three", "3"), edit(filepath.Join(dir, "a.go"), "six", "6"), edit("twice", "x", "y"), edit("binary", "x", "y"), edit("none", "x", "y"),
		edit(outside, "a secret", "y"), edit("link", "a secret", "y"), edit("hard", "a secret", "y"), edit("../"+filepath.Base(dir)+"x/f", "x", "y"), edit("a.go", "[redacted]", "y"),
		event.Change{Path: "new", Kind: event.ChangeUpdate, NewText: &whole, Hunks: []event.Hunk{}})
	step.Tool.Ask = &script.Ask{}
	id := rg.create()
	rg.prompt(id, playing(step))
	asked := rg.until(id, is[event.ApprovalRequested]).Body.(event.ApprovalRequested).Approval
	rg.untilPending(id)
	path := "/api/session/" + id + "/approvals/" + asked.ID + "/changes"
	got := shown(call[intendedAnswer](rg, "GET", path+"?context=2", "", 200).Files)
	want := `update a.go +1 -1 found @2  password = [redacted]| two|-three|+3| four| five
update a.go +1 -1 missing @0 -six|+6
update twice +1 -1 several @0 -x|+y
update binary +1 -1 unknown @0 -x|+y The file is not text.
update none +1 -1 missing @0 -x|+y
update secret +1 -1 unknown @0 -a secret|+y The file is outside of the session's folder, so Runnel does not read it.
update link +1 -1 unknown @0 -a secret|+y Runnel does not read the file: it is a symbolic link or lies behind one.
update hard +1 -1 unknown @0 -a secret|+y Runnel does not read the file: it has more than one name (hard links), one of which may be elsewhere.
update f +1 -1 unknown @0 -x|+y The file is outside of the session's folder, so Runnel does not read it.
update a.go +1 -1 unknown @0 -[redacted]|+y Runnel removed a secret from this change, so it cannot find its place in the file.
create new +1 -0 whole @0 +one`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	rg.wantError("GET", "/api/session/"+id+"/approvals/none/changes", "", 409, runnel.ApprovalGone)
}

func TestRequestsForChangesAreLimited(t *testing.T) {
	rg := newRig(t, func(c *Config, _ *gateway.Config) { c.Limits.FileRequests = 2 })
	id := rg.create()
	for i, path := range []string{"/changes", "/git", "/git/diff?path=a&side=staged", "/changes", "/approvals/none/changes"} {
		if w := rg.do("GET", "/api/session/"+id+path, ""); (code(w) == "RATE_LIMITED") != (i >= 2) {
			t.Errorf("%d: %s: got %d %s", i, path, w.Code, w.Body)
		}
	}
}

// gitRig is a rig whose project is a git repository with one commit.
func gitRig(t *testing.T, edit ...func(*Config, *gateway.Config)) *rig {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), []byte("[user]\n\tname = Ada\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rg := newRig(t, edit...)
	rg.write("a.txt", "one\ntwo\n")
	rg.git("init", "--quiet")
	rg.git("add", ".")
	rg.git("commit", "--quiet", "--message", "first")
	return rg
}

func (rg *rig) write(name, text string) {
	rg.t.Helper()
	if err := os.WriteFile(filepath.Join(rg.dir, name), []byte(text), 0o600); err != nil {
		rg.t.Fatal(err)
	}
}

func (rg *rig) git(args ...string) string {
	rg.t.Helper()
	cmd := exec.CommandContext(rg.t.Context(), "git", args...)
	cmd.Dir = rg.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		rg.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestGitRoutes(t *testing.T) {
	rg := gitRig(t)
	id := rg.create()
	at := "/api/session/" + id + "/git"
	all, read, bound := rg.token, rg.mint(auth.Read, auth.Send), rg.bind(rg.dir, "read", "approve")
	rg.write("a.txt", "one\n2\n")
	rg.write("new.txt", "new\n")

	rg.token = read
	st := call[changes.Status](rg, "GET", at, "", 200)
	if st.State != changes.StateReady || st.Branch != "main" || len(st.Files) != 2 || st.Author != "Ada <ada@example.com>" || st.Hooks {
		t.Errorf("got %+v", st)
	}
	diff := call[fileDiff](rg, "GET", at+"/diff?path=a.txt&side=unstaged", "", 200)
	if got := shown([]fileDiff{diff}); got != "update a.txt +1 -1 @1  one|-two|+2" {
		t.Errorf("got %s", got)
	}
	for path, body := range map[string]string{"/stage": `{"files":[{"path":"a.txt"}],"staged":true}`, "/commit": `{"message":"m","seen":"` + st.Seen + `"}`, "/revert": `{"path":"a.txt","seen":"` + diff.Seen + `","losesUnstaged":true}`} {
		rg.wantError("POST", at+path, body, 403, runnel.Forbidden)
	}

	rg.token = bound
	staged := call[changes.Status](rg, "POST", at+"/stage", `{"files":[{"path":"a.txt","seen":"`+diff.Seen+`"},{"path":"new.txt"}],"staged":true}`, 200)
	if staged.Files[0].Staged != event.ChangeUpdate || staged.Files[1].Staged != event.ChangeCreate {
		t.Errorf("got %+v", staged.Files)
	}
	rg.wantError("POST", at+"/commit", `{"message":"m","seen":"`+st.Seen+`"}`, 409, runnel.ChangesOutdated)
	made := call[changes.Committed](rg, "POST", at+"/commit", `{"message":"Add 2","seen":"`+staged.Seen+`"}`, 200)
	if made.Commit != rg.git("rev-parse", "HEAD") || rg.git("log", "-1", "--format=%an %s") != "Ada Add 2" {
		t.Errorf("got %+v", made)
	}
	rg.wantError("POST", at+"/commit", `{"message":"m","seen":"`+staged.Seen+`"}`, 409, runnel.ChangesOutdated)

	rg.token = all
	rg.write("a.txt", "unwanted\n")
	diff = call[fileDiff](rg, "GET", at+"/diff?path=a.txt&side=unstaged", "", 200)
	body := `{"path":"a.txt","seen":"` + diff.Seen + `"`
	rg.wantError("POST", at+"/revert", body+`}`, 409, runnel.GitFailed)
	reverted := call[changes.Reverted](rg, "POST", at+"/revert", body+`,"losesUnstaged":true}`, 200)
	if b, _ := os.ReadFile(filepath.Join(rg.dir, "a.txt")); string(b) != "one\n2\n" || rg.git("cat-file", "blob", reverted.Kept) != "unwanted" {
		t.Errorf("reverted to %q, kept %s", b, reverted.Kept)
	}
	for target, body := range map[string]string{
		"GET " + at + "/diff?path=a.txt&side=both":         "",
		"GET " + at + "/diff?path=../x&side=staged":        "",
		"GET " + at + "/diff?path=.git/config&side=staged": "",
		"POST " + at + "/stage":                            `{"files":[{"path":"a.txt"}]}`,
		"POST " + at + "/commit":                           `{"message":"","seen":"x"}`,
		"POST " + at + "/revert":                           `{"path":"a.txt"}`,
	} {
		method, path, _ := strings.Cut(target, " ")
		rg.wantError(method, path, body, 400, runnel.InvalidRequest)
	}
	rg.wantError("GET", at+"/diff?path=a.txt&side=staged", "", 409, runnel.ChangesOutdated)
}

// Git runs nothing for a folder that would choose the program, unless the
// folder is trusted.
func TestGitIsRefusedInFolderWithPrograms(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	for _, trusted := range []bool{false, true} {
		rg := gitRig(t)
		rg.git("config", "core.fsmonitor", "touch "+mark+" #")
		if trusted {
			dir := rg.dir
			rg = newRig(t, func(_ *Config, g *gateway.Config) { g.TrustedDirs = []string{dir} })
			rg.dir = dir
		}
		rg.write("a.txt", "changed\n")
		id := rg.create()
		st := call[changes.Status](rg, "GET", "/api/session/"+id+"/git", "", 200)
		want := changes.StateRefused
		if trusted {
			want = changes.StateReady
		}
		if st.State != want {
			t.Errorf("trusted %t: got %s: %s", trusted, st.State, st.Problem)
		}
		if !trusted {
			rg.wantError("GET", "/api/session/"+id+"/git/diff?path=a.txt&side=unstaged", "", 409, runnel.GitFailed)
		}
		if _, err := os.Stat(mark); err == nil {
			t.Errorf("trusted %t: git ran a program of the folder", trusted)
		}
	}
}

func TestSecretsInDiffsAreRemoved(t *testing.T) {
	rg := gitRig(t, func(c *Config, _ *gateway.Config) {
		c.Redact = func(s string) string { return strings.ReplaceAll(s, "hunter2", "[redacted]") }
	})
	rg.write("a.txt", "one\npassword = hunter2\n")
	diff := call[fileDiff](rg, "GET", "/api/session/"+rg.create()+"/git/diff?path=a.txt&side=unstaged", "", 200)
	if got := shown([]fileDiff{diff}); got != "update a.txt +1 -1 @1  one|-two|+password = [redacted]" {
		t.Errorf("got %s", got)
	}
}
