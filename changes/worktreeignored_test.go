package changes

import (
	"testing"

	"github.com/runnel-dev/runnel"
)

// Nobody has the content of an ignored file but the project. By default, git
// replaces it by a file of the same name in the merged commits.
func TestMergeKeepsIgnoredFilesOfProject(t *testing.T) {
	t.Parallel()
	rg := newRig(t)
	s := rg.add()
	rg.put(".git/info/exclude", ".env\ncache\n")
	rg.put(".env", "KEY=mine\n")
	rg.put("cache/kept", "mine\n")
	for name, kept := range map[string]string{".env": ".env", "cache": "cache/kept"} {
		in := s.in()
		in.run("reset", "--quiet", "--hard", s.w.Base)
		in.put(name, "agent\n")
		in.run("add", "--force", name)
		in.run("commit", "--quiet", "--message", "agent")
		before := rg.read(kept)
		_, err := s.merge("")
		expect(t, err, runnel.GitFailed, name)
		equal(t, kept, rg.read(kept), before)
		equal(t, "last commit", rg.run("rev-parse", "HEAD"), s.w.Base)
	}
}
