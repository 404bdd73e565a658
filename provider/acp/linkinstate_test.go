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
			startWithLink(t, "gemini", ".gemini", tt.link, tt.refused, " is a link")
		})
	}
}

// startWithLink starts an agent with a link in its own folder.
func startWithLink(t *testing.T, agent, own, at string, refused bool, why string) {
	t.Helper()
	home := t.TempDir()
	if at != "" {
		link(t, filepath.Join(home, own, at))
	}
	refuses(t, agent, home, filepath.Join(home, own, at), refused, why)
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

// refuses checks whether the agent is refused because of a path in its state, or
// started.
func refuses(t *testing.T, agent, home, path string, refused bool, why string) {
	t.Helper()
	mark, program := filepath.Join(home, "started"), filepath.Join(home, agent)
	if err := testexec.Write(program, "#!/bin/sh\ntouch "+mark+"\n"); err != nil {
		t.Fatal(err)
	}
	p := New(known(t, agent)).(runnel.Programmable).WithProgram([]string{program}, []string{"HOME=" + home})
	_, err := p.Open(t.Context(), runnel.Options{Dir: t.TempDir()})
	if got := runnel.CodeOf(err) == runnel.SessionCreateFailed && strings.Contains(err.Error(), path+why); got != refused {
		t.Error(err)
	}
	if _, err := os.Stat(mark); (err != nil) != refused {
		t.Errorf("started: %v", err)
	}
}

// Qwen Code 0.24.4 writes without asking where a link in its memories of a project
// leads. An agent in a sandbox can write these.
func TestQwenIsNotStartedBesideLinksInItsMemories(t *testing.T) {
	for name, tt := range map[string]struct {
		link    string // in the agent's folder; "" for none
		refused bool
	}{
		"memories":              {"projects/-a/memory", true},
		"link to a folder":      {"projects/-a/memory/x", true},
		"further down":          {"projects/-a/memory/x/y/z/deep", true},
		"among conversations":   {"projects/-a/chats/x", false},
		"elsewhere in settings": {"skills/x", false},
		"none":                  {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			startWithLink(t, "qwen", ".qwen", tt.link, tt.refused, " is a link")
		})
	}
}

// An agent can enter a folder that it has made impossible to list, if it knows
// the names in it.
func TestAgentIsNotStartedBesideAFolderThatMayHaveLinks(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root can list every folder")
	}
	for name, tt := range map[string]struct{ agent, own, link, closed string }{
		"gemini": {"gemini", ".gemini", "tmp/other/11111111-2222-4333-8444-555555555555/plans", "tmp/other"},
		"qwen":   {"qwen", ".qwen", "projects/-a/memory/x/y", "projects/-a/memory/x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			closed := filepath.Join(home, tt.own, tt.closed)
			link(t, filepath.Join(home, tt.own, tt.link))
			if err := os.Chmod(closed, 0o300); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.Chmod(closed, 0o700) })
			refuses(t, tt.agent, home, closed, true, " cannot be listed")
		})
	}
}

// An agent in a sandbox can create many files.
func TestAgentIsNotStartedBesideStateThatCannotBeSearched(t *testing.T) {
	dir, left := t.TempDir(), 3
	for _, name := range []string{"a", "b/c", "d"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if at, what := linkBelow(dir, 1, &left); at != "" {
		t.Error(at, what)
	}
	left = 3
	if at, _ := linkBelow(dir, 2, &left); at != dir {
		t.Errorf("%q", at)
	}
}
