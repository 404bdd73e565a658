package changes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
)

// lfs stores the contents of files as Git LFS does, in the git directory.
const lfs = `#!/bin/sh
store="$(git rev-parse --git-common-dir)/lfs/objects"
at() { echo "$store/$(echo "$1" | cut -c1-2)/$(echo "$1" | cut -c3-4)"; }
case $1 in
clean)
	mkdir -p "$store" && part=$(mktemp "$store/part-XXXXXX") && cat > "$part" && id=$(git hash-object --stdin < "$part") || exit 1
	mkdir -p "$(at "$id")" && mv "$part" "$(at "$id")/$id" && echo "oid $id" ;;
smudge)
	read -r _ id && [ ! -e "$store/broken" ] || exit 1
	if [ -e "$(at "$id")/$id" ]; then cat "$(at "$id")/$id"
	elif [ "$GIT_LFS_SKIP_SMUDGE" = 1 ]; then echo "oid $id"
	else cat "$(cat .lfsconfig)"; fi ;;
esac
`

// useLFS makes a filter of the user's configuration apply to *.bin.
func (rg *rig) useLFS() {
	rg.t.Helper()
	program := filepath.Join(rg.t.TempDir(), "git-lfs")
	rg.write(program, lfs)
	if err := os.Chmod(program, 0o755); err != nil {
		rg.t.Fatal(err)
	}
	rg.write(filepath.Join(rg.home, ".gitconfig"), settings+fmt.Sprintf("[filter \"lfs\"]\n\tclean = %s clean\n\tsmudge = %s smudge\n\trequired = true\n", program, program))
	rg.git = New(append(rg.env(), "PATH="+os.Getenv("PATH")+string(os.PathListSeparator)+filepath.Dir(program)))
	rg.put(".gitattributes", "*.bin filter=lfs\n")
	rg.put("a.bin", "first\n")
	rg.run("add", ".")
	rg.run("commit", "--quiet", "--message", "binary")
}

func TestContentsOfLFSAreKeptInTheRepository(t *testing.T) {
	t.Parallel()
	for _, closed := range []bool{false, true} {
		rg := newRig(t)
		rg.folder.Closed = closed
		rg.useLFS()
		rg.put("a.bin", "second\n")
		rg.put("b.bin", "new\n")
		rg.stage("a.bin", "b.bin")
		rg.commit("from the server")
		for _, name := range []string{"a.bin", "b.bin"} {
			if err := os.Remove(filepath.Join(rg.folder.Dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		rg.run("checkout", "--", ".") // needs the contents
		equal(t, "changed file", rg.read("a.bin"), "second\n")
		equal(t, "new file", rg.read("b.bin"), "new\n")

		rg.put("a.bin", "third\n")
		out := rg.revert("a.bin", Unstaged)
		equal(t, "reverted", rg.read("a.bin"), "second\n")
		equal(t, "kept", rg.run("cat-file", "blob", out.Kept), "third")
	}
}

func TestWorktreeHasContentsOfLFS(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	rg.useLFS()
	s := rg.add()
	in := s.in()
	equal(t, "file of the worktree", in.read("a.bin"), "first\n")
	in.put("a.bin", "agent\n")
	in.run("commit", "--quiet", "--all", "--message", "agent")
	if _, err := s.merge(""); err != nil {
		t.Fatal(err)
	}
	equal(t, "merged", rg.read("a.bin"), "agent\n")
}

func TestLFSWritesNothingElsewhere(t *testing.T) {
	t.Parallel()
	for _, link := range []string{"lfs", "lfs/objects", "lfs/tmp", "lfs/objects/12", "lfs/objects/12/34", "lfs/objects/12/34/file"} {
		rg := newRig(t)
		rg.useLFS()
		path, outside := filepath.Join(rg.folder.Dir, ".git", filepath.FromSlash(link)), t.TempDir()
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, path); err != nil {
			t.Fatal(err)
		}
		rg.put("b.bin", "new\n")
		err := rg.git.Stage(t.Context(), rg.folder, choices("b.bin"), true)
		expect(t, err, runnel.GitFailed, "trusted folders only")
		if found, err := os.ReadDir(outside); err != nil || len(found) > 0 {
			t.Errorf("%s: wrote %v, %v", link, found, err)
		}
	}
	rg := newRig(t)
	rg.useLFS()
	rg.run("config", "lfs.storage", t.TempDir())
	expect(t, rg.git.Stage(t.Context(), rg.folder, choices("a.txt"), true), runnel.GitFailed, "lfs.storage")
}

func TestLFSLeavesNoEmptyFolder(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	rg.useLFS()
	rg.run("rm", "--quiet", "a.bin")
	if err := os.RemoveAll(filepath.Join(rg.folder.Dir, ".git", "lfs")); err != nil {
		t.Fatal(err)
	}
	rg.put("a.txt", "changed\n")
	rg.stage("a.txt")
	if _, err := os.Lstat(filepath.Join(rg.folder.Dir, ".git", "lfs")); !os.IsNotExist(err) {
		t.Errorf("got %v", err)
	}
}

func TestFailedRevertNamesWhatItKept(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	rg.useLFS()
	rg.put("a.bin", "mine\n")
	seen := rg.diff("a.bin", Unstaged).Seen
	rg.put(".git/lfs/objects/broken", "") // git removes the file before the filter fails
	_, err := rg.git.Revert(t.Context(), rg.folder, "a.bin", seen, true)
	_, kept, ok := strings.Cut(fmt.Sprint(err), "git cat-file blob ")
	if !ok {
		t.Fatalf("got %v", err)
	}
	equal(t, "kept", rg.run("cat-file", "blob", kept), "mine")
}

func TestLFSDownloadsNothing(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	rg.useLFS()
	from := filepath.Join(t.TempDir(), "elsewhere")
	rg.write(from, "downloaded\n")
	rg.put(".lfsconfig", from)
	if err := os.RemoveAll(filepath.Join(rg.folder.Dir, ".git", "lfs")); err != nil {
		t.Fatal(err)
	}
	s := rg.add()
	if got := s.in().read("a.bin"); !strings.HasPrefix(got, "oid ") {
		t.Errorf("got %q, want a pointer to the content", got)
	}
}
