package acp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/testexec"
)

// Gemini CLI 0.61.0 reads without asking where a link in its folder for a
// directory leads. An agent in a sandbox can write these folders.
func TestGeminiIsNotStartedBesideLinksInItsState(t *testing.T) {
	for name, tt := range map[string]struct {
		link    string // in the agent's folder; "" for none
		refused bool
	}{
		"folder of a directory": {"tmp/project", true},
		"folder in it":          {"tmp/other/plans", true},
		"plans of conversation": {"tmp/other/11111111-2222-4333-8444-555555555555/plans", true},
		"below these":           {"tmp/other/tool-outputs/session-1/link", false},
		"none":                  {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			startWithLink(t, "gemini", ".gemini", tt.link, t.TempDir(), tt.refused, " is a link")
		})
	}
}

// startWithLink starts an agent in dir with a link in its own folder.
func startWithLink(t *testing.T, agent, own, at, dir string, refused bool, why string) {
	t.Helper()
	home := t.TempDir()
	if at != "" {
		link(t, filepath.Join(home, own, at))
	}
	refuses(t, agent, home, filepath.Join(home, own, at), dir, refused, why)
}

// link creates a link with the folders around it.
func link(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), path); err != nil {
		t.Fatal(err)
	}
}

// refuses checks whether the agent is refused in dir because of a path in its
// state, or started.
func refuses(t *testing.T, agent, home, path, dir string, refused bool, why string) {
	t.Helper()
	mark, program := filepath.Join(home, "started"), filepath.Join(home, agent)
	if err := testexec.Write(program, "#!/bin/sh\ntouch "+mark+"\n"); err != nil {
		t.Fatal(err)
	}
	p := New(known(t, agent)).(runnel.Programmable).WithProgram([]string{program}, []string{"HOME=" + home})
	_, err := p.Open(t.Context(), runnel.Options{Dir: dir})
	if got := runnel.CodeOf(err) == runnel.SessionCreateFailed && strings.Contains(err.Error(), path+why); got != refused {
		t.Error(err)
	}
	if _, err := os.Stat(mark); (err != nil) != refused {
		t.Errorf("started: %v", err)
	}
}

// Qwen Code 0.24.4 writes without asking where a link in its memories of the
// session's repository leads. An agent in a sandbox can write these. The memories
// of other projects do not matter.
func TestQwenIsNotStartedBesideLinksInItsMemories(t *testing.T) {
	for name, tt := range map[string]struct {
		link    string // in the agent's folder; "" for none. DIR and REPO stand for the names of folders of projects
		refused bool
	}{
		"memories":              {"projects/DIR/memory", true},
		"link to a folder":      {"projects/DIR/memory/x", true},
		"further down":          {"projects/DIR/memory/x/y/z/deep", true},
		"of the repository":     {"projects/REPO/memory/x", true},
		"of another project":    {"projects/-a/memory/x", false},
		"among conversations":   {"projects/DIR/chats/x", false},
		"elsewhere in settings": {"skills/x", false},
		"none":                  {"", false},
	} {
		for _, through := range []string{"", " by a link"} {
			t.Run(name+through, func(t *testing.T) {
				t.Parallel()
				dir, repo := folderInRepository(t)
				at := strings.NewReplacer("DIR", notAlphanumeric.ReplaceAllString(dir, "-"), "REPO", notAlphanumeric.ReplaceAllString(repo, "-")).Replace(tt.link)
				if through != "" {
					other := filepath.Join(t.TempDir(), "link")
					if err := os.Symlink(dir, other); err != nil {
						t.Fatal(err)
					}
					dir = other
				}
				startWithLink(t, "qwen", ".qwen", at, dir, tt.refused, " is a link")
			})
		}
	}
}

// folderInRepository returns a folder in a repository, and the repository.
func folderInRepository(t *testing.T) (dir, repo string) {
	t.Helper()
	repo, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(repo, "a", "b")
	for _, d := range []string{dir, filepath.Join(repo, ".git")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir, repo
}

// An agent can enter a folder that it has made impossible to list, if it knows
// the names in it.
func TestAgentIsNotStartedBesideAFolderThatMayHaveLinks(t *testing.T) {
	if testexec.Unprivileged(t) {
		return
	}
	for name, tt := range map[string]struct{ agent, own, link, closed string }{
		"gemini": {"gemini", ".gemini", "tmp/other/11111111-2222-4333-8444-555555555555/plans", "tmp/other"},
		"qwen":   {"qwen", ".qwen", "projects/DIR/memory/x/y", "projects/DIR/memory/x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home, dir := t.TempDir(), t.TempDir()
			named := strings.NewReplacer("DIR", notAlphanumeric.ReplaceAllString(dir, "-"))
			closed := filepath.Join(home, tt.own, named.Replace(tt.closed))
			link(t, filepath.Join(home, tt.own, named.Replace(tt.link)))
			if err := os.Chmod(closed, 0o300); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.Chmod(closed, 0o700) })
			refuses(t, tt.agent, home, closed, dir, true, " cannot be listed")
		})
	}
}

// An agent in a sandbox can create many files.
func TestAgentIsNotStartedBesideStateThatCannotBeSearched(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b/c", "b/d"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if at, why := linkIn(dir, 1, 3); at != "" {
		t.Error(at, why)
	}
	if at, why := linkIn(dir, 2, 3); at != dir || why != tooLarge {
		t.Errorf("%q %q", at, why)
	}
	if at, why := linkIn(dir, 2, 4); at != "" {
		t.Error(at, why)
	}
}
