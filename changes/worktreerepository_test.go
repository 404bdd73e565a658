package changes

import (
	"os"
	"testing"

	"github.com/runnel-dev/runnel"
)

// Git does not count the .git of a folder with tracked files among the files that
// nobody else has.
func TestMergeKeepsRepositoriesInTrackedFolders(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(in *rig){
		"by a file": func(in *rig) { in.put("sub", "agent\n") },
		"by a link": func(in *rig) {
			if err := os.Symlink("a.txt", in.at("sub")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			rg := newRig(t)
			s := rg.add()
			rg.run("init", "--quiet", "sub")
			rg.run("-C", "sub", "commit", "--quiet", "--allow-empty", "--message", "only here")
			in := s.in()
			in.run("rm", "-r", "--quiet", "sub")
			replace(in)
			in.run("add", "sub")
			in.run("commit", "--quiet", "--message", "agent")
			_, err := s.merge("")
			expect(t, err, runnel.GitFailed, "sub")
			if _, err := os.Lstat(rg.at("sub/.git")); err != nil {
				t.Error(err)
			}
		})
	}
}
