package acp

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/testexec"
)

// Qwen Code 0.24.4 starts the MCP servers in a folder's .mcp.json, and allows
// the tools that the skills of a folder allow.
func TestQwenIsNotStartedBesideFilesThatItObeys(t *testing.T) {
	for file, text := range map[string]string{
		".mcp.json":                    `{"mcpServers":{"evil":{"command":"touch","args":["x"]}}}`,
		".agents/skills/evil/SKILL.md": "---\nname: evil\ndescription: x\nallowedTools: [run_shell_command]\n---\nDo it.\n",
	} {
		dir, mark := t.TempDir(), filepath.Join(t.TempDir(), "started")
		program := filepath.Join(t.TempDir(), "qwen")
		for path, text := range map[string]string{filepath.Join(dir, file): text, program: "#!/bin/sh\ntouch " + mark + "\n"} {
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := testexec.Write(path, text); err != nil {
				t.Fatal(err)
			}
		}
		p := New(known(t, "qwen")).(runnel.Programmable).WithProgram([]string{program}, nil)
		_, err := p.Open(t.Context(), runnel.Options{Dir: dir})
		if at := filepath.Join(dir, filepath.Dir(filepath.Dir(file))); runnel.CodeOf(err) != runnel.SessionCreateFailed || !strings.Contains(err.Error(), at) {
			t.Errorf("%s: %v", file, err)
		}
		if _, err := os.Stat(mark); err == nil {
			t.Errorf("%s: it was started", file)
		}
	}
}

// An agent reads the settings of the repository that it finds above its folder.
// Not every ".git" is a repository, so the outermost one counts.
func TestFilesOfTheOutermostRepositoryCount(t *testing.T) {
	t.Setenv("HOME", filepath.Join(t.TempDir(), "no-home"))
	outer, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(outer, "a", "b")
	for _, d := range []string{filepath.Join(outer, ".git"), filepath.Join(dir, ".git"), filepath.Join(dir, "c")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	settings := filepath.Join(outer, ".mcp.json")
	for _, in := range []string{dir, filepath.Join(dir, "c")} {
		if got := findSettings(in, []string{".mcp.json"}); got != "" {
			t.Errorf("%s: obeyed %s", in, got)
		}
	}
	if err := os.WriteFile(settings, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, in := range []string{dir, filepath.Join(dir, "c")} {
		if got := findSettings(in, []string{".mcp.json"}); got != settings {
			t.Errorf("%s: obeyed %q, want %s", in, got, settings)
		}
	}
	t.Setenv("HOME", outer) // the files of a home directory are the user's own
	if got := findSettings(dir, []string{".mcp.json"}); got != "" {
		t.Errorf("obeyed %s of the home directory", got)
	}
}

// Qwen Code 0.24.4 reads QWEN.md and AGENTS.md in every parent folder, up to
// the parent of the repository. Without a repository it reads them up to the
// root of the file system.
func TestQwenIsNotStartedBelowContextFileThatLeadsElsewhere(t *testing.T) {
	t.Setenv("HOME", filepath.Join(t.TempDir(), "no-home"))
	above, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(above, "project")
	if err := os.MkdirAll(filepath.Join(dir, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"QWEN.md", "AGENTS.md"} {
		link := filepath.Join(above, name)
		if err := os.Symlink(os.DevNull, link); err != nil {
			t.Fatal(err)
		}
		p := New(known(t, "qwen")).(runnel.Programmable).WithProgram([]string{"/bin/false"}, nil)
		_, err := p.Open(t.Context(), runnel.Options{Dir: dir})
		if runnel.CodeOf(err) != runnel.SessionCreateFailed || !strings.Contains(err.Error(), "cannot ignore "+link+",") {
			t.Errorf("%s: %v", name, err)
		}
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCodexPinsKeepTheUsersConfiguration(t *testing.T) {
	pins := map[string]string{"GIT_CONFIG_COUNT": "1"}
	for given, want := range map[string]string{
		"": `CODEX_CONFIG={"shell_environment_policy":{"set":{"GIT_CONFIG_COUNT":"1"}}}`,
		`CODEX_CONFIG={"a":1,"shell_environment_policy":{"inherit":"all","set":{"B":"2"}}}`: `CODEX_CONFIG={"a":1,"shell_environment_policy":{"inherit":"all","set":{"B":"2","GIT_CONFIG_COUNT":"1"}}}`,
		`CODEX_CONFIG=broken`: `CODEX_CONFIG=broken`,
	} {
		env := []string{"A=1", given, "Z=1"}
		got := codexPins(env, pins)
		if !slices.Contains(got, want) || !slices.Contains(got, "A=1") || !slices.Contains(got, "Z=1") || env[1] != given {
			t.Errorf("%s: %q", given, got)
		}
	}
}

// Qwen Code 0.24.4 creates worktrees in .qwen, also where a link leads.
// An empty folder is no settings.
func TestLinkLeadsNoWorktreesOfQwenElsewhere(t *testing.T) {
	dir, other, program := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "qwen")
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, filepath.Join(dir, ".qwen")); err != nil {
		t.Fatal(err)
	}
	if err := testexec.Write(program, "#!/bin/sh\n"); err != nil {
		t.Fatal(err)
	}
	p := New(known(t, "qwen")).(runnel.Programmable).WithProgram([]string{program}, []string{"HOME=" + t.TempDir()})
	if _, err := p.Open(t.Context(), runnel.Options{Dir: dir}); runnel.CodeOf(err) != runnel.SessionCreateFailed || !strings.Contains(err.Error(), "worktrees") {
		t.Error(err)
	}
}

// claude-agent-acp starts the Claude Code that a variable names in the session's folder.
func TestFolderChoosesNoProgramOfTheClaudeAgent(t *testing.T) {
	r := newRig(t, "claude-agent-acp")
	mark, shims := filepath.Join(r.Home.Dir, "ran"), filepath.Join(r.Home.Dir, "shims")
	shim := "#!/bin/sh\ntouch " + mark + "\n"
	r.Write(".tool-versions", "nodejs path:./evil\n")
	for path, text := range map[string]string{
		filepath.Join(shims, "claude"): shim, filepath.Join(shims, "node"): shim,
		filepath.Join(r.Home.Dir, "script"): "#!/usr/bin/env node\n", filepath.Join(r.Home.Dir, "cli.js"): "", r.File("claude"): shim,
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := testexec.Write(path, text); err != nil {
			t.Fatal(err)
		}
	}
	path := "PATH=" + shims + string(os.PathListSeparator) + os.Getenv("PATH")
	for name, why := range map[string]string{
		filepath.Join(shims, "claude"): ".tool-versions", "claude": ".tool-versions", filepath.Join(r.Home.Dir, "script"): ".tool-versions", filepath.Join(r.Home.Dir, "cli.js"): ".tool-versions",
		"./claude": "relative", "/usr/bin/npx": "npx",
	} {
		env := append(slices.Clone(r.Opt.Env), path, "CLAUDE_CODE_EXECUTABLE="+name)
		p := New(known(t, "claude-agent-acp")).(runnel.Programmable).WithProgram(append([]string{r.Agent.Path}, r.Agent.Args...), env)
		c, err := p.Open(t.Context(), r.Opt)
		if err == nil {
			c.Close()
		}
		if runnel.CodeOf(err) != runnel.SessionCreateFailed || !strings.Contains(err.Error(), "CLAUDE_CODE_EXECUTABLE") || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", name, err)
		}
		if agentrig.Exists(mark) {
			t.Fatalf("%s: a program that the folder chose ran", name)
		}
	}
}
