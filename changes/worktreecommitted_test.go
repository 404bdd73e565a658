package changes

import (
	"cmp"
	"os"
	"testing"

	"github.com/runnel-dev/runnel"
)

// A process that an agent has left behind works in the worktree during a merge.
func TestMergeAddsOnlyWhatThePersonHasSeen(t *testing.T) {
	for name, tt := range map[string]struct{ before, after, does string }{
		"a file changes":         {before: "update-index", does: "echo unseen > a.txt"},
		"a file appears":         {before: "update-index", does: "echo unseen > more.txt; \"$git\" add more.txt"},
		"a file is staged":       {before: "commit", does: "echo unseen > a.txt; \"$git\" add a.txt"},
		"a file is removed":      {before: "commit", does: "\"$git\" rm --quiet --force sub/b.txt"},
		"the agent commits":      {after: "commit", does: "echo unseen > a.txt; \"$git\" commit --quiet --all --message unseen"},
		"HEAD moves":             {before: "update-index", does: "\"$git\" commit --quiet --allow-empty --message unseen"},
		"the commit is replaced": {after: "commit", does: "echo unseen > a.txt; \"$git\" commit --quiet --amend --all --message unseen; \"$git\" replace HEAD $(\"$git\" commit-tree -p HEAD^ -m seen HEAD@{1}^{tree})"},
		"a file becomes a link":  {before: "update-index", does: "ln -sfn seen.txt text"},
		"a link gets a target":   {before: "update-index", does: "ln -sfn unseen link"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rg := newRig(t)
			s := rg.add()
			in := s.in()
			in.put("a.txt", "seen\n")
			in.put("new.txt", "seen\n")
			in.put("text", "seen.txt")
			if err := os.Symlink("seen", in.at("link")); err != nil {
				t.Fatal(err)
			}
			rg.replaceGit(func(git, _ string) string {
				does := "(cd '" + s.w.Root + "' && unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE && export HOME='" + rg.home + "' && git='" + git + "' && " + tt.does + ")"
				return "#!/bin/sh\ncase \" $* \" in\n*\" " + cmp.Or(tt.before, "never") + " \"*) " + does + " ;;\n*\" " + cmp.Or(tt.after, "never") + " \"*) '" + git + "' \"$@\" || exit\n" + does + "\nexit ;;\nesac\nexec '" + git + "' \"$@\"\n"
			})
			_, err := s.merge("what was seen")
			expect(t, err, runnel.ChangesOutdated, "changed")
			equal(t, "last commit", rg.run("rev-parse", "HEAD"), s.w.Base)
		})
	}
}

func TestMergeCommitsEveryKindOfChange(t *testing.T) {
	for name, trusted := range map[string]bool{"untrusted": false, "trusted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rg := newRig(t)
			rg.folder.Trusted = trusted
			rg.put(".gitattributes", "*.crlf text eol=crlf\n*.id ident\n")
			rg.put("x.crlf", "one\r\n")
			rg.put("x.id", "$Id$\n")
			rg.put("gone.txt", "gone\n")
			rg.put("from.txt", "moved\nmoved\nmoved\n")
			rg.run("add", ".")
			rg.run("commit", "--quiet", "--message", "files")
			s := rg.add()
			in := s.in()
			in.put("x.crlf", "one\r\ntwo\r\n")
			in.put("a.txt", "changed\n")
			in.put("sub/new.txt", "new\n")
			in.put("empty.txt", "")
			in.put("run.sh", "#!/bin/sh\n")
			in.put("\"quoted\" \u00e9.txt", "name\n")
			in.put("to.txt", "moved\nmoved\nmoved\n")
			for _, err := range []error{os.Remove(in.at("gone.txt")), os.Remove(in.at("from.txt")), os.Chmod(in.at("run.sh"), 0o755), os.Symlink("a.txt", in.at("link"))} {
				if err != nil {
					t.Fatal(err)
				}
			}
			in.put("x.id", in.read("x.id")+"more\n")
			in.run("add", "a.txt")
			in.put("a.txt", "changed again\n")
			in.run("add", "--intent-to-add", "run.sh")
			if _, err := s.merge("everything"); err != nil {
				t.Fatal(err)
			}
			equal(t, "files that differ", rg.files()+in.files(), "")
			equal(t, "a.txt", rg.read("a.txt"), "changed again\n")
			equal(t, "x.crlf", rg.read("x.crlf"), "one\r\ntwo\r\n")
		})
	}
}

// A replace reference gives a commit another content for git. A merge adds the
// content that the commit has, so the state must show that one.
func TestStateShowsCommitsAsTheyAre(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	s := rg.add()
	in := s.in()
	in.put("a.txt", "agent\n")
	in.run("commit", "--quiet", "--all", "--message", "agent")
	in.run("replace", "HEAD", in.run("commit-tree", "-p", "HEAD^", "-m", "nothing", "HEAD^^{tree}"))
	equal(t, "files that are not committed", s.state().Uncommitted, 0)
}
