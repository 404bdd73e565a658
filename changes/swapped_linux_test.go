package changes

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/internal/testload"
)

// exchange swaps two names in the folder again and again, as an agent in a
// sandbox can, until stop is called or the test ends.
func (rg *rig) exchange(a, b string) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(rg.folder.Dir, a), unix.AT_FDCWD, filepath.Join(rg.folder.Dir, b), unix.RENAME_EXCHANGE)
			}
		}
	}()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			close(done)
			<-ended
		}
	}
	rg.t.Cleanup(stop)
	return stop
}

// outside creates a folder outside of the project with a file id, and a link to
// the folder in the project, and returns the path of the file. Git ignores the
// link.
func (rg *rig) outside() (id string) {
	rg.t.Helper()
	id = filepath.Join(filepath.Dir(rg.folder.Dir), "outside", "id")
	rg.write(id, "a secret\n")
	rg.put(".git/info/exclude", "/link\n")
	if err := os.Symlink(filepath.Dir(id), filepath.Join(rg.folder.Dir, "link")); err != nil {
		rg.t.Fatal(err)
	}
	return id
}

// swapped is a closed folder in whose subfolder d a program that races with git
// lets d lead out of the folder.
type swapped struct {
	*rig
	id string // file outside, with the name of d/id
}

// newSwapped creates a repository with d/id that is changed and not staged.
func newSwapped(t *testing.T) *swapped {
	rg := newRig(t)
	rg.put("d/id", "first\n")
	rg.run("add", ".")
	rg.run("commit", "--quiet", "--message", "id")
	rg.put("d/id", "changed\n")
	rg.folder.Closed = true
	return &swapped{rg, rg.outside()}
}

// A swapAttack races with git once, and returns what it gained, or "".
type swapAttack func(s *swapped) string

// attacks returns the attacks on the operations that read or write files of the
// folder.
func attacks() map[string]swapAttack {
	return map[string]swapAttack{
		"diff": func(s *swapped) string {
			d, err := s.git.Diff(s.t.Context(), s.folder, "d/id", Unstaged, 3)
			if err == nil && strings.Contains(strings.Join(linesOf(d), "\n"), "a secret") {
				return "a diff shows a file outside of the folder"
			}
			return ""
		},
		"stage": func(s *swapped) string {
			_ = s.git.Stage(s.t.Context(), s.folder, choices("d/id"), true)
			if strings.Contains(s.run("cat-file", "blob", ":d/id"), "a secret") {
				return "a file outside of the folder was staged"
			}
			return ""
		},
		"revert": func(s *swapped) string {
			if seen, err := seen(s.folder.Dir, "d/id"); err == nil {
				_, _ = s.git.Revert(s.t.Context(), s.folder, "d/id", seen, true)
			}
			if b, err := os.ReadFile(s.id); err != nil || string(b) != "a secret\n" {
				return "a file outside of the folder was reverted"
			}
			return ""
		},
	}
}

// race repeats an attack and returns what it gained, or "".
func (s *swapped) race(attack swapAttack, tries int) (gain string) {
	stop := s.exchange("d", "link")
	defer stop()
	for range tries {
		if gain = attack(s); gain != "" {
			return gain
		}
	}
	return ""
}

// An agent in a sandbox replaces a folder by a link while git of the server
// works. Git itself does not always notice that.
func TestGitStaysInFolderWhoseFoldersAreReplaced(t *testing.T) {
	testload.TakesLong(t)
	tries := 4
	if os.Getenv("RUNNEL_LONG") != "" {
		tries = 60
	}
	for name, attack := range attacks() {
		t.Run(name, func(t *testing.T) {
			if gain := newSwapped(t).race(attack, tries); gain != "" {
				t.Error(gain)
			}
		})
	}
}

// The attacks work if the kernel does not restrict git; otherwise
// TestGitStaysInFolderWhoseFoldersAreReplaced proves nothing.
func TestAttacksOnFoldersWork(t *testing.T) {
	if os.Getenv("RUNNEL_LONG") == "" {
		t.Skip("depends on luck, so it runs only with RUNNEL_LONG")
	}
	for name, attack := range attacks() {
		t.Run(name, func(t *testing.T) {
			s := newSwapped(t)
			s.git.unconfined = true
			if gain := s.race(attack, 2000); gain == "" {
				t.Error("the attack gained nothing")
			}
		})
	}
}

// An agent in the sandbox of a folder around the session's folder can replace
// that folder by a link, too, just when git has listed the files. The server
// itself reads and removes files that git does not know yet.
func TestServerStaysInFolderThatIsReplaced(t *testing.T) {
	rg := newRig(t)
	id := rg.outside()
	link := filepath.Join(rg.folder.Dir, "link")
	d := &Diff{}
	d.Path = "id"
	if err := d.untracked(link); err == nil || len(d.Hunks) > 0 {
		t.Errorf("a diff shows a file outside of the folder: %v, %v", d.Hunks, err)
	}
	if got, err := seen(link, "id"); err == nil {
		t.Errorf("a file outside of the folder was read: %s", got)
	}
	if err := remove(link, "id"); err == nil {
		t.Error("a file outside of the folder was removed")
	}
	if _, err := os.Stat(id); err != nil {
		t.Error(err)
	}
}

// A link in the place of a submodule's repository would show the commit that
// another repository has checked out.
func TestSubmoduleShowsNothingOfAnotherRepository(t *testing.T) {
	testload.TakesLong(t)
	t.Parallel()
	for _, unconfined := range []bool{false, true} {
		rg, other := newRig(t), newRig(t)
		head := other.run("rev-parse", "HEAD")
		rg.run("update-index", "--add", "--cacheinfo", "160000,"+strings.Repeat("1", len(head))+",module")
		rg.put("module/.git", "gitdir: "+filepath.Join(other.folder.Dir, ".git")+"\n")
		rg.git.trustCheck, rg.git.unconfined = true, unconfined
		if !rg.shows(head) {
			t.Error("the attack does not work on an open folder")
		}
		rg.folder.Closed = true
		if st := rg.status(); st.State != StateReady {
			t.Errorf("unconfined=%t: got %+v", unconfined, st)
		}
		if rg.shows(head) {
			t.Errorf("unconfined=%t: a diff shows the commit of another repository", unconfined)
		}
	}
}

// The user's configuration of git applies in a closed folder, too.
func TestUsersConfigurationAppliesInClosedFolder(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	rg.write(filepath.Join(rg.home, "ignored"), "*.log\n")
	rg.write(filepath.Join(rg.home, "more.cfg"), "[core]\n\texcludesFile = ~/ignored\n")
	rg.write(filepath.Join(rg.home, ".config/git/attributes"), "*.bin -diff\n")
	rg.write(filepath.Join(rg.home, ".gitconfig"), "[user]\n\tname = Ada\n\temail = ada@example.com\n[include]\n\tpath = more.cfg\n")
	rg.put("x.log", "ignored\n")
	rg.put("x.bin", "text\n")
	rg.put("sub/.gitignore", "*.tmp\n")
	rg.put("sub/x.tmp", "ignored\n")
	rg.folder.Closed = true
	equal(t, "files", rg.files(), "sub/.gitignore unstaged:create untracked, x.bin unstaged:create untracked")
	rg.stage("x.bin")
	equal(t, "binary", rg.diff("x.bin", Staged).Binary, true)
	rg.commit("second")
	equal(t, "author", rg.run("log", "-1", "--format=%an"), "Ada")
}

// Git applies the patterns of the folders above the session's folder.
func TestPatternsOfFoldersAboveApplyInClosedFolder(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	rg.put(".gitignore", "*.log\n")
	rg.put("sub/x.log", "ignored\n")
	rg.put("sub/b.txt", "changed\n")
	rg.folder.Dir, rg.folder.Closed = filepath.Join(rg.folder.Dir, "sub"), true
	equal(t, "files", rg.files(), "b.txt unstaged:update")
	rg.revert("b.txt", Unstaged)
	equal(t, "file", rg.read("b.txt"), "b\n")
}

// A program that signs a commit reads a key outside of the folder, and writes
// temporary files.
func TestCommitInClosedFolderIsSigned(t *testing.T) {
	t.Parallel()
	keygen, err := exec.LookPath("ssh-keygen")
	if err != nil {
		t.Skip("there is no ssh-keygen")
	}
	rg := newRig(t)
	key := filepath.Join(rg.home, ".ssh", "id")
	if err := os.MkdirAll(filepath.Dir(key), 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), keygen, "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	rg.write(filepath.Join(rg.home, ".gitconfig"), "[user]\n\tname = Ada\n\temail = ada@example.com\n\tsigningKey = "+key+"\n[gpg]\n\tformat = ssh\n[commit]\n\tgpgSign = true\n")
	rg.folder.Closed = true
	rg.put("a.txt", "changed\n")
	rg.stage("a.txt")
	rg.commit("second")
	if text := rg.run("cat-file", "commit", "HEAD"); !strings.Contains(text, "BEGIN SSH SIGNATURE") {
		t.Errorf("the commit is not signed:\n%s", text)
	}
}
