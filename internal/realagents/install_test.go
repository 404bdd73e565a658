package realagents_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/internal/testexec"
)

// An agent that requires a newer Node.js than systemNode is started with the
// Node.js in node_modules. For other agents, Find returns the program that npm
// installed.
func TestFindSelectsRequiredNodeVersion(t *testing.T) {
	if testing.Short() {
		t.Skip("-short finds no agents")
	}
	t.Setenv("RUNNEL_SKIP_REAL_AGENTS", "")
	t.Setenv("RUNNEL_AGENTS", "")
	dir := filepath.Join(t.TempDir(), "with ' quote")
	t.Setenv("RUNNEL_AGENTS_DIR", dir)
	put := func(path, text string) string {
		path = filepath.Join(dir, "node_modules", filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := testexec.Write(path, text); err != nil {
			t.Fatal(err)
		}
		return path
	}
	node := put("node/bin/node", "#!/bin/sh\necho node \"$@\"\n")
	for _, tt := range []struct {
		agent, module, engines, program string
		newer                           bool
	}{
		{"qwen", "@qwen-code/qwen-code", ">=22.0.0", "#!/usr/bin/env node\n", true},
		{"claude-agent-acp", "@agentclientprotocol/claude-agent-acp", ">= 24", "#!/usr/bin/env node\n", true},
		{"gemini", "@google/gemini-cli", ">=20", "#!/usr/bin/env node\n", true},                // its newerNode is set
		{"codex-acp", "@agentclientprotocol/codex-acp", ">=20", "#!/usr/bin/env node\n", true}, // as gemini
		{"codex", "@openai/codex", "", "#!/usr/bin/env node\n", false},
		{"claude-code", "claude-code", ">=22.0.0", "\x7fELF", false},
	} {
		command := map[string]string{"claude-code": "claude"}[tt.agent]
		if command == "" {
			command = tt.agent
		}
		put(tt.module+"/package.json", `{"version":"9.8.7","bin":{"`+command+`":"dist/main.js"},"engines":{"node":"`+tt.engines+`"}}`)
		program := put(tt.module+"/dist/main.js", tt.program)
		b := realagents.Find(t, tt.agent)
		if b.Version != "9.8.7" || (b.Path != program) != tt.newer {
			t.Errorf("%s: found %+v", tt.agent, b)
		}
		if !tt.newer {
			continue
		}
		link := filepath.Join(t.TempDir(), "linked")
		if err := os.Symlink(b.Path, link); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(link, "--acp", "two words").Output()
		if want := "node " + program + " --acp two words\n"; err != nil || string(out) != want {
			t.Errorf("%s: %q, %v; want %q", tt.agent, out, err, want)
		}
	}
	if err := os.Remove(node); err != nil {
		t.Fatal(err)
	}
	if got := outcome(t, func(t testing.TB) { realagents.Find(t, "qwen") }); got != "fatal" {
		t.Errorf("without a newer Node.js: %q, want fatal", got)
	}
}
