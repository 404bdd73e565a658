package gitconfig

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// git runs git in dir without the configurations of the user and the system.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// repo makes a repository with one commit in a new folder.
func repo(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", filepath.Join(dir, "no-home"))
	dir = filepath.Join(dir, "repo")
	git(t, "", "init", "-q", dir)
	git(t, dir, "commit", "-q", "--allow-empty", "-m", "x")
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// found returns the description of the findings in dir, with its parts sorted.
func found(t *testing.T, dir string) string {
	t.Helper()
	list, err := Find(t.Context(), os.Environ(), dir)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(Describe(list, dir), ", ")
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

const evil = "[core]\n\tfsmonitor = touch ran\n"

func TestKeysThatRunPrograms(t *testing.T) {
	dir := repo(t)
	config := filepath.Join(dir, ".git", "config")
	original, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	runs := func(key, value string) bool {
		t.Helper()
		if err := os.WriteFile(config, original, 0o600); err != nil {
			t.Fatal(err)
		}
		git(t, dir, "config", key, value)
		return strings.Contains(strings.ToLower(found(t, dir)), strings.ToLower(key)+" (.git/config)")
	}
	for _, key := range []string{
		"core.fsmonitor", "core.hooksPath", "core.sshCommand", "core.editor", "core.pager", "core.askPass", "core.gitProxy",
		"core.alternateRefsCommand", "sequence.editor", "diff.external", "interactive.diffFilter", "init.templateDir",
		"filter.x.clean", "filter.x.smudge", "filter.x.process", "filter.a.b.clean", "diff.x.command", "diff.x.textconv", "merge.x.driver",
		"credential.helper", "credential.https://example.org.helper", "gpg.program", "gpg.x509.program", "gpg.ssh.defaultKeyCommand",
		"pager.log", "remote.origin.uploadpack", "remote.origin.receivepack", "remote.origin.vcs", "uploadpack.packObjectsHook",
		"gc.recentObjectsHook", "browser.x.cmd", "browser.x.path", "man.x.cmd", "man.x.path", "mergetool.x.cmd", "mergetool.x.path",
		"difftool.x.cmd", "difftool.x.path", "guitool.x.cmd", "trailer.x.command", "trailer.x.cmd", "tar.x.command", "hook.x.command",
		"imap.tunnel", "sendemail.toCmd", "sendemail.x.ccCmd", "instaweb.httpd", "lfs.customtransfer.x.path", "lfs.extension.x.clean",
		"lfs.standalonetransferagent", "notinvented.yetCommand",
	} {
		if !runs(key, "touch ran") {
			t.Errorf("%s is not found", key)
		}
	}
	for key, values := range map[string][2]string{ // one that runs a program, one that does not
		"core.fsmonitor":             {"true; touch ran", "true"},
		"core.pager":                 {"less", ""},
		"pager.log":                  {"cat", "false"},
		"credential.helper":          {"store", ""},
		"alias.st":                   {"!touch ran", "status"},
		"alias.co":                   {"-c core.pager=x log", "checkout"},
		"alias.quoted":               {`"-c" core.pager=x log`, "log --format='%h x/y'"},
		"alias.escaped":              {`\-c core.pager=x log`, "log -S/"},
		"alias.path":                 {"x/../y", "show HEAD:x/y"},
		"submodule.x.update":         {"!touch ran", "rebase"},
		"protocol.ext.allow":         {"always", "never"},
		"protocol.allow":             {"user", "never"},
		"remote.origin.url":          {"ext::sh -c touch% ran", "ssh://git@example.org/a::b"},
		"remote.origin.pushurl":      {"hg::x", "git@example.org:a/b.git"},
		"sendemail.smtpServer":       {"/tmp/x", "mail.example.org"},
		"url.ext::sh.insteadOf":      {"https://", "https://"},
		"url.ssh://x.insteadOf":      {"", "https://"},
		"color.pager":                {"", "true"},
		"advice.ignoredHook":         {"", "false"},
		"remote.origin.fetch":        {"", "+refs/heads/*:refs/remotes/origin/*"},
		"branch.main.merge":          {"", "refs/heads/main"},
		"user.email":                 {"", "a@example.org"},
		"core.worktree":              {"/", ".."},
		"http.saveCookies":           {"true", "false"},
		"http.https://x.saveCookies": {"true", "no"},
		"branch.main.remote":         {"ext::x", "origin"},
		"remote.pushDefault":         {"hg::x", "origin"},
		"submodule.x.url":            {"ext::x", "../x"},
		"diff.x.xfuncname":           {"", "x"},
		"protocol.https.allow":       {"", "always"},
		"merge.tool":                 {"../../x", "meld"},
		"merge.guitool":              {"../../x", "meld"},
		"diff.tool":                  {"../../x", "meld"},
		"diff.guitool":               {"../../x", "meld"},
		"mergetool.vimdiff.layout":   {"`x`", "(LOCAL,BASE,REMOTE)/MERGED + @LOCAL"},
		"rebase.instructionFormat":   {"%s%nexec x", ""},
		"format.suffix":              {"/../x", ".txt"},
		"format.outputDirectory":     {"../x", "patches/new"},
		"gc.repackFilterTo":          {"/x", "packs"},
		"gitflow.path.hooks":         {"x", ""},
		"receive.denyCurrentBranch":  {"updateInstead", "refuse"},
		"core.fsmonitorhookversion":  {"", "2"},
	} {
		if values[0] != "" && !runs(key, values[0]) {
			t.Errorf("%s = %q is not found", key, values[0])
		}
		if key != "url.ext::sh.insteadOf" && runs(key, values[1]) {
			t.Errorf("%s = %q is found", key, values[1])
		}
	}
}

func TestEveryConfigurationIsRead(t *testing.T) {
	for name, c := range map[string]struct {
		make func(t *testing.T, dir string)
		want string
	}{
		"none":           {func(*testing.T, string) {}, ""},
		"own":            {func(t *testing.T, dir string) { write(t, dir+"/.git/config", evil) }, "core.fsmonitor (.git/config)"},
		"on one line":    {func(t *testing.T, dir string) { write(t, dir+"/.git/config", "\ufeff[core] FsMonitor=x;\n") }, "core.fsmonitor (.git/config)"},
		"old subsection": {func(t *testing.T, dir string) { write(t, dir+"/.git/config", "[filter.X]clean=a \\\n b") }, "filter.x.clean (.git/config)"},
		"link": {func(t *testing.T, dir string) {
			write(t, dir+"/elsewhere", evil)
			if err := errors.Join(os.Remove(dir+"/.git/config"), os.Symlink("../elsewhere", dir+"/.git/config")); err != nil {
				t.Fatal(err)
			}
		}, "core.fsmonitor (.git/config)"},
		"include": {func(t *testing.T, dir string) {
			write(t, dir+"/.git/config", "[include]\npath=../a/one\n")
			write(t, dir+"/a/one", "[include]\npath=two\npath=one\npath=missing\n")
			write(t, dir+"/a/two", evil)
		}, "core.fsmonitor (a/two)"},
		"conditional include": {func(t *testing.T, dir string) {
			write(t, dir+"/.git/config", "[includeIf \"onbranch:other\"]\npath=b\n[includeIf \"hasconfig:remote.*.url:x\"]\npath="+dir+"/c\n[includeIf \"gitdir:/x\"]\npath=:(optional)d\n")
			for _, name := range []string{".git/b", "c", ".git/d"} {
				write(t, filepath.Join(dir, name), evil)
			}
		}, "core.fsmonitor (.git/b), core.fsmonitor (.git/d), core.fsmonitor (c)"},
		"include in the home directory": {func(t *testing.T, dir string) {
			write(t, dir+"/.git/config", "[include]\npath=~/more\npath=~nobody/more\n")
			write(t, os.Getenv("HOME")+"/more", evil)
		}, "core.fsmonitor (HOME/more), include.path (.git/config)"},
		"include through a link": { // .. is the folder above the one that the link leads to
			func(t *testing.T, dir string) {
				write(t, dir+"/a/b/x", "")
				write(t, dir+"/a/more", evil)
				write(t, dir+"/.git/config", "[include]\npath=../link/../more\n")
				if err := os.Symlink("a/b", dir+"/link"); err != nil {
					t.Fatal(err)
				}
			}, "core.fsmonitor (a/more)"},
		"pointer through a link": {func(t *testing.T, dir string) {
			write(t, dir+"/a/b/x", "")
			git(t, "", "init", "-q", "--bare", dir+"/../other")
			write(t, dir+"/../other/config", evil)
			write(t, dir+"/c/.git", "gitdir: link/../other\n")
			if err := os.Symlink(dir, dir+"/c/link"); err != nil {
				t.Fatal(err)
			}
		}, "core.fsmonitor (ABOVE/other/config)"},
		"HEAD that leads nowhere yet": {func(t *testing.T, dir string) {
			other := filepath.Join(filepath.Dir(dir), "other")
			git(t, "", "init", "-q", "--bare", other)
			write(t, dir+"/c/.git", "gitdir: "+other+"\n")
			write(t, other+"/config", evil)
			if err := errors.Join(os.Remove(other+"/HEAD"), os.Symlink("refs/heads/none", other+"/HEAD")); err != nil {
				t.Fatal(err)
			}
			if got := git(t, dir+"/c", "rev-parse", "--git-dir"); got != other {
				t.Fatalf("git takes %q", got)
			}
		}, "core.fsmonitor (ABOVE/other/config)"},
		"twice": {func(t *testing.T, dir string) { write(t, dir+"/.git/config", evil+evil) }, "core.fsmonitor (.git/config)"},
		"configuration of a worktree": {func(t *testing.T, dir string) {
			git(t, dir, "config", "extensions.worktreeConfig", "true")
			write(t, dir+"/.git/config.worktree", evil)
		}, "core.fsmonitor (.git/config.worktree)"},
		"another worktree": {func(t *testing.T, dir string) {
			git(t, dir, "worktree", "add", "-q", "../other")
			write(t, dir+"/.git/worktrees/other/config.worktree", evil)
		}, "core.fsmonitor (.git/worktrees/other/config.worktree)"},
		"submodule": {func(t *testing.T, dir string) {
			write(t, dir+"/.git/modules/lib/none", "")
			git(t, "", "init", "-q", "--separate-git-dir", dir+"/.git/modules/lib/sub", dir+"/lib/sub")
			write(t, dir+"/.git/modules/lib/sub/config", evil)
		}, "core.fsmonitor (.git/modules/lib/sub/config)"},
		"nested repository": {func(t *testing.T, dir string) {
			git(t, "", "init", "-q", dir+"/a/b")
			write(t, dir+"/a/b/.git/config", evil)
		}, "core.fsmonitor (a/b/.git/config)"},
		"bare repository": {func(t *testing.T, dir string) {
			git(t, "", "init", "-q", "--bare", dir+"/a/data")
			write(t, dir+"/a/data/config", evil)
		}, "core.fsmonitor (a/data/config)"},
		"repository among objects": {func(t *testing.T, dir string) {
			git(t, "", "init", "-q", dir+"/.git/objects/a")
			write(t, dir+"/.git/objects/a/.git/config", evil)
		}, "core.fsmonitor (.git/objects/a/.git/config)"},
		"repositories in place of objects": {func(t *testing.T, dir string) {
			for _, name := range []string{"ab", "pack/x"} {
				git(t, "", "init", "-q", dir+"/.git/objects/"+name)
				write(t, dir+"/.git/objects/"+name+"/.git/config", evil)
			}
		}, "core.fsmonitor (.git/objects/ab/.git/config), core.fsmonitor (.git/objects/pack/x/.git/config)"},
		"repository in a folder that looks like objects": {func(t *testing.T, dir string) {
			git(t, "", "init", "-q", dir+"/a/objects/ab")
			write(t, dir+"/a/objects/ab/.git/config", evil)
			git(t, "", "init", "-q", "--bare", dir+"/objects/cd")
			write(t, dir+"/objects/cd/config", evil)
		}, "core.fsmonitor (a/objects/ab/.git/config), core.fsmonitor (objects/cd/config)"},
		"pointer with more after its end": {func(t *testing.T, dir string) { // git ends it at the zero byte
			other := filepath.Join(filepath.Dir(dir), "other")
			git(t, "", "init", "-q", "--bare", other)
			write(t, other+"/config", evil)
			write(t, dir+"/c/.git", "gitdir: "+other+"\x00more\n")
			if got := git(t, dir+"/c", "rev-parse", "--git-dir"); got != other {
				t.Fatalf("git takes %q", got)
			}
		}, "core.fsmonitor (ABOVE/other/config)"},
		"include of one file by two names": {func(t *testing.T, dir string) { // a file "two" lies beside each name
			write(t, dir+"/.git/config", "[include]\npath=../a/one\npath=../b/one\n")
			write(t, dir+"/a/one", "[include]\npath=two\n")
			write(t, dir+"/b/two", evil)
			if err := os.Symlink("../a/one", dir+"/b/one"); err != nil {
				t.Fatal(err)
			}
		}, "core.fsmonitor (b/two)"},
		"files of another folder": {func(t *testing.T, dir string) { // git would overwrite them
			write(t, dir+"/.git/config", "[core]\nworktree=../..\n[include]\npath=more\n")
			write(t, dir+"/.git/more", "[core]\nworktree=..\n")
			write(t, dir+"/a/.git/HEAD", "ref: refs/heads/x\n")
			write(t, dir+"/a/.git/commondir", "../../.git\n")
		}, "core.worktree (.git/config), core.worktree (.git/more)"},
		"files of a repository elsewhere": {func(t *testing.T, dir string) {
			git(t, "", "init", "-q", "--separate-git-dir", dir+"/../store", dir+"/../own")
			write(t, dir+"/sub/.git", "gitdir: ../../store\n")
		}, ""},
		"common directory of a bare repository": {func(t *testing.T, dir string) {
			write(t, dir+"/a/HEAD", "ref: refs/heads/x\n")
			write(t, dir+"/a/commondir", "../b\n")
			write(t, dir+"/b/config", evil)
		}, "core.fsmonitor (b/config)"},
		"broken": {func(t *testing.T, dir string) { write(t, dir+"/.git/config", "[core\n") }, ".git/config (git cannot read it: fatal: bad config line 1 in standard input)"},
		"a folder": {func(t *testing.T, dir string) {
			write(t, dir+"/a/.git/config/x", "")
			write(t, dir+"/a/.git/HEAD", "")
			write(t, dir+"/a/.git/commondir", "..\n")
		}, "a/.git/config (not a regular file)"},
		"too long": {func(t *testing.T, dir string) { write(t, dir+"/.git/config", strings.Repeat("#", maxConfig+1)) }, ".git/config (too long to be read)"},
		"hooks of a repository that receives": {func(t *testing.T, dir string) {
			git(t, "", "init", "-q", "--bare", dir+"/a/store")
			write(t, dir+"/a/store/hooks/post-update", "#!/bin/sh\n")
			write(t, dir+"/a/store/hooks/update.sample", "#!/bin/sh\n")
			write(t, dir+"/a/store/hooks/pre-commit", "#!/bin/sh\n")
			write(t, dir+"/a/store/hooks/pre-receive", "#!/bin/sh\n")
			for _, name := range []string{"post-update", "update.sample", "pre-commit"} {
				if err := os.Chmod(dir+"/a/store/hooks/"+name, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink("../../nowhere", dir+"/.git/hooks/reference-transaction"); err != nil {
				t.Fatal(err)
			}
		}, ".git/hooks/reference-transaction (" + hookProblem + "), a/store/hooks/post-update (" + hookProblem + ")"},
		"not a pointer": {func(t *testing.T, dir string) {
			write(t, dir+"/a/.git", "text")
			write(t, dir+"/b/.git", "gitdir: nowhere\n")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := repo(t)
			c.make(t, dir)
			want := strings.NewReplacer("HOME", os.Getenv("HOME"), "ABOVE", filepath.Dir(dir)).Replace(c.want)
			if got := found(t, dir); got != want {
				t.Errorf("found %q, want %q", got, want)
			}
		})
	}
}

func TestRepositoryAboveTheFolderIsRead(t *testing.T) {
	dir := repo(t)
	write(t, dir+"/a/b/x", "")
	write(t, dir+"/.git/config", evil)
	if got, want := found(t, dir+"/a/b"), "core.fsmonitor ("+dir+"/.git/config)"; got != want {
		t.Errorf("found %q, want %q", got, want)
	}
	t.Setenv("HOME", dir) // the repository of a home directory is the user's own
	if got := found(t, dir+"/a/b"); got != "" {
		t.Errorf("found %q", got)
	}
}

// The finder follows a link to another folder of the repository above. It does
// not follow a link to a folder outside of it.
func TestLinksIntoTheRepositoryAboveAreFollowed(t *testing.T) {
	dir := repo(t)
	t.Setenv("HOME", filepath.Dir(dir)) // no repository above that counts
	git(t, "", "init", "-q", "--bare", dir+"/c/store")
	write(t, dir+"/c/store/config", evil)
	write(t, dir+"/c/store/below/x", "")
	elsewhere := filepath.Join(filepath.Dir(dir), "elsewhere")
	git(t, "", "init", "-q", elsewhere)
	write(t, elsewhere+"/.git/config", evil)
	write(t, dir+"/a/b/x", "")
	if got := found(t, dir+"/a/b"); got != "" {
		t.Errorf("found %q without a link", got)
	}
	for name, to := range map[string]string{"elsewhere": elsewhere, "nowhere": "nothing", "itself": ".", "file": "x"} {
		if err := os.Symlink(to, filepath.Join(dir, "a", "b", name)); err != nil {
			t.Fatal(err)
		}
	}
	if got := found(t, dir+"/a/b"); got != "" {
		t.Errorf("found %q", got)
	}
	want := "core.fsmonitor (" + dir + "/c/store/config)"
	for name, to := range map[string]string{"above it": "../../c", "it": "../../c/store", "below it": "../../c/store/below"} {
		link := filepath.Join(dir, "a", "b", name)
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
		if got := found(t, dir+"/a/b"); got != want {
			t.Errorf("a link to the folder %s: found %q, want %q", name, got, want)
		}
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRepositoryOfAWorktreeIsRead(t *testing.T) {
	dir := repo(t)
	git(t, dir, "worktree", "add", "-q", "../other")
	write(t, dir+"/.git/config", evil)
	other := filepath.Join(filepath.Dir(dir), "other")
	if got, want := found(t, other), "core.fsmonitor ("+dir+"/.git/config)"; got != want {
		t.Errorf("found %q, want %q", got, want)
	}
}

// The git that the finder runs starts no program and reads only the
// configuration that it is given, whatever the environment contains.
func TestReadingRunsNothing(t *testing.T) {
	dir := repo(t)
	mark := filepath.Join(dir, "ran")
	write(t, dir+"/.git/config", "[core]\n\tfsmonitor = touch "+mark+"\n\tpager = touch "+mark+"\n[alias]\n\tconfig = !touch "+mark+"\n[pager]\n\tconfig = touch "+mark+"\n")
	write(t, dir+"/home/.gitconfig", "[core]\n\teditor = x\n")
	t.Setenv("HOME", dir+"/home")
	for name, value := range map[string]string{
		"GIT_DIR": dir + "/.git", "GIT_CONFIG_PARAMETERS": "'core.editor'='x'", "GIT_PAGER": "touch " + mark,
		"GIT_TRACE2": mark, "GIT_TRACE": mark, "GIT_EXEC_PATH": dir, "GIT_CONFIG_COUNT": "many",
	} {
		t.Setenv(name, value)
	}
	want := "alias.config (.git/config), core.fsmonitor (.git/config), core.pager (.git/config), pager.config (.git/config)"
	if got := found(t, dir); got != want {
		t.Errorf("found %q, want %q", got, want)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("something ran")
	}
}

func TestConfigurationNeedsGit(t *testing.T) {
	dir := repo(t)
	t.Setenv("PATH", "."+string(os.PathListSeparator)+"bin")
	if _, err := Find(t.Context(), os.Environ(), dir); !errors.Is(err, ErrNoGit) {
		t.Errorf("error %v", err)
	}
	if got, err := Find(t.Context(), os.Environ(), t.TempDir()); got != nil || err != nil {
		t.Errorf("a folder without a repository: %v %v", got, err)
	}
}

func TestConfigurationsAreBounded(t *testing.T) {
	dir := repo(t)
	var list strings.Builder
	list.WriteString("[include]\n")
	for i := range maxFiles {
		name := "f" + strconv.Itoa(i)
		write(t, dir+"/.git/"+name, "")
		list.WriteString("path = " + name + "\n")
	}
	write(t, dir+"/.git/config", list.String())
	if _, err := Find(t.Context(), os.Environ(), dir); err == nil || !strings.Contains(err.Error(), "500") {
		t.Errorf("error %v", err)
	}
}

func TestNearestFoldersAreLookedAtFirst(t *testing.T) {
	dir := repo(t)
	for _, name := range []string{"a/b/c/d/", "z/"} {
		git(t, "", "init", "-q", "--bare", filepath.Join(dir, name))
		write(t, filepath.Join(dir, name, "config"), evil)
	}
	f := newFinder(t.Context(), os.Environ(), 40)
	f.walk(dir)
	if got, want := Describe(f.found, dir), "core.fsmonitor (z/config)"; got != want || f.err != nil {
		t.Errorf("found %q, want %q; error %v", got, want, f.err)
	}
}

// The finder finds the repository in a folder even if the folder has more
// entries than the bound.
func TestFilesHideNoRepository(t *testing.T) {
	for _, name := range []string{".", "bare"} {
		dir := repo(t)
		at := filepath.Join(dir, name)
		if name == "bare" {
			git(t, "", "init", "-q", "--bare", at)
			write(t, at+"/config", evil)
		} else {
			write(t, dir+"/.git/config", evil)
		}
		for i := range 50 {
			write(t, filepath.Join(at, strconv.Itoa(i), "x"), "")
		}
		f := newFinder(t.Context(), os.Environ(), 20)
		f.walk(at)
		if len(f.found) != 1 || f.left > 0 {
			t.Errorf("%s: found %v with %d entries left", name, f.found, f.left)
		}
	}
}

func TestFindingsAreDescribedInOneLine(t *testing.T) {
	var list []Finding
	for i := range 25 {
		list = append(list, Finding{Key: "filter.a\nb" + strconv.Itoa(i) + ".clean", File: "/x/.git/config"})
	}
	got := Describe(list, "/x")
	if strings.Contains(got, "\n") || !strings.HasSuffix(got, ", and 5 more") || !strings.Contains(got, "(.git/config)") {
		t.Errorf("%q", got)
	}
}

func TestPinsHoldInRepositories(t *testing.T) {
	dir := repo(t)
	mark := filepath.Join(dir, "ran")
	write(t, dir+"/.git/hooks/post-index-change", "#!/bin/sh\ntouch "+mark+"\n")
	if err := os.Chmod(dir+"/.git/hooks/post-index-change", 0o700); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "config", "core.fsmonitor", "touch "+mark+" #")
	git(t, "", "init", "-q", "--bare", dir+"/bare")
	home := t.TempDir()
	write(t, home+"/.gitconfig", "[core]\n\tsshCommand = ssh -i mine\n[user]\n\tname = a\n\temail = a\n")
	env := Pin(t.Context(), []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.abbrev", "GIT_CONFIG_VALUE_0=7"})
	pinned := func(at string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir, cmd.Env = at, env
		out, _ := cmd.CombinedOutput()
		return strings.TrimSpace(string(out))
	}
	pinned(dir, "add", "-A")
	pinned(dir, "status")
	if _, err := os.Stat(mark); err == nil {
		t.Error("a program of the repository ran")
	}
	for key, want := range map[string]string{
		"core.fsmonitor": "false", "core.hooksPath": os.DevNull, "core.pager": "cat", "core.sshCommand": "ssh -i mine",
		"core.abbrev": "7", "safe.bareRepository": "explicit",
	} {
		if got := pinned(dir, "config", key); got != want {
			t.Errorf("%s = %q, want %q", key, got, want)
		}
	}
	if got := pinned(dir+"/bare", "rev-parse", "--git-dir"); !strings.Contains(got, "safe.bareRepository") {
		t.Errorf("a bare repository that nobody named: %s", got)
	}
	if env := Pin(t.Context(), []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}); !slices.Contains(env, "GIT_CONFIG_VALUE_3=ssh") {
		t.Errorf("without a setting of the user's: %v", env)
	}
}
